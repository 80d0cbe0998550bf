// The log that a killed process leaves, with bits flipped and pieces gone.
#include "storage/catalog/sqlite_log.h"

#include <sys/wait.h>

#include <random>

#include "tests/support/damage_rig.h"
#include "tests/support/fault_env.h"
#include "tests/support/repair_rig.h"

namespace kvrt {
namespace {

using namespace test;
using Outcome = RepairReport::Outcome;

// "ann" is in the catalog; "bob", "eve" and "fay", saved one after the other, in its log alone.
class KilledLog : public Damage {
 protected:
  static constexpr size_t kHeader = 32, kFrame = 24 + 4096;

  void SetUp() override {
    Damage::SetUp();
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = open_store(root());
      if (!store.is_ok()) ::_exit(1);
      for (uint8_t i = 0; i < 3; i++) {
        SaveOptions o;
        o.id = static_cast<uint8_t>(2 + i);
        if (!save_chain(store->get(), kNames[i], *chains_[i], o).is_ok()) ::_exit(1);
      }
      FaultPlan::die();
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    bytes_ = test::read_file(log());
    ASSERT_GT(frames(), 6u);
  }
  std::string log() const { return catalog() + "-wal"; }
  size_t frames() const { return (bytes_.size() - kHeader) / kFrame; }
  bool commits(size_t frame) const { return bytes_[kHeader + frame * kFrame + 7] != 0; }  // its pages of the database, less than 256

  LogScan scan() {
    auto file = posix_env()->open_read(log());
    auto scan = file.is_ok() ? scan_log(**file, posix_env()->open_read(catalog())->get(), false) : Result<LogScan>(file.take_status());
    EXPECT_OK(scan.status());
    return scan.is_ok() ? std::move(*scan) : LogScan();
  }
  void flip_bit(size_t byte, int bit) {
    std::vector<uint8_t> flipped = bytes_;
    flipped[byte] ^= static_cast<uint8_t>(1u << bit);
    write_file(log(), flipped);
  }
  // The scan finds this very bit, or puts nothing right.
  void expect_found(size_t byte, int bit) {
    flip_bit(byte, bit);
    const LogScan found = scan();
    if (found.flipped.empty()) {
      unclear_++;
      return;
    }
    EXPECT_EQ(found.pages.size(), frames()) << "bit " << bit << " of byte " << byte;
    EXPECT_EQ(found.damaged_frame, 0u);
    ASSERT_EQ(found.flipped.size(), 1u) << "bit " << bit << " of byte " << byte;
    EXPECT_EQ(found.flipped[0].offset, byte);
    EXPECT_EQ(found.flipped[0].byte, bytes_[byte]);
  }
  void expect_all(Store* store) {
    EXPECT_EQ((*store->list("", true)).size(), 4u);
    for (size_t i = 0; i < 3; i++) {
      auto session = store->load("", kNames[i]);
      ASSERT_OK(session.status()) << kNames[i];
      EXPECT_EQ(session->tokens, chains_[i]->tokens);
      EXPECT_EQ(readable_chunks(store, *chains_[i]), chains_[i]->nodes.size());
    }
    auto faults = store->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
  }
  // More than a bit: a byte in the middle of the first frame of a transaction that is not the last but one.
  void damage_second_commit() {
    size_t commit = 0;
    while (!commits(commit)) commit++;
    std::vector<uint8_t> damaged = bytes_;
    for (size_t i = 0; i < 16; i++) damaged[kHeader + (commit + 1) * kFrame + 2000 + i] ^= 0x5a;
    write_file(log(), damaged);
    damaged_ = commit + 2;
  }

