// Which store it is: catalogs, segments, logs and rows of another store are told, and never taken for this one's.
#include <signal.h>
#include <sys/wait.h>

#include "storage/repair/repair.h"
#include "tests/support/damage_rig.h"
#include "tests/support/old_schema.h"

namespace kvrt {
namespace {

using namespace test;

class Foreign : public Damage {
 protected:
  std::string format() const { return root() + "/FORMAT"; }
  Result<RepairReport> repair() { return repair_store(posix_env(), nullptr, root(), {}); }
  void expect_whole() {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto loaded = (*store)->load("", "ann");
    ASSERT_OK(loaded.status());
    ASSERT_EQ(loaded->tokens, chain_.tokens);
    ASSERT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size());
  }
  std::string other() const { return tmp_.path() + "/other"; }
  void SetUp() override {
    Damage::SetUp();
    auto store = open_store(other());
    ASSERT_OK(store.status());
    ASSERT_OK(save_chain(store->get(), "bob", bob_).status());
  }
  static std::string id_in(const std::string& dir) {
    const auto text = test::read_file(dir + "/FORMAT");
    return std::string(text.begin() + 18, text.begin() + 50);
  }
  Chain bob_{token_run(40, 3)};
};

TEST_F(Foreign, AnotherStoresCatalogIsRefusedByName) {
  const auto good = test::read_file(catalog());
  ASSERT_NE(id_in(root()), id_in(other()));
  fs::copy_file(other() + "/catalog.db", catalog(), fs::copy_options::overwrite_existing);
  for (bool read_only : {true, false}) {
    const auto before = everything();
    StoreOptions options;
    options.read_only = read_only;
    Status refused = open_status(options);
    EXPECT_EQ(refused.code(), Code::kCorrupt);
    for (const std::string& part : {id_in(root()), id_in(other()), std::string("repair")}) {
      EXPECT_NE(refused.message().find(part), std::string::npos) << refused.message();
    }
    auto after = everything();
    EXPECT_EQ(after[catalog()], before.at(catalog()));
    EXPECT_EQ(after[segment_files(root())[0]], before.at(segment_files(root())[0]));
  }
  write_file(catalog(), good);
  expect_whole();
  fs::copy_file(other() + "/catalog.db", catalog(), fs::copy_options::overwrite_existing);
  const std::string id = id_in(root());
  auto report = repair();
  ASSERT_OK(report.status());
  EXPECT_EQ(report->outcome, RepairReport::Outcome::kRebuilt);
  EXPECT_EQ(report->sessions_kept, 0u);
  EXPECT_EQ(report->sessions_lost, 1u) << "the other store's";
  EXPECT_GT(report->chunks_orphaned, 0u) << "this one's";
  EXPECT_EQ(test::read_file(report->aside + "/catalog.db"), test::read_file(other() + "/catalog.db"));
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->list("", true)->empty());
  EXPECT_EQ(id_in(root()), id);
}

// A copy of the whole directory is the same store twice.
TEST_F(Foreign, ACopyOfTheDirectoryIsAStore) {
  const std::string copy = tmp_.path() + "/copy";
  fs::copy(root(), copy, fs::copy_options::recursive);
  fs::permissions(copy, fs::perms::owner_all);
  EXPECT_EQ(id_in(copy), id_in(root()));
  auto store = open_store(copy);
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
  expect_whole();
}

// A row whose checksum names another store is never resumed, whatever else is right.
TEST_F(Foreign, ARowOfAnotherStoreIsNotResumed) {
  sql("ATTACH '" + other() +
      "/catalog.db' AS o; PRAGMA foreign_keys=OFF;"
      "INSERT INTO nodes SELECT id + 1000, key, parent + 1000, n, tokens, refs, items FROM o.nodes;"
      "INSERT INTO sessions SELECT * FROM o.sessions; UPDATE sessions SET head = head + 1000 WHERE name = 'bob'");
  {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_EQ((*store)->load("", "bob").status().code(), Code::kCorrupt);
    EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    EXPECT_TRUE(std::any_of(faults->begin(), faults->end(),
                            [](auto& f) { return f.session == "bob" && f.what.find("another store") != std::string::npos; }));
  }
  auto report = repair();
  ASSERT_OK(report.status());
  EXPECT_EQ(report->sessions_kept, 1u);
  EXPECT_EQ(report->sessions_lost, 1u);
  auto store = open_store(root());
  EXPECT_EQ((*store)->load("", "bob").status().code(), Code::kNotFound);
  expect_whole();
}

