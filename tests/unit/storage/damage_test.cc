// Stores that are damaged, foreign or too new: found, named, and left alone.
#include <random>

#include "tests/support/damage_rig.h"

namespace kvrt {
namespace {

using namespace test;
TEST_F(Damage, FlippedChunk) {
  flip(segment_files(root())[0], 32 + 300);
  expect_healed_by_a_save(1);
}

TEST_F(Damage, CutSegment) {
  auto file = segment_files(root())[0];
  fs::resize_file(file, 32 + 1000);  // inside the second frame
  expect_healed_by_a_save(4);
}

TEST_F(Damage, EmptySegment) {
  fs::resize_file(segment_files(root())[0], 0);
  expect_healed_by_a_save(5);
}

TEST_F(Damage, MissingSegment) {
  fs::remove(segment_files(root())[0]);
  expect_healed_by_a_save(5);
}

TEST_F(Damage, MissingSegmentsFolder) {
  fs::remove_all(root() + "/segs");
  expect_healed_by_a_save(5);
}

TEST_F(Damage, SwappedSegments) {
  Chain other(token_run(70, 1));
  {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    SaveOptions o;
    o.id = 2;
    ASSERT_OK(save_chain(store->get(), "bob", other, o).status());
  }
  auto files = segment_files(root());
  ASSERT_EQ(files.size(), 2u);
  fs::rename(files[0], root() + "/x");
  fs::rename(files[1], files[0]);
  fs::rename(root() + "/x", files[1]);
  expect_healed_by_a_save(5);
}

TEST_F(Damage, SwappedRows) {
  sql("UPDATE chunks SET offset = (SELECT max(offset) FROM chunks), bytes = (SELECT bytes FROM chunks ORDER BY offset DESC LIMIT 1)"
      " WHERE node = (SELECT id FROM nodes WHERE parent IS NULL)");
  expect_healed_by_a_save(1);
}

TEST_F(Damage, FlippedValuesInTheCatalogAreFound) {
  const char* changes[] = {
      "UPDATE nodes SET tokens = zeroblob(length(tokens)) WHERE parent IS NULL",
      "UPDATE sessions SET manifest = x'00'",
      "UPDATE sessions SET model_id = randomblob(32)",
      "UPDATE sessions SET root = zeroblob(32)",
      "UPDATE sessions SET id = zeroblob(16)",
      "UPDATE sessions SET gen = gen + 1",
      "UPDATE sessions SET tokens = tokens + 1",
      "UPDATE sessions SET pinned = 1",
      "UPDATE sessions SET expires_ms = 4102444800000",
      "PRAGMA ignore_check_constraints=ON; UPDATE sessions SET pinned = 7",
      "PRAGMA ignore_check_constraints=ON; UPDATE sessions SET expires_ms = -1",
      "UPDATE sessions SET head = (SELECT min(id) FROM nodes)",
      "UPDATE nodes SET parent = NULL WHERE id = (SELECT max(id) FROM nodes)",
      "UPDATE nodes SET parent = id",
      "DELETE FROM nodes WHERE parent IS NULL",
  };
  auto good = test::read_file(catalog());
  for (const char* change : changes) {
    SCOPED_TRACE(change);
    write_file(catalog(), good);
    sql(std::string("PRAGMA foreign_keys=OFF; ") + change);
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto loaded = (*store)->load("", "ann");
    EXPECT_EQ(loaded.status().code(), Code::kCorrupt);
    EXPECT_EQ(loaded.status().detail(), Detail::kCatalogCorrupt);
    auto faults = (*store)->verify(nullptr);
    EXPECT_TRUE(!faults.is_ok() || !faults->empty());
    EXPECT_OK((*store)->remove("", "other").code() == Code::kNotFound ? Status() : error(Code::kInternal, Detail::kNone, "remove"));
  }
}

TEST_F(Damage, WrongCountsAreNamedByVerify) {
  auto good = test::read_file(catalog());
  for (const char* change :
       {"UPDATE nodes SET refs = refs + 1 WHERE parent IS NULL", "UPDATE segments SET live = live + 1",
        "UPDATE totals SET chunks = chunks + 1", "UPDATE totals SET segment_bytes = 0", "DELETE FROM chunks",
        "UPDATE chunks SET node = node + 1000", "UPDATE chunks SET segment = 1000",
        "PRAGMA ignore_check_constraints=ON; UPDATE chunks SET grp = 32", "UPDATE sessions SET chunk_bytes = chunk_bytes + 1"}) {
    write_file(catalog(), good);
    sql(change);
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    EXPECT_FALSE(faults->empty()) << change;
    for (auto& fault : *faults) EXPECT_EQ(fault.where, "catalog") << change;
  }
}

TEST_F(Damage, CatalogMissing) {
  fs::remove(catalog());
  auto before = everything();
  Status status = open_status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(status.detail(), Detail::kCatalogMissing);
  fs::remove(root() + "/FORMAT");
  EXPECT_EQ(open_status().detail(), Detail::kCatalogMissing) << "segs/ alone tells it";
  write_file(root() + "/FORMAT", before[root() + "/FORMAT"]);
  EXPECT_EQ(everything(), before);
}

TEST_F(Damage, CatalogCorrupt) {
  auto good = test::read_file(catalog());
  std::vector<std::vector<uint8_t>> bad(5, good);
  bad[0].clear();
  bad[1].resize(50);
  bad[2] = std::vector<uint8_t>(good.size(), 0x5a);
  bad[3][3] ^= 1;
  std::fill(bad[4].begin() + 100, bad[4].end(), uint8_t{0xa5});  // the header stands, every page is gone
  for (size_t i = 0; i < bad.size(); i++) {
    write_file(catalog(), bad[i]);
    auto before = everything();
    Status status = open_status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << i << " " << status.message();
    EXPECT_EQ(status.detail(), Detail::kCatalogCorrupt) << i << " " << status.message();
    EXPECT_EQ(test::read_file(catalog()), bad[i]) << i;
    if (i < 4) {
      EXPECT_EQ(everything(), before) << i;
    }
  }
}

TEST_F(Damage, NewerAndForeignAreLeftUntouched) {
  auto good = test::read_file(catalog());
  const auto format = test::read_file(root() + "/FORMAT");
  auto expect_refused = [&](Detail detail) {
    auto before = everything();
    Status status = open_status();
    EXPECT_EQ(status.code(), Code::kIncompatible) << status.message();
    EXPECT_EQ(status.detail(), detail) << status.message();
    EXPECT_EQ(everything(), before);
  };
  sql("PRAGMA user_version = 9");
  expect_refused(Detail::kStoreTooNew);
  write_file(catalog(), good);
  sql("PRAGMA user_version = 1");
  expect_refused(Detail::kFormat);
  write_file(catalog(), good);
  sql("PRAGMA application_id = 1234");
  expect_refused(Detail::kOtherProgram);
  write_file(catalog(), good);
  write_file(root() + "/FORMAT", {'k', 'v', 'r', 't', '-', 's', 't', 'o', 'r', 'e', ' ', '2', '\n'});
  expect_refused(Detail::kStoreTooNew);
  for (std::string text : {"", "kvrt-store", "kvrt-store 1", "kvrt-store x\n", "kvrt-store 12345678901234567890\n", "something else\n"}) {
    write_file(root() + "/FORMAT", std::vector<uint8_t>(text.begin(), text.end()));
    fs::rename(catalog(), tmp_.path() + "/catalog.db");
    expect_refused(Detail::kOtherProgram);
    fs::rename(tmp_.path() + "/catalog.db", catalog());
    EXPECT_OK(open_status()) << "beside a good catalog it is a damaged one: " << text;
    EXPECT_EQ(test::read_file(root() + "/FORMAT"), format);
  }
  fs::remove(root() + "/FORMAT");
  EXPECT_OK(open_status()) << "a good catalog tells the layout as well";
}

TEST_F(Damage, ForeignDirectoryIsLeftUntouched) {
  std::string dir = tmp_.path() + "/photos";
  fs::create_directory(dir);
  fs::permissions(dir, fs::perms::owner_all);
  write_file(dir + "/cat.jpg", {1});
  Status status = open_store(dir).take_status();
  EXPECT_EQ(status.detail(), Detail::kOtherProgram);
  EXPECT_NE(status.message().find("cat.jpg"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), fs::directory_iterator()), 1);
  EXPECT_EQ(open_store(dir + "/cat.jpg").status().code(), Code::kIo);
}

TEST_F(Damage, UnsafeDirectory) {
  for (auto mode : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(root(), fs::perms::owner_all | mode);
    Status status = open_status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_EQ(status.detail(), Detail::kUnsafeDirectory);
  }
}

TEST_F(Damage, SymlinkedFilesAreNotFollowed) {
  fs::rename(catalog(), tmp_.path() + "/elsewhere.db");
  fs::create_symlink(tmp_.path() + "/elsewhere.db", catalog());
  EXPECT_FALSE(open_status().is_ok());
  fs::remove(catalog());
  fs::rename(tmp_.path() + "/elsewhere.db", catalog());
  auto file = segment_files(root())[0];
  fs::rename(file, tmp_.path() + "/elsewhere.seg");
  fs::create_symlink(tmp_.path() + "/elsewhere.seg", file);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_EQ(readable_chunks(store->get(), chain_), 0u);
}

// Random bytes of any file, any number of times: open, load, read and verify end with a status, and a session that loads is right.
// A chunk that could not be forgotten is a hole until a save brings it; then the row names the new frame.
TEST_F(Damage, AChunkThatCouldNotBeForgottenIsHealedByASave) {
  flip(segment_files(root())[0], 32 + 300);
  {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto lock = posix_env()->open_lock(root() + "/write.lock", true);
    ASSERT_OK((*lock)->acquire(LockMode::kExclusive));
    EXPECT_EQ(readable_chunks(store->get(), chain_), 4u);
    (*lock)->release();
    EXPECT_EQ((*store)->stat("", "ann")->chunks_missing, 0u) << "the row names the bad frame still";
    SaveOptions o;
    o.revision_seen = 1;
    ASSERT_OK(save_chain(store->get(), "ann", chain_, &o).status());
    EXPECT_EQ(o.chunks_written, 1u);
    EXPECT_EQ(segment_files(root()).size(), 2u);
    EXPECT_EQ(readable_chunks(store->get(), chain_), 5u);
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
    EXPECT_EQ((*store)->info()->chunks_damaged, 1u);
  }
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_EQ(readable_chunks(store->get(), chain_), 5u);
}

TEST_F(Damage, RandomMutations) {
  const char* given = std::getenv("KVRT_SEED");
  uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 rng(seed);
  auto good = everything();
  std::vector<std::string> names;
  for (auto& [name, bytes] : good) {
    if (!bytes.empty()) names.push_back(name);
  }
  uint64_t end = posix_env()->now_ns() + 1'500'000'000;
  while (posix_env()->now_ns() < end && !HasFailure()) {
    fs::remove_all(root());
    ASSERT_OK(posix_env()->make_dir(root()));
    for (auto& [name, bytes] : good) {
      fs::create_directories(fs::path(name).parent_path());
      if (!bytes.empty()) write_file(name, bytes);
    }
    const std::string& victim = names[rng() % names.size()];
    auto bytes = good[victim];
    for (uint64_t k = 1 + rng() % 8; k > 0; k--) {
      uint64_t at = rng() % bytes.size(), kind = rng() % 8;
      if (kind < 5) bytes[at] ^= static_cast<uint8_t>(1u << rng() % 8);
      if (kind == 5) bytes[at] = static_cast<uint8_t>(rng());
      if (kind == 6) std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), std::min<size_t>(bytes.size() - at, 64), uint8_t{0});
      if (kind == 7 && at > 0) bytes.resize(at);
    }
    write_file(victim, bytes);
    auto store = open_store(root());
    if (!store.is_ok()) continue;
    auto loaded = (*store)->load("", "ann");
    if (loaded.is_ok()) {
      EXPECT_EQ(loaded->tokens, chain_.tokens);
      EXPECT_EQ(std::string(loaded->manifest.begin(), loaded->manifest.end()), "manifest");
    }
    readable_chunks(store->get(), chain_);  // fails the test if a chunk gives other bytes
    (void)(*store)->verify(nullptr).is_ok();
    (void)(*store)->list("", true).is_ok();
    (void)save_chain(store->get(), "new", chain_).is_ok();
    (void)(*store)->remove("", "ann").is_ok();
  }
}

// What somebody removes while the store is open is made anew; the chunks in it are holes.
TEST_F(Damage, FoldersRemovedWhileItIsOpen) {
  const Chain other(token_run(50, 3)), third(token_run(60, 4));
  for (const std::string gone : {"/segs", "/tmp", "/segs/*"}) {
    SCOPED_TRACE(gone);
    const bool folders = gone == "/segs/*";
    auto store = open_store(root());
    ASSERT_OK(store.status());
    SaveOptions o;
    o.overwrite = true;
    o.durability = Durability::kKv;
    ASSERT_OK(save_chain(store->get(), "bob", other, o).status());
    if (!folders) fs::remove_all(root() + gone);
    for (const auto& file : segment_files(root())) {
      if (folders) fs::remove_all(fs::path(file).parent_path());
    }
    ASSERT_OK(save_chain(store->get(), "eve", third, o).status());
    EXPECT_EQ(readable_chunks(store->get(), third), third.nodes.size());
    ASSERT_OK((*store)->remove("", "eve"));
    ASSERT_OK((*store)->gc(nullptr).status());
  }
}

}  // namespace
}  // namespace kvrt
