// A store of an older kvrt is brought up to date once, by a process that may write it and is alone; a backup stays.
#include "tests/support/damage_rig.h"
#include "tests/support/fault_env.h"
#include "tests/support/old_schema.h"
#include "tests/support/repair_rig.h"

namespace kvrt {
namespace {

using namespace test;

// Rows that must be the same after the way there and back. The clock of uses starts anew.
constexpr char kRows[] =
    "SELECT name, hex(value) FROM meta; SELECT id, hex(name), bytes, live, synced FROM segments;"
    "SELECT id, hex(key), parent, n, hex(tokens), refs FROM nodes; SELECT node, grp, segment, offset, bytes, raw_bytes FROM chunks;"
    "SELECT domain, name, hex(id), gen, hex(root), head, tokens, block_tokens, pinned, expires_ms, created_ms, saved_ms, hex(checksum),"
    " hex(model_id), hex(manifest), hex(needs), chunks, chunks_missing, chunk_bytes, chunk_bytes_shared FROM sessions ORDER BY domain, "
    "name;"
    "SELECT chunks, chunk_bytes, chunk_raw_bytes, segments, segment_bytes FROM totals;"
    "SELECT hex(name), gen FROM tombstones; SELECT hex(name) FROM trash";
constexpr char kTables[] = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name";

class Migration : public Damage {
 protected:
  void SetUpAgain() {
    fs::remove_all(root());
    SetUp();
  }
  // A store of schema 2 once more, behind a migration that left a backup: *first.
  void make_old_again(std::vector<uint8_t>* first) {
    make_schema_2(root());
    ASSERT_OK(migrate());
    *first = test::read_file(backup());
    {
      auto store = open_store(root());
      ASSERT_OK((*store)->remove("", "ann"));
    }
    make_schema_2(root());
  }
  void SetUp() override {
    Damage::SetUp();
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto save = [&](const std::string& name, const Chain& chain, uint8_t id, uint64_t seen = 0, bool pin = false) {
      SaveOptions o;
      o.id = id;
      o.revision_seen = seen;
      o.pin = pin;
      o.domain = name == "dan" ? "work" : "";
      ASSERT_OK(save_chain(store->get(), name, chain, o).status());
      store->reset();  // a segment for each
      store = open_store(root());
      ASSERT_OK(store.status());
    };
    save("bob", shared_, 2);
    save("bob", grown_, 2, 1);
    save("eve", chain_, 3, 0, true);  // all of it shared with "ann"
    save("dan", other_, 4);
    save("tmp", other_, 5);
    ASSERT_OK((*store)->set_ttl("", "bob", 1'000'000));
    ASSERT_OK((*store)->remove("", "tmp"));
    flip(segment_files(root()).back(), 32 + 300);  // a hole, somewhere
    read_all(store->get());
    ASSERT_EQ((*store)->info()->chunks_damaged, 1u);
    (*store)->cache_model_id({1, 2, {}}, Hash256{});
  }
  // Brings the counts of sessions to those that a walk finds: of sessions saved early they are out of date.
  void count_sessions() {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto list = (*store)->list("", true);
    ASSERT_OK(list.status());
    store->reset();
    for (const SessionStat& s : *list) {
      sql("UPDATE sessions SET chunks = " + std::to_string(s.chunks) + ", chunks_missing = " + std::to_string(s.chunks_missing) +
          ", chunk_bytes = " + std::to_string(s.bytes) + ", chunk_bytes_shared = " + std::to_string(s.bytes_shared) + " WHERE domain = '" +
          s.domain + "' AND name = '" + s.name + "'");
    }
  }
  void read_all(Store* store) {
    for (const Chain* chain : {&chain_, &shared_, &grown_, &other_}) (void)readable_chunks(store, *chain);
  }
  Status migrate() { return open_status(); }
  std::string backup() const { return root() + "/catalog.db.old"; }

