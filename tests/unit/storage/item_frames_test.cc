// The items in a chunk's frame.
#include "runtime/base/limits.h"
#include "storage/segment/codec.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;
using Bytes = std::vector<uint8_t>;

class ItemFrames : public testing::Test {
 protected:
  static constexpr size_t kItemsAt = kFrameHeaderBytes + 4 + 4 * Chain::kBlock;

  Bytes encode(uint32_t group = 0) {
    auto encoded =
        codec_.encode({node_.key, node_.parent, node_.tokens, 3, 2, chain_.payloads[0], ChunkCodec::kDefault, group, node_.items});
    EXPECT_OK(encoded.status());
    return Bytes(encoded->begin(), encoded->end());
  }
  static void reseal(Bytes* frame) {
    const size_t body = frame->size() - kChecksumBytes;
    const Checksum128 sum = checksum128({frame->data(), body});
    std::memcpy(frame->data() + body, &sum.low, 8);
    std::memcpy(frame->data() + body + 8, &sum.high, 8);
  }
  // The frame with another u32 at `at`, and a right checksum.
  static Bytes changed(Bytes frame, size_t at, uint32_t value) {
    std::memcpy(frame.data() + at, &value, sizeof value);
    reseal(&frame);
    return frame;
  }
  Status decode(const Bytes& frame, const NodeIn& node, uint32_t group = 0, uint8_t item_tag_max = kItemTag) {
    Bytes out(chain_.payloads[0].size());
    Status status = codec_.decode(frame, node, group, 3, out, item_tag_max);
    EXPECT_TRUE(!status.is_ok() || out == chain_.payloads[0]);
    return status;
  }
  void expect_damage(const Bytes& frame, const char* what) {
    FrameHeader header;
    for (const Status& status : {decode(frame, node_), codec_.check(frame, &header)}) {
      EXPECT_EQ(status.code(), Code::kCorrupt) << what;
      EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
    }
  }

  Chain chain_{token_run(Chain::kBlock), 64, 1, {one_item(5)}};
  const NodeIn& node_ = chain_.nodes[0];
  Codec codec_;
};

TEST_F(ItemFrames, BytesAreAsDocumented) {
  const Bytes frame = encode();
  EXPECT_EQ(frame[4], 3);
  const uint32_t words = 1 + Chain::kBlock + 2, n = Chain::kBlock;
  EXPECT_EQ(load<uint32_t>(&frame[104]), words);
  EXPECT_EQ(load<uint32_t>(&frame[kFrameHeaderBytes]), n);
  EXPECT_EQ(std::memcmp(&frame[kFrameHeaderBytes + 4], node_.tokens.data(), node_.tokens.size_bytes()), 0);
  EXPECT_EQ(std::memcmp(&frame[kItemsAt], node_.items.data(), node_.items.size()), 0);
  EXPECT_EQ(frame[kItemsAt + 8], chain_.payloads[0][0]) << "the planes follow";
}

TEST_F(ItemFrames, RoundTrip) {
  for (const uint32_t group : {0u, 1u, 31u}) {
    const Bytes frame = encode(group);
    FrameHeader header;
    ASSERT_OK(codec_.check(frame, &header));
    EXPECT_TRUE(std::ranges::equal(header.tokens, node_.tokens));
    EXPECT_TRUE(std::ranges::equal(header.items, node_.items));
    EXPECT_EQ(header.group, group);
    EXPECT_OK(decode(frame, node_, group));
  }
  NodeIn other = node_;
  for (const Bytes& items : {Bytes(), one_item(4), one_item(5, 1), one_item(5, kItemTag, "itfm")}) {
    other.items = items;
    EXPECT_EQ(decode(encode(), other).code(), Code::kCorrupt);
  }
}

