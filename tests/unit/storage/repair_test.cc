// Repair of stores whose catalog is damaged: provable content comes back exactly, the rest is named, and the result is sound.
#include <random>

#include "tests/support/repair_rig.h"
#include "tests/support/sanitized.h"
#include "tests/support/sql.h"

namespace kvrt {
namespace {

using namespace test;
using Outcome = RepairReport::Outcome;

constexpr size_t kPage = 4096;

class Repair : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    tmp_ = new TempDir("/dev/shm");
    saved_ = new BigStore;
    auto store = open_store(base());
    ASSERT_OK(store.status());
    saved_->fill(store->get());
  }
  static void TearDownTestSuite() {
    delete saved_;
    delete tmp_;
  }
  void SetUp() override { reset(); }
  static std::string base() { return tmp_->path() + "/base"; }
  static std::string root() { return tmp_->path() + "/store"; }
  static std::string catalog() { return root() + "/catalog.db"; }
  static void reset() {
    fs::remove_all(root());
    fs::copy(base(), root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
  }
  static void sql(const std::string& text) { sql_rows(catalog(), text); }

  // Repairs, looks at the store, repairs again. Returns the sessions that kept their names.
  std::set<SessionName> repaired(Repaired* out = nullptr) {
    Repaired r = repair(root());
    EXPECT_OK(r.status);
    std::set<SessionName> names;
    if (!r.status.is_ok()) return names;
    {
      auto store = open_store(root());
      EXPECT_OK(store.status());
      if (!store.is_ok()) return names;
      names = expect_repaired(store->get(), *saved_, r);
    }
    const auto before = all_files(root());
    Repaired again = repair(root());
    EXPECT_OK(again.status);
    EXPECT_EQ(again.report.outcome, Outcome::kSound);
    EXPECT_TRUE(again.lines.empty()) << again.lines[0];
    EXPECT_EQ(all_files(root()), before);
    if (out != nullptr) *out = std::move(r);
    return names;
  }

  // Expects all sessions but those of which a piece was in the bytes that are gone.
  void expect_kept_without(const std::set<SessionName>& names, std::span<const uint8_t> gone) {
    const auto has = [&](std::span<const uint8_t> piece) {
      return std::search(gone.begin(), gone.end(), piece.begin(), piece.end()) != gone.end();
    };
    for (auto& [name, session] : saved_->sessions) {
      const std::string mark = session.manifest.substr(0, session.manifest.find('>') + 1);
      bool excused = has({reinterpret_cast<const uint8_t*>(mark.data()), mark.size()});
      // Tokens without KV are in the catalog alone.
      for (size_t i = 0; !session.chunks && i < session.chain->nodes.size(); i++) {
        excused = excused || has(session.chain->nodes[i].key.bytes);
      }
      EXPECT_TRUE(excused || names.count(name) == 1) << name.second << " is lost";
    }
  }

  static TempDir* tmp_;
  static BigStore* saved_;
};
TempDir* Repair::tmp_ = nullptr;
BigStore* Repair::saved_ = nullptr;

TEST_F(Repair, SoundStoreStaysAsItIs) {
  const auto before = all_files(root());
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kSound);
  EXPECT_EQ(r.report.sessions_kept, saved_->sessions.size());
  EXPECT_EQ(r.report.aside, "");
  EXPECT_EQ(all_files(root()), before);
}

TEST_F(Repair, EveryPageZeroed) {
  const auto good = test::read_file(catalog());
  ASSERT_GT(good.size(), 20 * kPage);
  for (size_t page = 0; page * kPage < good.size(); page += kSanitized ? 3 : 1) {
    SCOPED_TRACE("page " + std::to_string(page + 1));
    reset();
    auto bytes = good;
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(page * kPage), kPage, uint8_t{0});
    if (bytes == good) continue;
    write_file(catalog(), bytes);
    const auto names = repaired();
    expect_kept_without(names, std::span(good).subspan(page * kPage, kPage));
    if (HasFailure()) return;
  }
}

TEST_F(Repair, CutAnywhere) {
  const auto good = test::read_file(catalog());
  for (size_t size = 0; size < good.size(); size += 3 * kPage + 1111) {
    SCOPED_TRACE("cut at " + std::to_string(size));
    reset();
    fs::resize_file(catalog(), size);
    const auto names = repaired();
    expect_kept_without(names, std::span(good).subspan(size));
    if (HasFailure()) return;
  }
}

