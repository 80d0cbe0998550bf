#include "storage/segment/segment.h"

#include <set>

#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

class SegmentTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(env_->make_dir(root() + "/tmp"));
    ASSERT_OK(env_->make_dir(root() + "/segs"));
  }
  const std::string& root() const { return tmp_.path(); }

  // A segment of three frames; its id.
  SegmentId write() {
    auto writer = SegmentWriter::create(env_, root(), store_);
    EXPECT_OK(writer.status());
    for (uint8_t i = 1; i <= 3; i++) {
      BlockKey key;
      key.bytes.fill(i);
      EXPECT_OK((*writer)->append(key, std::vector<uint8_t>(100u * i, i)));
    }
    EXPECT_OK((*writer)->seal(false));
    EXPECT_OK((*writer)->publish(true));
    (*writer)->keep();
    return (*writer)->id();
  }
  Result<std::vector<SegmentEntry>> index(const SegmentId& id) {
    KVRT_ASSIGN(auto file, env_->open_read(id.path(root())));
    return read_segment_index(*file, id, store_);
  }

  static StoreId store(uint64_t tag) {
    StoreId id;
    std::memcpy(id.bytes.data(), &tag, sizeof tag);
    return id;
  }

  TempDir tmp_;
  Env* env_ = posix_env();
  StoreId store_ = store(0x1122334455667788);
};

TEST_F(SegmentTest, IndexReadsBack) {
  SegmentId id = write();
  auto entries = index(id);
  ASSERT_OK(entries.status());
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].offset, 32u);
  EXPECT_EQ((*entries)[1].offset, 132u);
  EXPECT_EQ((*entries)[2].offset, 332u);
  EXPECT_EQ((*entries)[2].bytes, 300u);
  EXPECT_EQ((*entries)[2].key.bytes[31], 3);
  auto bytes = test::read_file(id.path(root()));
  EXPECT_EQ(bytes.size(), 32u + 600u + 3 * 48u + 40u);
  EXPECT_EQ(std::string(bytes.begin(), bytes.begin() + 4), "KVRS");
  EXPECT_TRUE(std::filesystem::is_empty(root() + "/tmp"));
}

TEST_F(SegmentTest, EveryChangeOfHeaderAndFooterIsFound) {
  SegmentId id = write();
  auto good = test::read_file(id.path(root()));
  for (size_t at = 0; at < good.size(); at++) {
    if (at >= 6 && at < 8) continue;           // flags, unused
    if (at >= 32 && at < 32 + 600u) continue;  // the frames, which have their own checksums
    for (uint8_t flip : {0x01, 0x80}) {
      auto bad = good;
      bad[at] ^= flip;
      write_file(id.path(root()), bad);
      const bool newer = at == 5 || (at == 4 && flip == 0x80);  // a version to come
      EXPECT_EQ(index(id).status().code(), newer ? Code::kIncompatible : Code::kCorrupt) << at;
    }
  }
  for (size_t n = 0; n < good.size(); n++) {
    write_file(id.path(root()), std::vector<uint8_t>(good.begin(), good.begin() + static_cast<ptrdiff_t>(n)));
    EXPECT_EQ(index(id).status().code(), Code::kCorrupt) << "cut to " << n;
  }
}

// The last 8 bytes of the header: this store, or none, as 0.1 wrote. One bit beside either is damage; anything else is another store.
TEST_F(SegmentTest, AnotherStoresSegmentIsFound) {
  const SegmentId id = write();
  const auto file = test::read_file(id.path(root()));
  EXPECT_EQ(std::vector<uint8_t>(file.begin() + 24, file.begin() + 32),
            (std::vector<uint8_t>{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}));
  const auto expect = [&](uint64_t tag, Code code) {
    auto changed = file;
    std::memcpy(changed.data() + 24, &tag, sizeof tag);
    write_file(id.path(root()), changed);
    EXPECT_EQ(index(id).status().code(), code) << tag;
    SegmentCache cache(env_, root(), 4);
    cache.set_store(store_);
    EXPECT_EQ(cache.open(id).status().code(), code == Code::kIncompatible ? code : Code::kOk) << tag;
  };
  expect(store_.tag(), Code::kOk);
  expect(0, Code::kOk);
  for (int bit = 0; bit < 64; bit++) expect(store_.tag() ^ uint64_t{1} << bit, Code::kCorrupt);
  for (int bit = 0; bit < 64; bit++) expect(uint64_t{1} << bit, Code::kCorrupt);
  for (const uint64_t tag : {store_.tag() ^ 3, uint64_t{3}, ~store_.tag(), ~uint64_t{0}}) expect(tag, Code::kIncompatible);
}

