// Removed content is in no file of the store after a gc: names, messages, token ids, KV. The files are searched for the very bytes.
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <deque>
#include <random>
#include <string_view>
#include <unordered_set>

#include "storage/repair/repair.h"
#include "tests/support/gc_rig.h"

namespace kvrt {
namespace {

using namespace test;

std::vector<uint8_t> bytes_of(std::span<const int32_t> tokens) {
  auto p = reinterpret_cast<const uint8_t*>(tokens.data());
  return {p, p + tokens.size_bytes()};
}

// A session whose every part is like nothing else: bytes that a search finds of it are its own.
struct Canary {
  std::string name, manifest;
  std::unique_ptr<Chain> chain;
  size_t shared = 0;  // leading tokens that others have too

  // The bytes by which a part of it would be known: runs of 4 tokens, 12 bytes of its texts, and of its KV's low plane.
  std::vector<std::vector<uint8_t>> needles() const {
    std::vector<std::vector<uint8_t>> all;
    const auto add = [&](std::span<const uint8_t> text, size_t n, size_t step) {
      for (size_t at = 0; at + n <= text.size(); at += step)
        all.emplace_back(text.begin() + static_cast<ptrdiff_t>(at), text.begin() + static_cast<ptrdiff_t>(at + n));
    };
    const auto add_text = [&](const std::string& text) { add({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 12, 4); };
    add_text(name);
    add_text(manifest);
    add(bytes_of(std::span(chain->tokens).subspan(shared)), 16, 4);
    for (size_t i = 0; i < chain->nodes.size(); i++) {
      if ((i + 1) * Chain::kBlock <= shared) continue;
      std::vector<uint8_t> low;
      for (size_t k = 0; k < chain->payloads[i].size(); k += 2) low.push_back(chain->payloads[i][k]);
      add(low, 12, 24);
    }
    return all;
  }
};

class Removal : public Gc {
 protected:
  static constexpr size_t kGram = 12;  // the shortest needle

  std::string word(size_t n) {
    std::string text;
    while (text.size() < n) text += static_cast<char>('!' + rng_() % 90);
    return text;
  }
  // A branch of the trunk, or of nothing.
  const Canary& make(size_t shared, size_t length, size_t manifest_bytes) {
    Canary c;
    c.name = word(24);
    c.manifest = word(manifest_bytes + 12) + "\\u00e9";
    auto tokens = std::vector<int32_t>(trunk_.begin(), trunk_.begin() + static_cast<ptrdiff_t>(shared));
    while (tokens.size() < shared + length) tokens.push_back(static_cast<int32_t>(rng_() % 100'000'000));
    c.chain = std::make_unique<Chain>(tokens);
    c.shared = shared;
    all_.push_back(std::move(c));
    return all_.back();
  }
  void save_canary(const Canary& c, SaveOptions o = {}) {
    o.manifest = c.manifest;
    save(c.name, *c.chain, o);
  }
  // Files with a part of it, of those that are looked through once for all.
  void expect_gone(const std::vector<const Canary*>& gone) {
    std::unordered_set<std::string_view> grams;
    std::vector<std::vector<std::vector<uint8_t>>> keep;
    for (const Canary* c : gone) {
      keep.push_back(c->needles());
      for (auto& needle : keep.back()) grams.insert({reinterpret_cast<const char*>(needle.data()), kGram});
    }
    for (auto& entry : fs::recursive_directory_iterator(root())) {
      if (!entry.is_regular_file()) continue;
      const auto bytes = read_file(entry.path());
      size_t found = 0, first = 0;
      for (size_t at = 0; at + kGram <= bytes.size(); at++) {
        if (grams.count({reinterpret_cast<const char*>(&bytes[at]), kGram}) == 0) continue;
        if (found++ == 0) first = at;
      }
      EXPECT_EQ(found, 0u) << entry.path() << " has removed content, first at " << first;
    }
  }
  bool is_there(const Canary& c) {
    std::string all;
    for (auto& entry : fs::recursive_directory_iterator(root())) {
      if (!entry.is_regular_file()) continue;
      const auto bytes = read_file(entry.path());
      all.append(bytes.begin(), bytes.end());
    }
    size_t found = 0, all_needles = 0;
    for (auto& needle : c.needles()) all_needles++, found += all.find(std::string(needle.begin(), needle.end())) != std::string::npos;
    return found * 4 > all_needles * 3;  // texts that go over a page's end are in two parts
  }
  void remove(const Canary& c) { ASSERT_OK(store_->remove("", c.name)); }