  static constexpr const char* kNames[] = {"bob", "eve", "fay"};
  std::unique_ptr<Chain> chains_[3] = {std::make_unique<Chain>(token_run(50, 3)), std::make_unique<Chain>(token_run(60, 4)),
                                       std::make_unique<Chain>(token_run(90, 5))};
  std::vector<uint8_t> bytes_;
  size_t damaged_ = 0, unclear_ = 0;
};

TEST_F(KilledLog, ASoundOneIsReadWhole) {
  const LogScan found = scan();
  EXPECT_TRUE(found.flipped.empty());
  EXPECT_EQ(found.pages.size(), frames());
  EXPECT_EQ(found.damaged_frame, 0u);
  expect_all(open_store(root())->get());
}

TEST_F(KilledLog, EachBitOfItsHeaderIsFound) {
  for (size_t byte = 0; byte < kHeader; byte++) {
    for (int bit = 0; bit < 8; bit++) expect_found(byte, bit);
  }
  EXPECT_EQ(unclear_, 0u) << "the first frame tells";
}

TEST_F(KilledLog, EachBitOfAFramesHeaderIsFound) {
  const size_t frame = frames() / 2;
  for (size_t byte = 0; byte < 24; byte++) {
    for (int bit = 0; bit < 8; bit++) expect_found(kHeader + frame * kFrame + byte, bit);
  }
}

TEST_F(KilledLog, BitsAnywhereAreFound) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; i++) expect_found(random() % bytes_.size(), static_cast<int>(random() % 8));
  EXPECT_LT(unclear_, 25u) << "high bits of bytes that this frame changed";
}

TEST_F(KilledLog, OneBitInEachOfTwoFramesIsFound) {
  std::vector<uint8_t> flipped = bytes_;
  const size_t first = kHeader + 1000, second = kHeader + 4 * kFrame + 24 + 17;
  flipped[first] ^= 1;
  flipped[second] ^= 0x80;
  write_file(log(), flipped);
  const LogScan found = scan();
  ASSERT_EQ(found.flipped.size(), 2u);
  EXPECT_EQ(found.flipped[0].offset, first);
  EXPECT_EQ(found.flipped[1].offset, second);
}

TEST_F(KilledLog, AnOpenMendsIt) {
  for (size_t byte : {size_t{3}, kHeader + 2, kHeader + kFrame + 12, kHeader + kFrame + 3000, kHeader + kFrame + 19}) {
    TempDir copy("/dev/shm");
    flip_bit(byte, 4);
    fs::copy(root(), copy.path() + "/s", fs::copy_options::recursive);
    fs::permissions(copy.path() + "/s", fs::perms::owner_all);
    auto store = open_store(copy.path() + "/s");
    ASSERT_OK(store.status());
    expect_all(store->get());
  }
}

TEST_F(KilledLog, AReaderAsksForAnOpenThatMends) {
  flip_bit(kHeader + 3 * kFrame + 100, 2);
  StoreOptions reader;
  reader.read_only = true;
  const auto before = everything();
  const Status refused = open_status(reader);
  EXPECT_EQ(refused.code(), Code::kCorrupt);
  EXPECT_NE(refused.message().find("catalog.db-wal"), std::string::npos) << refused.message();
  EXPECT_EQ(everything(), before);
  expect_all(open_store(root())->get());
  EXPECT_OK(open_status(reader));
}

TEST_F(KilledLog, RepairMendsIt) {
  flip_bit(kHeader + 3 * kFrame + 100, 2);
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kMended);
  EXPECT_EQ(r.report.sessions_kept, 4u);
  EXPECT_EQ(test::read_file(log()), bytes_);
  expect_all(open_store(root())->get());
}

// Wherever a power cut ends it: no damage is seen where there is none.
TEST_F(KilledLog, ATornEndIsNoDamage) {
  for (size_t cut = 0; cut < bytes_.size(); cut += 515) {
    for (bool zeros : {false, true}) {
      std::vector<uint8_t> torn = bytes_;
      torn.resize(cut);
      if (zeros) torn.resize(bytes_.size());
      write_file(log(), torn);
      const LogScan found = scan();
      EXPECT_TRUE(found.flipped.empty()) << cut;
      EXPECT_EQ(found.damaged_frame, 0u) << cut;
    }
  }
  std::vector<uint8_t> torn = bytes_;  // of the last transaction any piece may be missing
  size_t last = frames() - 1;
  while (!commits(last - 1)) last--;
  ASSERT_LT(last, frames() - 1);
  std::fill_n(torn.begin() + static_cast<ptrdiff_t>(kHeader + last * kFrame + 1000), 512, uint8_t{0});
  write_file(log(), torn);
  EXPECT_EQ(scan().damaged_frame, 0u);
}

// Frames of the log's last use behind those of this one.
TEST_F(KilledLog, OldFramesAreNoDamage) {
  std::vector<uint8_t> longer = bytes_;
  longer.insert(longer.end(), bytes_.begin() + static_cast<ptrdiff_t>(kHeader), bytes_.end());
  for (size_t frame = frames(); frame < 2 * frames(); frame++) longer[kHeader + frame * kFrame + 8] ^= 0x33;
  write_file(log(), longer);
  const LogScan found = scan();
  EXPECT_TRUE(found.flipped.empty());
  EXPECT_EQ(found.damaged_frame, 0u);
  EXPECT_EQ(found.pages.size(), frames());
}