  Chain shared_{token_run(40)};  // the first 2 blocks of chain_, and a tail
  Chain grown_{token_run(100)}, other_{token_run(30, 7)};
};

TEST_F(Migration, EveryRowIsWhatTodaysCatalogHas) {
  count_sessions();
  const std::string rows = sql_rows(catalog(), kRows), tables = sql_rows(catalog(), kTables);
  make_schema_2(root());
  ASSERT_NE(sql_rows(catalog(), kTables), tables);
  const auto old = test::read_file(catalog());
  ASSERT_OK(migrate());
  EXPECT_EQ(sql_rows(catalog(), kRows), rows);
  EXPECT_EQ(sql_rows(catalog(), kTables), tables) << "the tables are made as a new store's are";
  EXPECT_EQ(sql_rows(catalog(), "PRAGMA user_version; SELECT clock, shares, seen_ms FROM totals"), "4|\n4|0|0|\n");
  EXPECT_EQ(sql_rows(catalog(), "SELECT group_concat(used, ' ') FROM (SELECT used FROM sessions ORDER BY saved_ms, domain, name)"),
            "1 2 3 4|\n");
  EXPECT_EQ(sql_rows(catalog(), "SELECT count(*) FROM sessions WHERE counted = 0"), "4|\n");
  EXPECT_EQ(test::read_file(backup()), old);
  EXPECT_EQ(fs::status(backup()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("work", "dan")->tokens, other_.tokens);
  SaveOptions o;
  o.id = 9;
  EXPECT_EQ(*save_chain(store->get(), "tmp", other_, o), 2u) << "a removed name's revision goes on";
  ASSERT_OK((*store)->gc(nullptr).status());
  EXPECT_EQ(test::read_file(backup()), old) << "the backup stays";
}

// Release 0.1 had a node's chunk in the node's row.
TEST_F(Migration, ChunksOfTheReleaseAreOfGroup0) {
  const std::string rows = sql_rows(catalog(), kRows), tables = sql_rows(catalog(), kTables);
  make_schema_3(root());
  ASSERT_OK(migrate());
  // The id of the store is a new one.
  EXPECT_EQ(sql_rows(catalog(), kRows).substr(rows.find("salt")), rows.substr(rows.find("salt")));
  EXPECT_EQ(sql_rows(catalog(), kTables), tables);
  EXPECT_EQ(sql_rows(catalog(), "SELECT DISTINCT grp FROM chunks"), "0|\n");
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
  read_all(store->get());
  EXPECT_EQ((*store)->info()->chunks_damaged, 0u);
}

// A checksum names the store now. One that was wrong stays wrong.
TEST_F(Migration, TheChecksumsOfSessionsAreRenewed) {
  constexpr char kChecksums[] = "SELECT name, hex(checksum) FROM sessions ORDER BY name";
  for (const bool release : {false, true}) {
    if (release) make_schema_3(root());
    if (!release) make_schema_2(root());
    sql("UPDATE sessions SET checksum = zeroblob(16) WHERE name = 'eve'; UPDATE sessions SET tokens = tokens + 1 WHERE name = 'bob'");
    const std::string bob = sql_rows(catalog(), "SELECT hex(checksum) FROM sessions WHERE name = 'bob'");
    ASSERT_OK(migrate());
    const auto format = test::read_file(root() + "/FORMAT");
    std::string tag;
    for (size_t i = 0; i < 8; i++) {
      tag += static_cast<char>(
          std::stoi(std::string(format.begin() + static_cast<ptrdiff_t>(18 + 2 * i), format.begin() + static_cast<ptrdiff_t>(20 + 2 * i)),
                    nullptr, 16));
    }
    EXPECT_EQ(sql_rows(catalog(), "SELECT hex(checksum) FROM sessions WHERE name = 'eve'"), std::string(32, '0') + "|\n");
    EXPECT_EQ(sql_rows(catalog(), "SELECT hex(checksum) FROM sessions WHERE name = 'bob'"), bob);
    sql("DELETE FROM sessions WHERE name IN ('eve', 'bob')");
    const std::string renewed = sql_rows(catalog(), kChecksums);
    make_checksums(root(), tag + std::string(4, '\0'));
    EXPECT_EQ(sql_rows(catalog(), kChecksums), renewed);
    SetUpAgain();
  }
}

// The old tables had no rule against them: they cost their chunks.
TEST_F(Migration, WrongPlacesOfChunks) {
  make_schema_3(root());
  sql("UPDATE nodes SET offset = NULL, bytes = NULL, raw_bytes = NULL WHERE id = (SELECT max(id) FROM nodes WHERE segment IS NOT NULL)");
  ASSERT_OK(migrate());
  auto store = open_store(root());
  ASSERT_OK(store.status());
  const uint64_t chunks = (*store)->info()->chunks;
  read_all(store->get());
  EXPECT_EQ((*store)->info()->chunks_damaged, 1u);
  EXPECT_EQ((*store)->info()->chunks, chunks - 1);
  EXPECT_EQ((*store)->load("work", "dan")->tokens, other_.tokens);
}

// What is left of a catalog of 0.1 whose header is gone.
TEST_F(Migration, ARepairReadsTheOldRows) {
  make_schema_3(root());
  auto bytes = test::read_file(catalog());
  std::fill_n(bytes.begin(), 100, uint8_t{0x11});
  write_file(catalog(), bytes);
  fs::remove(segment_files(root()).front());
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.sessions_kept, 4u);
  EXPECT_GT(r.report.chunks_kept, 0u);
  EXPECT_GT(r.report.chunks_lost, 0u) << "the old rows tell of them";
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
}

TEST_F(Migration, TheNextOneReplacesTheBackup) {
  std::vector<uint8_t> first;
  ASSERT_NO_FATAL_FAILURE(make_old_again(&first));
  const auto second = test::read_file(catalog());
  ASSERT_NE(first, second);
  ASSERT_OK(migrate());
  EXPECT_EQ(test::read_file(backup()), second);
}

// Wherever the copy fails, the backup before it is there, or the new one.
TEST_F(Migration, AFailedOneLeavesABackup) {
  std::vector<uint8_t> first;
  ASSERT_NO_FATAL_FAILURE(make_old_again(&first));
  const std::string base = tmp_.path() + "/base";
  fs::copy(root(), base, fs::copy_options::recursive);
  uint64_t kept = 0, refused = 0;
  for (uint64_t n = 1;; n++) {
    SCOPED_TRACE("no space at operation " + std::to_string(n));
    fs::remove_all(root());
    fs::copy(base, root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
    FaultPlan plan;
    FaultEnv env(posix_env(), &plan);
    plan.arm(Fault::kNoSpace, n);
    const Status status = open_store(root(), {}, &env).take_status();
    if (plan.fired() == 0) break;
    n = plan.first();
    if (status.is_ok()) continue;
    refused++;
    kept += fs::exists(backup()) && test::read_file(backup()) == first;
  }
  EXPECT_GT(kept, 3u);
  EXPECT_LE(refused - kept, 2u) << "where the new one was to get its name, and behind that";
}

TEST_F(Migration, ALogIsFoldedInFirst) {
  make_schema_2(root());
  ASSERT_OK(kill_with_log(root(), "INSERT INTO tombstones VALUES(zeroblob(32), 6)"));
  ASSERT_GT(fs::file_size(catalog() + "-wal"), 0u);
  ASSERT_OK(migrate());
  EXPECT_EQ(sql_rows(catalog(), "SELECT count(*) FROM tombstones"), "2|\n");
  EXPECT_EQ(sql_rows(backup(), "PRAGMA user_version; SELECT count(*) FROM tombstones"), "2|\n2|\n");
}

TEST_F(Migration, ReadersAreRefusedAndNothingChanges) {
  make_schema_2(root());
  const auto before = everything();
  StoreOptions reading;
  reading.read_only = true;
  Status refused = open_status(reading);
  EXPECT_EQ(refused.code(), Code::kIncompatible);
  EXPECT_NE(refused.message().find("once for writing"), std::string::npos) << refused.message();
  EXPECT_EQ(everything(), before);
  ASSERT_OK(migrate());
  auto reader = open_store(root(), reading);
  ASSERT_OK(reader.status());
  EXPECT_EQ((*reader)->load("work", "dan")->tokens, other_.tokens);
}

TEST_F(Migration, NotBesideAnother) {
  make_schema_2(root());
  auto lock = posix_env()->open_lock(root() + "/lock", true);
  ASSERT_OK((*lock)->acquire(LockMode::kShared));
  const auto before = everything();
  Status busy = migrate();
  EXPECT_EQ(busy.code(), Code::kBusy);
  EXPECT_NE(busy.message().find("schema 2 is to be migrated"), std::string::npos) << busy.message();
  EXPECT_EQ(everything(), before);
  (*lock)->release();
  EXPECT_OK(migrate());
}

TEST_F(Migration, ADamagedCatalogIsNotCarriedOver) {
  make_schema_2(root());
  auto bytes = test::read_file(catalog());
  std::fill(bytes.begin() + 4096 * 3, bytes.begin() + 4096 * 5, uint8_t{0xa5});
  write_file(catalog(), bytes);
  EXPECT_EQ(migrate().detail(), Detail::kCatalogCorrupt);
  EXPECT_EQ(test::read_file(catalog()), bytes);
  EXPECT_FALSE(fs::exists(backup()));
}

// One row that is wrong is that session's loss, as it was before.
TEST_F(Migration, AWrongRowStaysAlone) {
  make_schema_2(root());
  sql("PRAGMA foreign_keys=OFF; UPDATE sessions SET head = 12345 WHERE name = 'bob'; UPDATE nodes SET parent = id WHERE id ="
      " (SELECT head FROM sessions WHERE name = 'dan')");
  ASSERT_OK(migrate());
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
  EXPECT_EQ((*store)->load("", "bob").status().code(), Code::kCorrupt);
  EXPECT_EQ((*store)->load("work", "dan").status().code(), Code::kCorrupt);
}

// A newer kvrt was killed between the commit of its migration and the folding in of the log: the header still says the old number.
TEST_F(Migration, ANewerSchemaInTheLogAloneIsLeftThere) {
  for (bool old : {true, false}) {
    if (old) make_schema_2(root());
    ASSERT_OK(kill_with_log(root(), "BEGIN; CREATE TABLE IF NOT EXISTS later(x); PRAGMA user_version = 9; COMMIT"));
    auto before = everything();
    Status refused = migrate();
    EXPECT_EQ(refused.code(), Code::kIncompatible) << refused.message();
    EXPECT_EQ(refused.detail(), Detail::kStoreTooNew) << refused.message();
    auto after = everything();
    for (auto* files : {&before, &after}) files->erase(catalog() + "-shm"), files->erase(root() + "/write.lock");  // the log's index
    EXPECT_EQ(after, before);
    sql("PRAGMA user_version = " + std::string(old ? "2" : "4"));
    ASSERT_OK(migrate());
  }
}

}  // namespace
}  // namespace kvrt