TEST_F(Repair, FlippedBytes) {
  const char* given = std::getenv("KVRT_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 rng(seed);
  const auto good = test::read_file(catalog());
  for (int i = 0; i < 20; i++) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(i));
    reset();
    auto bytes = good;
    for (uint64_t k = 1 + rng() % 6; k > 0; k--) {
      const size_t at = rng() % bytes.size();
      if (at < 60 || at >= 64) bytes[at] ^= static_cast<uint8_t>(1u << rng() % 8);  // there: the schema's number
    }
    write_file(catalog(), bytes);
    const auto names = repaired();
    EXPECT_GE(names.size() + 6 * 12, saved_->sessions.size());
    if (HasFailure()) return;
  }
}

// SQLite's own check passes over them where a file is opened read only, as repair and a reader do.
TEST_F(Repair, RowsThatBreakAConstraint) {
  for (const char* broken :
       {"UPDATE nodes SET n = n + 1 WHERE id = (SELECT max(id) FROM nodes)",
        "UPDATE sessions SET pinned = 256 WHERE rowid = (SELECT max(rowid) FROM sessions)", "UPDATE segments SET live = -1 WHERE id = 1",
        "INSERT INTO trash VALUES(x'01')", "UPDATE chunks SET grp = 32 WHERE grp = 0 AND node = (SELECT max(node) FROM chunks)"}) {
    SCOPED_TRACE(broken);
    reset();
    sql(std::string("PRAGMA ignore_check_constraints=ON; ") + broken);
    Repaired r;
    const auto names = repaired(&r);
    EXPECT_NE(r.report.outcome, Outcome::kSound);
    EXPECT_GE(names.size() + 1, saved_->sessions.size());
    if (HasFailure()) return;
  }
}