  std::mt19937_64 rng_{20261123};
  std::vector<int32_t> trunk_ = token_run(64, 3);
  std::deque<Canary> all_;
};

// Several hundred sessions come and go, so that pages split, merge and are filled anew.
TEST_F(Removal, NothingIsLeftOfManySessions) {
  std::vector<const Canary*> living, gone;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 12; i++) {
      living.push_back(&make(rng_() % 3 * 16, 1 + rng_() % 90, rng_() % 4 == 0 ? rng_() % 9000 : rng_() % 300));
      save_canary(*living.back());
    }
    for (int i = 0; i < 11; i++) {
      std::swap(living[rng_() % living.size()], living.back());
      gone.push_back(living.back());
      remove(*living.back());
      living.pop_back();
    }
  }
  ASSERT_TRUE(is_there(*living[0])) << "the search finds nothing";
  const GcReport report = gc();
  EXPECT_EQ(report.log_bytes_kept, 0u);
  EXPECT_GT(report.bytes_punched + report.bytes_rewritten, 0u);
  EXPECT_EQ(fs::file_size(root() + "/catalog.db-wal"), 0u);
  expect_gone(gone);
  for (auto* c : living) EXPECT_EQ(readable_chunks(store_.get(), *c->chain), c->chain->nodes.size());
  expect_clean();
  const GcReport again = gc();
  EXPECT_EQ(again.bytes_punched + again.bytes_freed + again.bytes_rewritten, 0u);
}

// SQLite leaves copies of rows in the free parts of pages that it has filled anew, here and there: put there by hand, in each.
TEST_F(Removal, NothingIsLeftInFreePartsOfPages) {
  std::vector<const Canary*> living;
  for (int i = 0; i < 30; i++) living.push_back(&make(16, 40, rng_() % 3000));
  for (auto* c : living) save_canary(*c);
  gc();
  auto other = open_store(root());
  ASSERT_OK(other.status());
  EXPECT_EQ((*other)->list("", true)->size(), 30u);  // it has pages in memory
  store_.reset();
  const std::string file = root() + "/catalog.db", planted = "left of a row";
  auto bytes = read_file(file);
  size_t count = 0;
  for (size_t page = 0; page + 4096 <= bytes.size(); page += 4096) {
    const uint8_t* head = &bytes[page == 0 ? 100 : page];
    const auto be16 = [](const uint8_t* p) { return size_t{p[0]} << 8 | p[1]; };
    const size_t pointers_end = static_cast<size_t>(head - &bytes[page]) + 12 + 2 * be16(head + 3), top = be16(head + 5);
    const bool tree = head[0] == 2 || head[0] == 5 || head[0] == 10 || head[0] == 13;
    if (!tree || top > 4096 || pointers_end + planted.size() > top) continue;
    std::copy(planted.begin(), planted.end(), bytes.begin() + static_cast<ptrdiff_t>(page + top - planted.size()));
    count++;
  }
  EXPECT_GT(count, 20u);
  {
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const auto is_left = [&] {
    bool left = false;
    for (const std::string& path : {file, file + "-wal"}) {
      const auto all = read_file(path);
      left = left || std::search(all.begin(), all.end(), planted.begin(), planted.end()) != all.end();
    }
    return left;
  };
  EXPECT_TRUE(is_left());
  open();
  EXPECT_EQ(store_->list("", true)->size(), 30u);
  env_.tick_ns = 1'000'000;  // some pages a slice
  EXPECT_EQ(gc().log_bytes_kept, 0u);
  EXPECT_FALSE(is_left());
  for (Store* store : {store_.get(), other->get()}) {  // nor does anybody bring it back from memory
    for (int i = 0; i < 5; i++) {
      SaveOptions o;
      o.overwrite = true;
      ASSERT_OK(save_chain(store, living[static_cast<size_t>(i)]->name, *living[static_cast<size_t>(i) + 7]->chain, &o).status());
    }
    EXPECT_FALSE(is_left());
  }
  for (size_t i = 7; i < living.size(); i++) EXPECT_EQ(readable_chunks(store_.get(), *living[i]->chain), living[i]->chain->nodes.size());
  expect_clean();
}

TEST_F(Removal, BesideAHandleThatIsOpen) {
  auto other = open_store(root());
  ASSERT_OK(other.status());
  std::vector<const Canary*> gone;
  const Canary& stays = make(32, 40, 50);
  save_canary(stays);
  for (int i = 0; i < 60; i++) {
    gone.push_back(&make(32, 30, 200));
    save_canary(*gone.back());
    EXPECT_OK((*other)->load("", gone.back()->name).status());
  }
  for (auto* c : gone) remove(*c);
  EXPECT_EQ(gc().log_bytes_kept, 0u);
  expect_gone(gone);
  const Chain later(token_run(50, 9));
  ASSERT_OK(save_chain(other->get(), "later", later).status());  // with pages that it had read before
  expect_gone(gone);
  EXPECT_EQ(readable_chunks(other->get(), *stays.chain), stays.chain->nodes.size());
}

// A process that is stopped in the middle of a read holds the log, and gc says so.
TEST_F(Removal, BesideAStoppedReader) {
  const Canary &stays = make(32, 40, 50), &gone = make(32, 40, 4000);
  save_canary(stays);
  save_canary(gone);
  const pid_t reader = ::fork();
  if (reader == 0) {
    sqlite3* db = nullptr;
    if (sqlite3_open_v2((root() + "/catalog.db").c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) ::_exit(1);
    if (sqlite3_exec(db, "BEGIN; SELECT count(*) FROM sessions", nullptr, nullptr, nullptr) != SQLITE_OK) ::_exit(2);
    ::raise(SIGSTOP);
    ::_exit(sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(reader, &status, WUNTRACED), reader);
  ASSERT_TRUE(WIFSTOPPED(status));
  remove(gone);
  env_.tick_ns = 1'000'000'000;  // the 4 seconds that it waits
  const GcReport held = gc();
  EXPECT_EQ(held.log_bytes_kept, fs::file_size(root() + "/catalog.db-wal"));
  EXPECT_GT(held.log_bytes_kept, 4096u);
  const Chain meanwhile(token_run(50, 9));
  ASSERT_OK(save_chain(store_.get(), "meanwhile", meanwhile).status());
  ::kill(reader, SIGCONT);
  ASSERT_EQ(::waitpid(reader, &status, 0), reader);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  save_canary(stays);
  EXPECT_EQ(fs::file_size(root() + "/catalog.db-wal"), 0u) << "the next save folds it";
  EXPECT_EQ(gc().log_bytes_kept, 0u);
  expect_gone({&gone});
  expect_clean();
}

TEST_F(Removal, TheNextCloseFoldsTheLog) {
  auto other = open_store(root());
  ASSERT_OK(other.status());
  const Canary& gone = make(0, 40, 400);
  save_canary(gone);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2((root() + "/catalog.db").c_str(), &db, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM sessions", nullptr, nullptr, nullptr), SQLITE_OK);
  remove(gone);
  env_.tick_ns = 1'000'000'000;
  EXPECT_GT(gc().log_bytes_kept, 0u);
  sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  store_.reset();  // not the last
  EXPECT_EQ(fs::file_size(root() + "/catalog.db-wal"), 0u);
  expect_gone({&gone});
}

// The other ways in which content comes to be nobody's.
TEST_F(Removal, OverwriteTruncationRenameExpiryEviction) {
  const Canary &old = make(16, 60, 300), &cut = make(16, 60, 300), &named = make(0, 30, 60), &expires = make(32, 40, 3000);
  for (auto* c : {&old, &cut, &named}) save_canary(*c);
  SaveOptions dying;
  dying.ttl_seconds = 10;
  save_canary(expires, dying);
  // Another conversation under the name; a part of its own.
  const Canary& now = make(16, 50, 300);
  SaveOptions o;
  o.manifest = now.manifest;
  save(old.name, *now.chain, o);
  const Chain shorter({cut.chain->tokens.begin(), cut.chain->tokens.begin() + 40});
  save(cut.name, shorter, {});
  ASSERT_OK(store_->rename("", named.name, "plain"));
  env_.unix_offset_ms = 11'000;
  EXPECT_EQ(gc().sessions_removed, 1u);
  const auto part = [](const std::string& text, std::vector<int32_t> tokens, size_t shared) {
    return Canary{text, text, std::make_unique<Chain>(std::move(tokens)), shared};
  };
  const Canary rest = part(cut.manifest, cut.chain->tokens, 48), name_alone = part(named.name, {}, 0),
               content = part(old.manifest, old.chain->tokens, 16);
  expect_gone({&rest, &name_alone, &content, &expires});
  EXPECT_EQ(readable_chunks(store_.get(), shorter), shorter.nodes.size());
  expect_clean();
}

uint64_t blocks_of(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_blocks) : 0;
}

class Punched : public Removal {
 protected:
  // One segment with 2 of 8 blocks that nobody needs.
  void SetUp() override {
    Removal::SetUp();
    SaveOptions o;
    o.id = 1;
    ASSERT_OK(save_chain(store_.get(), "ann", whole_, &o).status());
    o.revision_seen = 1;
    ASSERT_OK(save_chain(store_.get(), "ann", part_, &o).status());
    segment_ = segment_files(root()).at(0);
  }
  const Chain whole_{token_run(8 * 16, 5), 1024}, part_{token_run(6 * 16, 5), 1024};
  std::string segment_;
};

TEST_F(Punched, SpaceComesBack) {
  const uint64_t before = blocks_of(segment_);
  const GcReport report = gc();
  EXPECT_GT(report.bytes_punched, 2 * 16 * 512u);
  EXPECT_EQ(report.bytes_rewritten, 0u);
  EXPECT_LT(blocks_of(segment_) * 512, before * 512 - 2 * 16 * 512 + 8192);
  EXPECT_EQ(segment_files(root()).at(0), segment_);
  EXPECT_EQ(readable_chunks(store_.get(), part_), 6u);
  EXPECT_EQ(readable_chunks(store_.get(), whole_), 6u);
  expect_clean();
  EXPECT_EQ(gc().bytes_punched, 0u);
  // It can be saved again, to a segment of its own.
  SaveOptions o;
  o.id = 1;
  o.revision_seen = 2;
  ASSERT_OK(save_chain(store_.get(), "ann", whole_, &o).status());
  EXPECT_EQ(readable_chunks(store_.get(), whole_), 8u);
  gc();
  EXPECT_EQ(readable_chunks(store_.get(), whole_), 8u);
  expect_clean();
}

TEST_F(Punched, WhereAFileCannotHaveHolesItIsWrittenAnew) {
  env_.no_holes = true;
  const GcReport report = gc();
  EXPECT_GT(report.bytes_rewritten, 6 * 16 * 512u);
  EXPECT_EQ(report.bytes_punched, 0u);
  ASSERT_EQ(segment_files(root()).size(), 1u);
  EXPECT_NE(segment_files(root()).at(0), segment_);
  EXPECT_EQ(readable_chunks(store_.get(), part_), 6u);
  expect_clean();
  EXPECT_EQ(gc().bytes_rewritten, 0u);
}

// Zeros are no fault to repair, whether the catalog is there or not.
TEST_F(Punched, RepairTakesItAsRemoved) {
  gc();
  store_.reset();
  for (bool lost : {false, true}) {
    if (lost) fs::resize_file(root() + "/catalog.db", 100);
    std::vector<std::string> lines;
    RepairWatch watch;
    watch.note = [&](const std::string& line) { return lines.push_back(line), true; };
    auto report = repair_store(posix_env(), nullptr, root(), watch);
    ASSERT_OK(report.status());
    EXPECT_EQ(report->outcome, lost ? RepairReport::Outcome::kRebuilt : RepairReport::Outcome::kSound);
    EXPECT_EQ(report->chunks_lost, 0u);
    for (auto& line : lines) EXPECT_EQ(line.find(".seg"), std::string::npos) << line;
  }
}

// Killed between the commit and the hole, gc finds the frames again.
TEST_F(Punched, FoundAgainAfterAFailure) {
  plan_.arm(Fault::kNoSpace, 1, true);
  (void)store_->gc(nullptr).is_ok();
  plan_.disarm();
  open();
  expect_clean();
  EXPECT_GT(gc().bytes_punched, 0u);
  EXPECT_EQ(readable_chunks(store_.get(), part_), 6u);
  expect_clean();
}

// Leftovers of a migration and a repair are named, and go when they are told to.
TEST_F(Removal, OldFiles) {
  const Canary& c = make(0, 30, 60);
  save_canary(c);
  EXPECT_EQ(store_->info()->old_bytes, 0u);
  EXPECT_EQ(*store_->remove_old(), 0u);
  write_file(root() + "/catalog.db.old", std::vector<uint8_t>(1000));
  for (const char* name : {"/damaged-1", "/damaged-12", "/damaged-x"}) {
    fs::create_directory(root() + name);
    fs::permissions(root() + name, fs::perms::owner_all);
    write_file(root() + name + "/catalog.db", std::vector<uint8_t>(10));
  }
  for (auto& e : fs::recursive_directory_iterator(root())) {
    if (e.is_regular_file()) fs::permissions(e.path(), fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_EQ(store_->info()->old_bytes, 1020u);
  EXPECT_EQ(*store_->remove_old(), 1020u);
  EXPECT_FALSE(fs::exists(root() + "/catalog.db.old") || fs::exists(root() + "/damaged-1") || fs::exists(root() + "/damaged-12"));
  EXPECT_TRUE(fs::exists(root() + "/damaged-x")) << "which is not kvrt's";
  EXPECT_EQ(store_->info()->old_bytes, 0u);
  EXPECT_EQ(readable_chunks(store_.get(), *c.chain), c.chain->nodes.size());
}

}  // namespace
}  // namespace kvrt
