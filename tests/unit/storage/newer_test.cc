// Frames and flags that a newer kvrt may leave in a store that this one can open: a hole for this one, and still there for the newer.
#include "runtime/base/hash.h"
#include "tests/support/damage_rig.h"

namespace kvrt {
namespace {

using namespace test;

class Newer : public Damage {
 protected:
  std::string segment() const { return segment_files(root())[0]; }
  // The u16 at `at` of the segment's file.
  void put(size_t at, uint16_t value) {
    auto bytes = test::read_file(segment());
    std::memcpy(bytes.data() + at, &value, 2);
    write_file(segment(), bytes);
  }
  using Change = std::vector<std::pair<size_t, uint16_t>>;  // u16 by their place
  // The first frame, the first block's, says that it is of another version, cipher or group, or has another flag; its checksum is right.
  static size_t first_frame_body(const std::vector<uint8_t>& bytes) {
    uint64_t planes[2], tokens = 0;
    std::memcpy(planes, bytes.data() + 32 + 80, sizeof planes);
    std::memcpy(&tokens, bytes.data() + 32 + 104, 4);
    return 112 + 4 * tokens + planes[0] + planes[1];
  }
  void change_first_frame(const Change& change) {
    auto bytes = test::read_file(segment());
    const size_t body = first_frame_body(bytes);
    for (const auto& [at, value] : change) std::memcpy(bytes.data() + 32 + at, &value, 2);
    const Checksum128 sum = checksum128({bytes.data() + 32, body});
    std::memcpy(bytes.data() + 32 + body, &sum.low, 8);
    std::memcpy(bytes.data() + 32 + body + 8, &sum.high, 8);
    write_file(segment(), bytes);
  }
  void expect_named(Store* store, const std::string& what) {
    auto faults = store->verify(nullptr);
    ASSERT_OK(faults.status());
    ASSERT_EQ(faults->size(), 1u);
    EXPECT_NE((*faults)[0].what.find(what), std::string::npos) << (*faults)[0].what;
  }
  void use_frame_of_a_newer_kvrt() {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size() - 1);
    std::vector<uint8_t> out(chain_.payloads[0].size());
    std::string why;
    EXPECT_EQ((*store)->read(chain_.nodes[0], 0, 1, out, &why), ChunkState::kAbsent);
    EXPECT_NE(why.find("of a newer kvrt"), std::string::npos) << why;
    EXPECT_EQ((*store)->info()->chunks_damaged, 0u);
    EXPECT_EQ((*store)->stat("", "ann")->chunks_missing, 0u) << "it is there, for who can read it";
    expect_named(store->get(), "of a newer kvrt");
    SaveOptions o;
    o.revision_seen = 1;
    ASSERT_OK(save_chain(store->get(), "ann", chain_, &o).status());
    EXPECT_EQ(o.chunks_written, 0u);
  }
  // Only the first block is needed: less than half of the segment, which is to be written anew.
  void compact_around_it() {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    const Chain first(token_run(Chain::kBlock));
    SaveOptions o;
    o.revision_seen = 2;
    ASSERT_OK(save_chain(store->get(), "ann", first, o).status());
    ASSERT_OK((*store)->gc(nullptr).status());
    EXPECT_EQ((*store)->info()->chunks, 1u);
  }
};

TEST_F(Newer, AFrameIsNeitherReadNorForgottenNorCopied) {
  const auto good = test::read_file(segment());
  for (const Change& change : {Change{{4, 4}}, Change{{6, 0x0004}}, Change{{6, 0x0101}}, Change{{6, 0xff00}}, Change{{4, 2}, {108, 32}},
                               Change{{6, 0x0200}, {108, 0xabcd}, {40, 0x1234}}}) {
    SCOPED_TRACE(change.back().first);
    const auto catalog_before = test::read_file(catalog());
    change_first_frame(change);
    const auto changed = test::read_file(segment());
    use_frame_of_a_newer_kvrt();
    EXPECT_EQ(test::read_file(segment()), changed);
    compact_around_it();
    auto left = test::read_file(segment());  // the frames that nobody needs are punched, in its place
    const size_t frame_end = 32 + first_frame_body(changed) + 16, index = left.size() - 40 - 48 * chain_.nodes.size();
    EXPECT_TRUE(std::all_of(left.begin() + static_cast<ptrdiff_t>(frame_end), left.begin() + static_cast<ptrdiff_t>(index),
                            [](uint8_t byte) { return byte == 0; }));
    std::copy(changed.begin() + static_cast<ptrdiff_t>(frame_end), changed.begin() + static_cast<ptrdiff_t>(index),
              left.begin() + static_cast<ptrdiff_t>(frame_end));
    EXPECT_EQ(left, changed) << "and no other byte";
    write_file(segment(), good);
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_EQ(readable_chunks(store->get(), chain_), 1u) << "who can read it does";
    store->reset();
    write_file(catalog(), catalog_before);
  }
}

// A frame that claims to be newer, and fails its checksum, is damaged as any other.
TEST_F(Newer, AFlippedVersionIsDamage) {
  flip(segment(), 32 + 4);
  expect_healed_by_a_save(1);
}

TEST_F(Newer, ASegmentIsReadByItsFramesAndNamed) {
  const auto good = test::read_file(segment());
  for (const auto& [at, value] : {std::pair<size_t, uint16_t>{4, 2}, {6, 1}}) {
    put(at, value);
    const auto before = everything();
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      EXPECT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size());
      expect_named(store->get(), "of a newer kvrt");
      ASSERT_OK((*store)->gc(nullptr).status());
      EXPECT_EQ((*store)->info()->chunks_damaged, 0u);
    }
    auto after = everything();
    after[catalog()] = before.at(catalog());  // gc noted the time
    EXPECT_EQ(after, before);
    write_file(segment(), good);
  }
}

}  // namespace
}  // namespace kvrt
