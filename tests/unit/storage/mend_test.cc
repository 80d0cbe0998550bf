// Repair of stores whose catalog is sound and whose segments are not, and of catalogs with a log.
#include <sys/wait.h>

#include "tests/support/damage_rig.h"
#include "tests/support/fault_env.h"
#include "tests/support/repair_rig.h"

namespace kvrt {
namespace {

using namespace test;
using Outcome = RepairReport::Outcome;

class Mend : public Damage {
 protected:
  void SetUp() override {
    Damage::SetUp();
    auto store = open_store(root());
    ASSERT_OK(store.status());
    SaveOptions o;
    o.id = 2;
    ASSERT_OK(save_chain(store->get(), "bob", other_, o).status());
  }
  // Chunks forgotten in place; the catalog stays, both sessions have their tokens, and verify finds nothing.
  void expect_mended(size_t lost) {
    const size_t holes = lost > 0 ? 1 : 0;
    Repaired r = repair(root());
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.outcome, Outcome::kMended);
    EXPECT_EQ(r.report.chunks_lost, lost);
    EXPECT_EQ(r.report.sessions_with_holes, holes);
    EXPECT_EQ(r.report.sessions_kept, 2u);
    EXPECT_FALSE(r.lines.empty());
    EXPECT_EQ(r.report.aside, "");
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      auto faults = (*store)->verify(nullptr);
      ASSERT_OK(faults.status());
      for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
      auto ann = (*store)->load("", "ann"), bob = (*store)->load("", "bob");
      ASSERT_OK(ann.status());
      ASSERT_OK(bob.status());
      EXPECT_EQ(ann->tokens, chain_.tokens);
      EXPECT_EQ(bob->tokens, other_.tokens);
      EXPECT_EQ(readable_chunks(store->get(), chain_) + readable_chunks(store->get(), other_),
                chain_.nodes.size() + other_.nodes.size() - lost);
      EXPECT_EQ((*store)->info()->chunks_damaged, 0u) << "repair told the catalog";
    }
    Repaired again = repair(root());
    ASSERT_OK(again.status);
    EXPECT_EQ(again.report.outcome, Outcome::kSound);
  }
  std::string segment_of_ann() {
    for (auto& file : segment_files(root())) {
      auto bytes = test::read_file(file);
      auto key = chain_.nodes[0].key.bytes;
      if (std::search(bytes.begin(), bytes.end(), key.begin(), key.end()) != bytes.end()) return file;
    }
    return "";
  }
  Chain other_{token_run(50, 3)};
};

TEST_F(Mend, FlippedChunk) {
  flip(segment_of_ann(), 32 + 300);
  expect_mended(1);
}

TEST_F(Mend, CutSegment) {
  fs::resize_file(segment_of_ann(), 32 + 1000);  // inside the second frame
  expect_mended(4);
}

TEST_F(Mend, EmptySegment) {
  fs::resize_file(segment_of_ann(), 0);
  expect_mended(5);
}

TEST_F(Mend, MissingSegment) {
  fs::remove(segment_of_ann());
  expect_mended(5);
}

TEST_F(Mend, FlippedHeaderAndFooter) {
  const auto size = fs::file_size(segment_of_ann());
  flip(segment_of_ann(), 1);
  expect_mended(0);
  flip(segment_of_ann(), size - 20);
  expect_mended(0);
}

TEST_F(Mend, SwappedSegments) {
  auto files = segment_files(root());
  ASSERT_EQ(files.size(), 2u);
  fs::rename(files[0], root() + "/x");
  fs::rename(files[1], files[0]);
  fs::rename(root() + "/x", files[1]);
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.sessions_kept, 2u);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
  readable_chunks(store->get(), chain_);
}