// The log of another store, of today or of 0.1, beside a catalog that needs a repair.
TEST_F(Foreign, TheLogOfAnotherStoreIsNotRead) {
  for (const bool release : {false, true}) {
    SCOPED_TRACE(release);
    if (release) make_schema_3(other());
    ASSERT_OK(kill_with_log(other(), "UPDATE sessions SET used = used + 1; UPDATE nodes SET refs = refs + 0"));
    auto bytes = test::read_file(catalog());
    std::fill_n(bytes.begin(), 100, uint8_t{0x11});
    write_file(catalog(), bytes);
    fs::copy_file(other() + "/catalog.db-wal", catalog() + "-wal", fs::copy_options::overwrite_existing);
    auto report = repair();
    ASSERT_OK(report.status());
    EXPECT_EQ(report->sessions_kept, 1u);
    EXPECT_EQ(report->sessions_recovered, 0u) << "bob has the same root";
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_EQ((*store)->list("", true)->size(), 1u);
    EXPECT_EQ((*store)->find(bob_.nodes)[0], 0u);
    expect_whole();
  }
}

// Killed with all its sessions in its log, in whose place is another store's.
TEST_F(Foreign, TheLogOfAnotherStoreBesideAKilledOne) {
  const std::string killed = tmp_.path() + "/killed";
  for (const std::string& dir : {killed, tmp_.path() + "/k2"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = open_store(dir);
      if (!store.is_ok() || !save_chain(store->get(), "ann", dir == killed ? chain_ : bob_).is_ok()) ::_exit(1);
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  fs::copy_file(tmp_.path() + "/k2/catalog.db-wal", killed + "/catalog.db-wal", fs::copy_options::overwrite_existing);
  const auto segment = fs::path(segment_files(killed).at(0)).filename().string();
  auto report = repair_store(posix_env(), nullptr, killed, {});
  ASSERT_OK(report.status());
  EXPECT_EQ(report->sessions_kept, 0u);
  EXPECT_EQ(report->chunks_orphaned, chain_.nodes.size());
  EXPECT_TRUE(fs::exists(killed + "/damaged-1/" + segment));
  EXPECT_TRUE(open_store(killed).value()->verify(nullptr)->empty());
}

// A migration that was killed may leave rows as 0.1 wrote them in pages that nothing replaced.
TEST_F(Foreign, RowsOfTheReleaseInACatalogOfTodayAreItsOwn) {
  make_checksums(root(), "");
  EXPECT_EQ(open_store(root()).value()->load("", "ann").status().code(), Code::kCorrupt);
  sql("ALTER TABLE sessions DROP COLUMN needs");
  auto report = repair();
  ASSERT_OK(report.status());
  EXPECT_EQ(report->sessions_kept, 1u);
  expect_whole();
}

class ForeignSegment : public Foreign {
 protected:
  void SetUp() override {
    Foreign::SetUp();
    segment_ = segment_files(root()).at(0);
    auto bytes = test::read_file(segment_);
    for (size_t i = 24; i < 32; i++) bytes[i] = static_cast<uint8_t>(~bytes[i]);
    write_file(segment_, bytes);
  }
  std::string segment_;
};

TEST_F(ForeignSegment, IsAHoleForReadersAndNamed) {
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
  EXPECT_EQ(readable_chunks(store->get(), chain_), 0u);
  EXPECT_EQ((*store)->info()->chunks_damaged, 0u);
  auto faults = (*store)->verify(nullptr);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].what, "a segment of another store");
  EXPECT_EQ((*faults)[0].session, "ann");
  ASSERT_OK((*store)->gc(nullptr).status());
  SaveOptions o;
  o.id = 9;
  o.durability = Durability::kKv;
  ASSERT_OK(save_chain(store->get(), "eve", chain_, o).status()) << "there is nothing to sync";
  EXPECT_TRUE(fs::exists(segment_));
}