TEST_F(SegmentTest, AnotherSegmentsFileIsFound) {
  SegmentId a = write(), b = write();
  write_file(a.path(root()), test::read_file(b.path(root())));
  EXPECT_EQ(index(a).status().code(), Code::kCorrupt);
  EXPECT_OK(index(b).status());
}

TEST_F(SegmentTest, DroppedWriterLeavesNothing) {
  for (int stage = 0; stage < 3; stage++) {
    auto writer = SegmentWriter::create(env_, root(), store_);
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->append(BlockKey{}, std::vector<uint8_t>(10)));
    if (stage > 0) {
      ASSERT_OK((*writer)->seal(true));
    }
    if (stage > 1) {
      ASSERT_OK((*writer)->publish(true));
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(root() + "/tmp"));
  EXPECT_TRUE(segment_files(root()).empty());
}

// A frame that was not written has no entry.
TEST_F(SegmentTest, AFailedAppendLeavesTheIndexAsItWas) {
  FaultPlan plan;
  FaultEnv env(env_, &plan);
  auto writer = SegmentWriter::create(&env, root(), store_);
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->append(BlockKey{}, std::vector<uint8_t>(10)));
  plan.arm(Fault::kNoSpace, 1);
  EXPECT_EQ((*writer)->append(BlockKey{}, std::vector<uint8_t>(20)).code(), Code::kNoSpace);
  plan.disarm();
  EXPECT_EQ((*writer)->entries().size(), 1u);
  EXPECT_EQ((*writer)->bytes(), 32u + 10u);
  ASSERT_OK((*writer)->append(BlockKey{}, std::vector<uint8_t>(30)));
  EXPECT_EQ((*writer)->entries().at(1).offset, 32u + 10u);
}

// A collector of another process may have the new file's lock first, and removes the file.
TEST_F(SegmentTest, AFileThatIsTakenAwayAtOnceIsMadeAgain) {
  FaultPlan plan;
  FaultEnv env(env_, &plan);
  std::set<std::string> names;
  env.fail_create = [&](const std::string& path) {
    names.insert(path);
    return names.size() < 3 ? error(Code::kBusy, Detail::kConcurrent, "%s: injected", path.c_str()) : Status();
  };
  EXPECT_OK(SegmentWriter::create(&env, root(), store_).status());
  EXPECT_EQ(names.size(), 3u) << "each time under another name";
  env.fail_create = [](const std::string& path) { return error(Code::kBusy, Detail::kConcurrent, "%s: injected", path.c_str()); };
  EXPECT_EQ(SegmentWriter::create(&env, root(), store_).status().code(), Code::kBusy) << "not for ever";
}

TEST_F(SegmentTest, Names) {
  SegmentId id, parsed;
  env_->random(id.bytes);
  EXPECT_TRUE(parse_segment_name(id.hex() + ".seg", &parsed));
  EXPECT_EQ(parsed, id);
  const std::string bads[] = {"", ".seg", "x", id.hex(), "0123456789ABCDEF0123456789abcdef.seg", "../../../../../../../../etc/pa.seg"};
  for (const std::string& bad : bads) {
    EXPECT_FALSE(parse_segment_name(bad, &parsed)) << bad;
  }
}

TEST_F(SegmentTest, CacheClosesTheLeastRecentlyUsed) {
  SegmentCache cache(env_, root(), 4);
  cache.set_store(store_);
  std::vector<SegmentId> ids;
  for (int i = 0; i < 10; i++) ids.push_back(write());
  for (int round = 0; round < 3; round++) {
    for (auto& id : ids) ASSERT_OK(cache.open(id).status());
  }
  size_t open_here = 0;
  for (auto& e : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(e.path(), ignored).string().rfind(root() + "/segs", 0) == 0) open_here++;
  }
  EXPECT_EQ(open_here, 4u);
  auto held = cache.open(ids[9]);
  ASSERT_OK(held.status());
  ASSERT_OK(env_->remove_file(ids[9].path(root())));
  EXPECT_OK(cache.open(ids[9]).status()) << "still open";
  cache.forget(ids[9]);
  EXPECT_EQ(cache.open(ids[9]).status().code(), Code::kNotFound);
  std::vector<uint8_t> out(4);
  EXPECT_OK((*held)->pread(0, out)) << "a reader that holds the file goes on";
}

}  // namespace
}  // namespace kvrt