// A mode or a second name is no damage: nothing is forgotten, and the report says what to do.
TEST_F(Mend, SegmentsThatAreNotOursAloneAreRefused) {
  const std::string file = segment_of_ann(), link = tmp_.path() + "/link", folder = fs::path(file).parent_path();
  for (const bool rebuilt : {false, true}) {
    if (rebuilt) sql("UPDATE nodes SET refs = refs + 1 WHERE id = 1");
    for (int how = 0; how < 3; how++) {
      SCOPED_TRACE(how);
      if (how == 0) fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
      if (how == 1) fs::create_hard_link(file, link);
      if (how == 2) fs::permissions(folder, fs::perms::group_write, fs::perm_options::add);
      const auto before = everything();
      const Repaired r = repair(root());
      EXPECT_EQ(r.status.code(), Code::kInvalid);
      EXPECT_EQ(r.status.detail(), Detail::kUnsafeDirectory);
      for (const std::string& part : {how == 2 ? folder : file, std::string("expected"), std::string("chmod 600")}) {
        EXPECT_NE(r.status.message().find(part), std::string::npos) << r.status.message();
      }
      EXPECT_EQ(everything(), before);
      fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
      fs::permissions(folder, fs::perms::owner_all);
      fs::remove(link);
    }
    const Repaired r = repair(root());
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.sessions_kept, 2u);
    EXPECT_EQ(r.report.chunks_lost, 0u);
  }
}

TEST_F(Mend, ADirectoryInTmpIsInNobodysWay) {
  fs::create_directory(root() + "/tmp/d");
  write_file(root() + "/tmp/f", {1});
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kSound);
  ASSERT_EQ(r.lines.size(), 1u);
  EXPECT_EQ(r.lines[0].find("tmp/d: a directory"), 0u) << r.lines[0];
  EXPECT_FALSE(fs::exists(root() + "/tmp/f"));
}

// A rebuild takes the frames that it needs of a damaged segment to a new one.
TEST_F(Mend, CatalogAndSegment) {
  flip(segment_of_ann(), 32 + 300);
  auto bytes = test::read_file(catalog());
  std::fill_n(bytes.begin(), 100, uint8_t{0});
  write_file(catalog(), bytes);
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
  EXPECT_EQ(r.report.sessions_kept, 2u);
  EXPECT_EQ(r.report.sessions_with_holes, 1u);
  EXPECT_EQ(r.report.chunks_lost, 1u);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  auto faults = (*store)->verify(nullptr);
  ASSERT_OK(faults.status());
  EXPECT_TRUE(faults->empty());
  EXPECT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size() - 1);
  EXPECT_EQ(readable_chunks(store->get(), other_), other_.nodes.size());
}

// Killed with its log full: "eve" is there alone.
class MendLog : public Mend {
 protected:
  void SetUp() override {
    Mend::SetUp();
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = open_store(root());
      SaveOptions o;
      o.id = 3;
      if (!store.is_ok() || !save_chain(store->get(), "eve", eve_, o).is_ok()) ::_exit(1);
      FaultPlan::die();
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_GT(fs::file_size(catalog() + "-wal"), 4096u);
  }
  size_t sessions() {
    Repaired r = repair(root());
    EXPECT_OK(r.status);
    auto store = open_store(root());
    EXPECT_OK(store.status());
    if (!store.is_ok()) return 0;
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
    for (auto [name, chain] : {std::pair{"ann", &chain_}, std::pair{"bob", &other_}, std::pair{"eve", &eve_}}) {
      auto session = (*store)->load("", name);
      EXPECT_TRUE(!session.is_ok() || session->tokens == chain->tokens) << name;
    }
    return (*store)->list("", true)->size();
  }
  Chain eve_{token_run(60, 4)};
};

TEST_F(MendLog, SoundLog) {
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kSound);
  EXPECT_GT(fs::file_size(catalog() + "-wal"), 4096u) << "it is for the next open";
  EXPECT_EQ(sessions(), 3u);
}
TEST_F(MendLog, DatabaseWithoutItsLog) {
  fs::remove(catalog() + "-wal");
  EXPECT_EQ(sessions(), 2u);
}
TEST_F(MendLog, LogWithoutItsDatabase) {
  fs::remove(catalog());
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  auto eve = (*store)->load("", "eve");
  ASSERT_OK(eve.status()) << "she is in the log";
  EXPECT_EQ(eve->tokens, eve_.tokens);
  EXPECT_TRUE(fs::exists(root() + "/damaged-1/catalog.db-wal"));
}
TEST_F(MendLog, DamagedDatabaseWithALog) {
  auto bytes = test::read_file(catalog());
  std::fill_n(bytes.begin(), 100, uint8_t{0});
  write_file(catalog(), bytes);
  EXPECT_EQ(sessions(), 3u);
}

}  // namespace
}  // namespace kvrt