TEST_F(Repair, NothingIsLeftOfTheCatalog) {
  const size_t segments = segment_files(root()).size();
  for (int how = 0; how < 3; how++) {
    SCOPED_TRACE(how);
    reset();
    fs::remove(catalog());
    if (how == 1) write_file(catalog(), {});
    if (how == 2) write_file(catalog(), std::vector<uint8_t>(50'000, 0x5a));
    Repaired r;
    EXPECT_TRUE(repaired(&r).empty());
    EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
    EXPECT_EQ(r.report.sessions_recovered, 0u) << "nobody knows whose they are";
    EXPECT_GT(r.report.chunks_orphaned, 0u);
    EXPECT_EQ(r.lines.back().find(root() + "/damaged-1"), 0u) << r.lines.back();
    size_t aside = 0;
    for (auto& e : fs::directory_iterator(root() + "/damaged-1")) aside += e.path().extension() == ".seg";
    EXPECT_EQ(aside, segments) << "what nobody can use now is kept";
    EXPECT_EQ(fs::exists(root() + "/damaged-1/catalog.db"), how != 0);
  }
}

TEST_F(Repair, DamagedCatalogIsKept) {
  auto bytes = test::read_file(catalog());
  std::fill(bytes.begin(), bytes.begin() + 200, uint8_t{0x11});
  write_file(catalog(), bytes);
  Repaired r;
  EXPECT_EQ(repaired(&r).size(), saved_->sessions.size()) << "the header says nothing of a session";
  EXPECT_EQ(r.report.aside, root() + "/damaged-1");
  EXPECT_EQ(test::read_file(root() + "/damaged-1/catalog.db"), bytes);
  fs::remove(catalog());
  ASSERT_OK(repair(root()).status);
  EXPECT_TRUE(fs::exists(root() + "/damaged-2"));
  EXPECT_EQ(test::read_file(root() + "/damaged-1/catalog.db"), bytes);
}

TEST_F(Repair, WrongCountsAreCountedAnew) {
  for (const char* change :
       {"UPDATE nodes SET refs = refs + 1 WHERE parent IS NULL", "UPDATE segments SET live = live + 1",
        "UPDATE totals SET chunks = chunks + 1", "DELETE FROM totals", "DELETE FROM segments",
        "UPDATE sessions SET chunk_bytes = chunk_bytes + 1, counted = (SELECT shares FROM totals)", "UPDATE chunks SET segment = 1",
        "UPDATE chunks SET segment = 1000", "UPDATE chunks SET offset = offset + 1", "UPDATE chunks SET node = node + 1000",
        "DELETE FROM chunks", "DROP TABLE chunks", "DROP INDEX nodes_by_parent", "DROP INDEX chunks_by_segment"}) {
    SCOPED_TRACE(change);
    reset();
    sql(std::string("PRAGMA foreign_keys=OFF; ") + change);
    EXPECT_EQ(repaired().size(), saved_->sessions.size());
  }
}

// SQLite reads such a catalog whole, though no kvrt writes it. An open says what to do.
TEST_F(Repair, PagesOfAnotherSizeAreReadThroughSqlite) {
  for (const char* change : {"PRAGMA page_size=1024; VACUUM", "PRAGMA page_size=1024; VACUUM; PRAGMA journal_mode=WAL",
                             "PRAGMA page_size=8192; VACUUM; PRAGMA journal_mode=WAL", "PRAGMA page_size=65536; VACUUM", "VACUUM"}) {
    SCOPED_TRACE(change);
    reset();
    sql(std::string("PRAGMA journal_mode=DELETE; ") + change);
    const Status refused = open_store(root()).take_status();
    EXPECT_EQ(refused.code(), Code::kCorrupt);
    EXPECT_NE(refused.message().find("kvrt store repair"), std::string::npos) << refused.message();
    EXPECT_NE(refused.message().find(root()), std::string::npos) << refused.message();
    Repaired r;
    EXPECT_EQ(repaired(&r).size(), saved_->sessions.size());
    EXPECT_EQ(r.report.sessions_lost + r.report.chunks_lost + r.report.chunks_orphaned, 0u);
    EXPECT_EQ(sql_rows(catalog(), "PRAGMA page_size"), "4096|\n");
  }
}

TEST_F(Repair, NamesTheTableThatDiffers) {
  sql("DROP INDEX nodes_by_parent");
  const Repaired r = repair(root());
  ASSERT_OK(r.status);
  ASSERT_FALSE(r.lines.empty());
  EXPECT_EQ(r.lines[0], "catalog: its tables are not those of a store: index nodes_by_parent is missing");
}

TEST_F(Repair, SessionsArePutTogetherFromTheirChunks) {
  for (const char* change :
       {"DELETE FROM nodes", "DELETE FROM nodes WHERE id % 2 = 0", "UPDATE nodes SET tokens = zeroblob(length(tokens))",
        "UPDATE nodes SET key = randomblob(32)", "UPDATE nodes SET parent = NULL", "DROP TABLE nodes"}) {
    SCOPED_TRACE(change);
    reset();
    sql(std::string("PRAGMA foreign_keys=OFF; ") + change);
    const auto names = repaired();
    for (auto& [name, session] : saved_->sessions) {
      EXPECT_TRUE(!session.chunks || names.count(name) == 1) << name.second;
    }
  }
}

TEST_F(Repair, LostSessionsAreNamedAndTheirTokensComeBack) {
  const SessionName name{"team", "s9-"};
  const SavedSession& lost = saved_->sessions.at(name);
  ASSERT_EQ(lost.revision, 2u);
  for (const char* change :
       {"UPDATE sessions SET gen = gen + 1 WHERE name = 's9-'", "UPDATE sessions SET manifest = x'00' WHERE name = 's9-'",
        "UPDATE sessions SET root = zeroblob(32) WHERE name = 's9-'"}) {
    SCOPED_TRACE(change);
    reset();
    sql(change);
    Repaired r;
    const auto names = repaired(&r);
    EXPECT_EQ(names.size(), saved_->sessions.size() - 1);
    EXPECT_EQ(names.count(name), 0u);
    EXPECT_EQ(r.report.sessions_lost, 1u);
    EXPECT_EQ(r.report.sessions_recovered, 1u);
    EXPECT_TRUE(std::any_of(r.lines.begin(), r.lines.end(), [](auto& l) { return l.find("session s9- of domain team") == 0; }));
    auto store = open_store(root());
    ASSERT_OK(store.status());
    bool found = false;
    const auto list = (*store)->list("team", false);
    ASSERT_OK(list.status());
    for (auto& stat : list.value()) {
      if (stat.name.rfind("recovered-", 0) == 0) found = (*store)->load("team", stat.name)->tokens == lost.chain->tokens;
    }
    EXPECT_TRUE(found);
    SaveOptions o;
    o.domain = "team";
    EXPECT_GT(*save_chain(store->get(), "s9-", *lost.chain, o), lost.revision) << "a revision came twice";
  }
}

TEST_F(Repair, RemovedSessionsStayRemovedAndRevisionsGoOn) {
  auto bytes = test::read_file(catalog());
  std::fill(bytes.begin(), bytes.begin() + 100, uint8_t{0});
  write_file(catalog(), bytes);
  Repaired r;
  repaired(&r);
  EXPECT_EQ(r.report.sessions_recovered, 0u);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  for (auto& [name, revision] : saved_->removed) {
    EXPECT_EQ((*store)->load(name.first, name.second).status().code(), Code::kNotFound);
    SaveOptions o;
    o.domain = name.first;
    auto next = save_chain(store->get(), name.second, *saved_->chains[0], o);
    ASSERT_OK(next.status());
    EXPECT_EQ(*next, revision + 1) << name.second;
  }
}

TEST_F(Repair, LosingATableOfSessionsGivesTheirTokensBack) {
  sql("DELETE FROM sessions WHERE domain = '' AND name NOT IN ('eve-', 'bare-')");
  Repaired r;
  repaired(&r);
  EXPECT_EQ(r.report.sessions_recovered, 0u) << "the table is whole: they were removed, and their chunks are garbage";
  reset();
  sql("DROP TABLE sessions");
  repaired(&r);
  EXPECT_EQ(r.report.sessions_kept, 0u);
  EXPECT_GT(fs::directory_iterator(root() + "/damaged-1") == fs::directory_iterator() ? 0 : 1, 0);
}

TEST_F(Repair, OnlyAloneAndOnlyWhatIsOurs) {
  {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_EQ(repair(root()).status.code(), Code::kBusy);
  }
  EXPECT_EQ(repair(root() + "/nowhere").status.code(), Code::kNotFound);
  const std::string photos = tmp_->path() + "/photos";
  fs::create_directory(photos);
  fs::permissions(photos, fs::perms::owner_all);
  write_file(photos + "/cat.jpg", {1});
  EXPECT_EQ(repair(photos).status.code(), Code::kNotFound);
  EXPECT_EQ(std::distance(fs::directory_iterator(photos), fs::directory_iterator()), 1);
  fs::remove_all(photos);
  sql("PRAGMA user_version = 99");
  const auto before = all_files(root());
  Repaired newer = repair(root());
  EXPECT_EQ(newer.status.detail(), Detail::kStoreTooNew);
  EXPECT_EQ(all_files(root()), before);
  fs::permissions(root(), fs::perms::owner_all | fs::perms::group_write);
  EXPECT_EQ(repair(root()).status.detail(), Detail::kUnsafeDirectory);
}

TEST_F(Repair, StoppedBeforeTheSwitchItChangesNothing) {
  auto bytes = test::read_file(catalog());
  std::fill(bytes.begin() + 4096, bytes.begin() + 8192, uint8_t{0});
  write_file(catalog(), bytes);
  fs::remove(segment_files(root())[0]);
  const auto before = all_files(root());
  for (int at = 0;; at += 1 + at / 8) {
    int calls = 0;
    RepairWatch watch;
    watch.progress = [&](uint64_t, uint64_t) { return calls++ != at; };
    watch.note = [&](const std::string&) { return calls++ != at; };
    auto report = repair_store(posix_env(), nullptr, root(), watch);
    if (report.is_ok()) {
      EXPECT_GT(at, 10);
      break;
    }
    ASSERT_EQ(report.status().code(), Code::kCancelled);
    ASSERT_EQ(all_files(root()), before);
  }
}

// CANCELLED says that nothing was changed. Once something was, the repair goes on to its end.
TEST_F(Repair, StoppedAnywhereItIsAllOrNothing) {
  auto bytes = test::read_file(catalog());
  std::fill(bytes.begin() + 4096, bytes.begin() + 8192, uint8_t{0});
  write_file(catalog(), bytes);
  write_file(root() + "/FORMAT", {'?'});
  const std::string damaged = tmp_->path() + "/damaged";
  fs::copy(root(), damaged, fs::copy_options::recursive);
  int cancelled = 0;
  for (int at = 0;; at++) {
    fs::remove_all(root());
    fs::copy(damaged, root(), fs::copy_options::recursive);
    fs::permissions(root(), fs::perms::owner_all);
    const auto before = all_files(root());
    int calls = 0;
    std::string last;
    RepairWatch watch;
    watch.progress = [&](uint64_t, uint64_t) { return calls++ < at; };
    watch.note = [&](const std::string& line) {
      last = line;
      return calls++ < at;
    };
    auto report = repair_store(posix_env(), nullptr, root(), watch);
    if (report.is_ok()) {
      EXPECT_NE(last.find("damaged-1: what was replaced"), std::string::npos) << last;
      EXPECT_LT(at, calls) << "it was told to stop at the last line but one";
      ASSERT_OK(open_store(root()).status());
      if (calls == at + 2) break;
      ASSERT_LT(at, 1000);
      continue;
    }
    ASSERT_EQ(report.status().code(), Code::kCancelled);
    ASSERT_EQ(all_files(root()), before);
    cancelled++;
  }
  EXPECT_GT(cancelled, 10);
}

}  // namespace
}  // namespace kvrt