TEST_F(KilledLog, MoreThanABitIsNamedByTheOpenThatFindsIt) {
  damage_second_commit();
  EXPECT_EQ(scan().damaged_frame, damaged_);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  auto faults = (*store)->verify(nullptr);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].where, "catalog.db-wal");
}

// High bits of words say too little by themselves. A bit that cannot be told is left for repair, which reads all of it but the row.
TEST_F(KilledLog, ABitThatCannotBeToldIsLeftForRepair) {
  size_t byte = kHeader + 24;
  while (unclear_ == 0 && byte < kHeader + 3 * kFrame) expect_found(byte++, 7);
  ASSERT_GT(unclear_, 0u);
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
  for (const char* name : kNames) EXPECT_OK((*store)->load("", name).status()) << name;
}

// Before a writer ends the log there.
TEST_F(KilledLog, MoreThanABitIsNamedToAReader) {
  damage_second_commit();
  StoreOptions reader;
  reader.read_only = true;
  auto store = open_store(root(), reader);
  ASSERT_OK(store.status());
  auto faults = (*store)->verify(nullptr);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].where, "catalog.db-wal");
}

// SQLite deletes the log of an empty database.
TEST_F(KilledLog, WithoutItsDatabaseItStaysAndIsRepaired) {
  for (size_t bytes : {0, 1}) {
    write_file(catalog(), std::vector<uint8_t>(bytes));
    for (bool read_only : {true, false}) {
      StoreOptions options;
      options.read_only = read_only;
      const Status refused = open_status(options);
      EXPECT_EQ(refused.code(), Code::kCorrupt);
      EXPECT_NE(refused.message().find("store repair"), std::string::npos) << refused.message();
      EXPECT_EQ(test::read_file(log()), bytes_);
    }
  }
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  for (const char* name : kNames) EXPECT_OK((*store)->load("", name).status()) << name;
}

TEST_F(KilledLog, RepairReadsWithoutItsHeader) {
  for (int how = 0; how < 3; how++) {
    TempDir copy("/dev/shm");
    std::vector<uint8_t> damaged = bytes_;
    if (how == 0) std::fill_n(damaged.begin(), kHeader, uint8_t{0});
    if (how == 1) damaged[16] ^= 1, damaged[20] ^= 2;
    if (how == 2) damaged[0] ^= 1, damaged[25] ^= 2;
    write_file(log(), damaged);
    fs::copy(root(), copy.path() + "/s", fs::copy_options::recursive);
    fs::permissions(copy.path() + "/s", fs::perms::owner_all);
    Repaired r = repair(copy.path() + "/s");
    ASSERT_OK(r.status);
    EXPECT_EQ(r.report.outcome, Outcome::kRebuilt) << how;
    expect_all(open_store(copy.path() + "/s")->get());
  }
}

// Damage within the last transaction but one: a single commit is behind it, and repair reads that, too.
TEST_F(KilledLog, RepairReadsASingleCommitBehindTheDamage) {
  size_t last = frames() - 1;
  while (!commits(last - 1)) last--;
  std::vector<uint8_t> damaged = bytes_;
  for (size_t i = 0; i < 16; i++) damaged[kHeader + (last - 1) * kFrame + 2000 + i] ^= 0x5a;
  write_file(log(), damaged);
  EXPECT_EQ(scan().damaged_frame, 0u) << "an open goes on: it may be a torn end";
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
  auto store = open_store(root());
  ASSERT_OK(store.status());
  auto fay = (*store)->load("", "fay");
  ASSERT_OK(fay.status());
  EXPECT_EQ(fay->tokens, chains_[2]->tokens);
}

TEST_F(KilledLog, RepairReadsBehindTheDamage) {
  damage_second_commit();
  Repaired r = repair(root());
  ASSERT_OK(r.status);
  EXPECT_EQ(r.report.outcome, Outcome::kRebuilt);
  EXPECT_TRUE(fs::exists(root() + "/damaged-1/catalog.db-wal"));
  expect_all(open_store(root())->get());
}

}  // namespace
}  // namespace kvrt