// The bytes that 0.1 and its followers wrote are all that a block without items ever has.
TEST_F(ItemFrames, NoItemsAreNoNewVersion) {
  NodeIn bare = node_;
  bare.items = {};
  for (const uint32_t group : {0u, 1u}) {
    auto frame = codec_.encode({node_.key, node_.parent, node_.tokens, 3, 2, chain_.payloads[0], ChunkCodec::kDefault, group});
    ASSERT_OK(frame.status());
    EXPECT_EQ((*frame)[4], 1 + group);
    EXPECT_EQ(load<uint32_t>(frame->data() + 104), Chain::kBlock);
    EXPECT_EQ(decode(Bytes(frame->begin(), frame->end()), node_, group).code(), Code::kCorrupt) << "without its items it is another chunk";
  }
}

TEST_F(ItemFrames, AnUnknownTagIsOfANewerKvrt) {
  const Bytes frame = encode();
  const Status status = decode(frame, node_, 0, kItemTag - 1);
  EXPECT_EQ(status.code(), Code::kIncompatible);
  EXPECT_EQ(status.detail(), Detail::kStoreTooNew);
  NodeIn bare = node_;
  bare.items = {};
  EXPECT_EQ(decode(frame, bare, 0, 0).code(), Code::kIncompatible) << "never damage";
  FrameHeader header;
  EXPECT_OK(codec_.check(frame, &header));
  EXPECT_EQ(decode(changed(frame, 108, 32), node_, 32).code(), Code::kIncompatible) << "nor is a number of a newer kvrt";
  EXPECT_EQ(decode(changed(frame, 4, 4), node_).code(), Code::kIncompatible) << "or a version";
}

TEST_F(ItemFrames, BrokenListsAreDamage) {
  const Bytes frame = encode();
  expect_damage(changed(frame, kItemsAt, 5 | kItemTag << 16 | 5u << 24), "past the end");
  expect_damage(changed(frame, kItemsAt, 5 | kItemTag << 16 | 0xffu << 24), "past the end");
  expect_damage(changed(frame, kItemsAt, Chain::kBlock | kItemTag << 16 | 4u << 24), "the block has not");
  expect_damage(changed(frame, kItemsAt, 5 | 4u << 24), "tag of a token");
  expect_damage(changed(frame, kItemsAt, 5 | kItemTag << 16 | 3u << 24), "other bytes than zeros");
  Bytes reversed = changed(frame, kItemsAt, 5 | kItemTag << 16);
  expect_damage(changed(reversed, kItemsAt + 4, 4 | kItemTag << 16), "lower row");
}

// Counts that do not fit: before anything is allocated for them.
TEST_F(ItemFrames, CountsAreChecked) {
  const Bytes frame = encode();
  const uint32_t words = 1 + Chain::kBlock + 2;
  for (const uint32_t n : {words - 1, words, words + 1, 1u << 31, ~0u}) {
    expect_damage(changed(frame, kFrameHeaderBytes, n), "tokens and items in");
  }
  for (const uint32_t w : {0u, 1u, words - 1, words + 1, 1u << 31, ~0u}) expect_damage(changed(frame, 104, w), "its header says");
  EXPECT_EQ(decode(changed(frame, 4, 1), node_).code(), Code::kCorrupt) << "the words of another version are other tokens";
}

TEST_F(ItemFrames, RefusesWhatItCannotStore) {
  Bytes many, out_of_order = one_item(5);
  for (size_t i = 0; i <= kBlockItemsMax; i++) append_item({0, 1, {}}, &many);
  append_item({4, 1, {}}, &out_of_order);
  for (const Bytes& items : {many, out_of_order, one_item(Chain::kBlock), Bytes{1, 0, 1}, Bytes{1, 0, 0, 0}}) {
    auto encoded = codec_.encode({node_.key, node_.parent, node_.tokens, 3, 2, chain_.payloads[0], ChunkCodec::kDefault, 0, items});
    EXPECT_EQ(encoded.status().code(), Code::kInvalid);
  }
}

TEST_F(ItemFrames, FlippedBitsAreDamage) {
  const Bytes frame = encode();
  for (size_t at = 0; at < frame.size(); at++) {
    Bytes flipped = frame;
    flipped[at] ^= 4;
    EXPECT_EQ(decode(flipped, node_).code(), Code::kCorrupt) << at;
  }
}

}  // namespace
}  // namespace kvrt