TEST_F(ForeignSegment, IsMovedAsideByRepair) {
  const auto bytes = test::read_file(segment_);
  auto report = repair();
  ASSERT_OK(report.status());
  EXPECT_EQ(report->outcome, RepairReport::Outcome::kMended);
  EXPECT_EQ(report->sessions_kept, 1u);
  EXPECT_EQ(report->chunks_lost, chain_.nodes.size());
  EXPECT_FALSE(fs::exists(segment_));
  EXPECT_EQ(report->aside, root() + "/damaged-1");
  EXPECT_EQ(test::read_file(report->aside + "/" + fs::path(segment_).filename().string()), bytes);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
  SaveOptions o;
  o.revision_seen = 1;
  ASSERT_OK(save_chain(store->get(), "ann", chain_, &o).status());
  EXPECT_EQ(o.chunks_written, chain_.nodes.size());
  store->reset();
  EXPECT_EQ(repair()->outcome, RepairReport::Outcome::kSound);
}

// Whether the catalog is sound or made anew, the chunks of another store become no session's.
TEST_F(ForeignSegment, ThatNoRowNamesIsMovedAsideToo) {
  for (const bool lost : {false, true}) {
    SCOPED_TRACE(lost);
    const std::string from = segment_files(other()).at(0), to = root() + "/segs/" + from.substr(from.size() - 39);
    fs::create_directories(fs::path(to).parent_path());
    fs::permissions(fs::path(to).parent_path(), fs::perms::owner_all);
    fs::copy_file(from, to);
    if (lost) sql("UPDATE nodes SET refs = refs + 1");
    auto report = repair();
    ASSERT_OK(report.status());
    EXPECT_EQ(report->outcome, lost ? RepairReport::Outcome::kRebuilt : RepairReport::Outcome::kMended);
    EXPECT_EQ(report->sessions_recovered, 0u);
    EXPECT_EQ(report->chunks_orphaned, 0u);
    EXPECT_FALSE(fs::exists(to));
    EXPECT_TRUE(fs::exists(report->aside + "/" + fs::path(from).filename().string()));
  }
}

// Where FORMAT and identity are lost, the segments tell how the uuid began; sessions and chunks stay.
TEST_F(Foreign, TheSegmentsTellWhichStoreItIs) {
  for (const bool salt : {true, false}) {
    SCOPED_TRACE(salt);
    fs::remove(format());
    sql("DELETE FROM meta WHERE name = 'identity'");
    if (!salt) sql("DELETE FROM meta");
    const std::string before = sql_rows(catalog(), "SELECT hex(checksum) FROM sessions");
    auto report = repair();
    ASSERT_OK(report.status());
    EXPECT_EQ(report->sessions_kept, 1u);
    expect_whole();
    EXPECT_EQ(sql_rows(catalog(), "SELECT hex(checksum) FROM sessions"), before);
  }
}

TEST_F(Foreign, WithoutItsIdentityACatalogIsDamaged) {
  const auto good = test::read_file(catalog());
  sql("DELETE FROM meta WHERE name = 'identity'");
  EXPECT_EQ(open_status().detail(), Detail::kCatalogCorrupt);
  auto report = repair();
  ASSERT_OK(report.status());
  EXPECT_EQ(report->sessions_kept, 1u);
  const std::string id = id_in(root());
  expect_whole();
  EXPECT_EQ(id_in(root()), id) << "FORMAT has it, too";
}

}  // namespace
}  // namespace kvrt
