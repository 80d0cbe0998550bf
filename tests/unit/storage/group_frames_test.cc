// The group in a chunk's frame.
#include "storage/segment/codec.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

class GroupFrames : public testing::Test {
 protected:
  std::vector<uint8_t> encode(uint32_t group) {
    auto encoded = codec_.encode({node_.key, node_.parent, node_.tokens, 3, 2, chain_.payloads[0], ChunkCodec::kDefault, group});
    EXPECT_OK(encoded.status());
    return std::vector<uint8_t>(encoded->begin(), encoded->end());
  }
  // The frame with other numbers, and a right checksum.
  static std::vector<uint8_t> changed(std::vector<uint8_t> frame, uint16_t version, uint32_t group) {
    std::memcpy(frame.data() + 4, &version, sizeof version);
    std::memcpy(frame.data() + 108, &group, sizeof group);
    const size_t body = frame.size() - kChecksumBytes;
    const Checksum128 sum = checksum128({frame.data(), body});
    std::memcpy(frame.data() + body, &sum.low, 8);
    std::memcpy(frame.data() + body + 8, &sum.high, 8);
    return frame;
  }
  Status decode(const std::vector<uint8_t>& frame, uint32_t group) {
    std::vector<uint8_t> out(chain_.payloads[0].size());
    Status status = codec_.decode(frame, node_, group, 3, out);
    EXPECT_TRUE(!status.is_ok() || out == chain_.payloads[0]);
    return status;
  }

  Chain chain_{token_run(16)};
  const NodeIn& node_ = chain_.nodes[0];
  Codec codec_;
};

// A frame of group 0 is what 0.1 wrote; for 0.1 any other is one of a newer kvrt.
TEST_F(GroupFrames, TellTheirGroup) {
  for (uint32_t group : {0u, 1u, 31u}) {
    const auto frame = encode(group);
    FrameHeader header;
    ASSERT_OK(codec_.check(frame, &header));
    EXPECT_EQ(header.group, group);
    EXPECT_EQ(frame[4], group == 0 ? 1 : 2);
    EXPECT_OK(decode(frame, group));
    const Status other = decode(frame, group ^ 1);
    EXPECT_EQ(other.code(), Code::kCorrupt);
    EXPECT_NE(other.message().find("number"), std::string::npos) << other.message();
    EXPECT_EQ(changed(frame, 1, 0), encode(0)) << "nothing else tells the group";
  }
  EXPECT_EQ(codec_.encode({node_.key, node_.parent, node_.tokens, 3, 2, chain_.payloads[0], ChunkCodec::kDefault, 32}).status().code(),
            Code::kInvalid);
}

// What is sealed tells nothing: neither of these is damage.
TEST_F(GroupFrames, ACipherComesBeforeTheGroup) {
  for (const uint8_t cipher : {1, 2, 128, 255}) {
    for (const uint32_t group : {0u, 1u, 31u, 32u, ~0u}) {
      auto frame = encode(0);
      frame[7] = cipher;
      const Status status = decode(changed(frame, 1, group), 0);
      EXPECT_EQ(status.code(), Code::kIncompatible) << status.message();
      EXPECT_EQ(status.detail(), Detail::kStoreTooNew) << status.message();
    }
  }
  EXPECT_EQ(encode(0)[7], 0) << "what 0.1 wrote as the high byte of the flags";
  EXPECT_EQ(encode(0).size(), encode(5).size());
}

TEST_F(GroupFrames, GroupsThatTheVersionDoesNotHave) {
  for (const auto& [version, group] : {std::pair<uint16_t, uint32_t>{1, 1}, {1, 32}, {2, 0}}) {
    EXPECT_EQ(decode(changed(encode(0), version, group), group).code(), Code::kCorrupt) << version << " " << group;
  }
  for (const uint32_t group : {32u, ~0u}) EXPECT_EQ(decode(changed(encode(1), 2, group), group).code(), Code::kIncompatible) << group;
}

}  // namespace
}  // namespace kvrt
