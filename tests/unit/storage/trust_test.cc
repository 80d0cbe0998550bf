// Things that the store does not believe: rows, numbers and files that this store did not write, or that have changed since.
#include "storage/repair/repair.h"
#include "storage/store/format_file.h"
#include "tests/support/damage_rig.h"
#include "tests/support/old_schema.h"
#include "tests/support/sanitized.h"

namespace kvrt {
namespace {

using namespace test;

class Trust : public Damage {
 protected:
  static std::vector<uint8_t> flipped(std::vector<uint8_t> bytes, size_t bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    return bytes;
  }
  Result<RepairReport> repair() { return repair_store(posix_env(), nullptr, root(), {}); }
};

// A row that is wrong costs a hash, never a session. Verify names it, repair forgets it and keeps the catalog.
TEST_F(Trust, AFlippedBitInTheCacheOfModelIdsIsNotBelieved) {
  ModelFile file{1, 2, {}};
  file.id.bytes.fill(0xb7);
  Hash256 id, out;
  id.bytes.fill(0xb7);
  {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    (*store)->cache_model_id(file, id);
  }
  const auto good = test::read_file(catalog());
  const std::vector<uint8_t> pattern(64, 0xb7);
  const auto row = std::search(good.begin(), good.end(), pattern.begin(), pattern.end());
  ASSERT_NE(row, good.end());
  const size_t at = static_cast<size_t>(row - good.begin()), bits = 8 * (32 + 32 + 16);
  for (size_t bit = 0; bit < bits; bit += kSanitized ? 7 : 1) {
    write_file(catalog(), flipped(good, 8 * at + bit));
    {
      StoreOptions reading;
      reading.read_only = true;
      auto store = open_store(root(), reading);
      ASSERT_OK(store.status());
      ASSERT_FALSE((*store)->cached_model_id(file, &out)) << bit;
      auto faults = (*store)->verify(nullptr);
      ASSERT_OK(faults.status());
      ASSERT_EQ(faults->size(), 1u) << bit;
      EXPECT_NE((*faults)[0].what.find("inode 2"), std::string::npos) << (*faults)[0].what;
    }
    if (bit % 64 != 0) continue;
    auto report = repair();
    ASSERT_OK(report.status());
    EXPECT_EQ(report->outcome, RepairReport::Outcome::kMended);
    auto store = open_store(root());
    ASSERT_OK(store.status());
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
    EXPECT_FALSE((*store)->cached_model_id(file, &out));
    (*store)->cache_model_id(file, id);
    EXPECT_TRUE((*store)->cached_model_id(file, &out));
    EXPECT_EQ(out, id);
  }
}

// ---- FORMAT and the catalog's two numbers

class Numbers : public Trust {
 protected:
  std::string format() const { return root() + "/FORMAT"; }
  static std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
  void expect_whole() {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto loaded = (*store)->load("", "ann");
    ASSERT_OK(loaded.status());
    ASSERT_EQ(loaded->tokens, chain_.tokens);
    ASSERT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size());
  }
  static std::string sealed(const std::string& text) {
    const Checksum128 sum = checksum128({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    char line[32];
    std::snprintf(line, sizeof line, "check %016llx\n", static_cast<unsigned long long>(sum.low));
    return text + line;
  }
};

TEST_F(Numbers, EveryFlippedBitOfFormatIsMended) {
  const auto good = test::read_file(format());
  ASSERT_EQ(good.size(), 74u);
  for (const std::vector<uint8_t>& line : {good, bytes_of("kvrt-store 1\n")}) {
    for (size_t bit = 0; bit < 8 * line.size() && !HasFatalFailure(); bit += kSanitized ? 3 : 1) {
      SCOPED_TRACE(bit);
      write_file(format(), flipped(line, bit));
      if (bit % 16 == 5) {
        auto report = repair();
        ASSERT_OK(report.status());
        EXPECT_EQ(report->outcome, RepairReport::Outcome::kMended);
        EXPECT_EQ(report->sessions_kept, 1u);
      }
      expect_whole();
      ASSERT_EQ(test::read_file(format()), good);
    }
  }
  write_file(format(), bytes_of("kvrt-store 1\n"));  // 0.1's
  expect_whole();
  EXPECT_EQ(test::read_file(format()), good);
}

// A read-only store names a FORMAT that is not sound as a fault; repair writes it right.
TEST_F(Numbers, AFormatThatIsNotSoundIsAFault) {
  const auto good = test::read_file(format());
  const auto faults = [&] {
    auto store = open_store(root(), {.read_only = true});
    EXPECT_OK(store.status());
    return (*store)->verify(nullptr, nullptr).value();
  };
  EXPECT_TRUE(faults().empty());
  for (const bool missing : {true, false}) {
    if (missing) fs::remove(format());
    if (!missing) write_file(format(), flipped(good, 160));
    const auto found = faults();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].where, "FORMAT");
    auto report = repair();
    ASSERT_OK(report.status());
    EXPECT_EQ(report->outcome, RepairReport::Outcome::kMended);
    EXPECT_EQ(test::read_file(format()), good);
    EXPECT_TRUE(faults().empty());
  }
}

TEST_F(Numbers, EveryFlippedBitOfTheCatalogsNumbersIsMended) {
  for (int schema : {4, 3, 2}) {
    if (schema == 3) make_schema_3(root());
    if (schema == 2) make_schema_2(root());
    const auto good = test::read_file(catalog());
    for (size_t bit = 0; bit < 64 && !HasFatalFailure(); bit += kSanitized ? 3 : 1) {
      SCOPED_TRACE("schema " + std::to_string(schema) + ", bit " + std::to_string(bit));
      write_file(catalog(), flipped(good, 8 * (bit < 32 ? 60 : 64) + bit));
      if (schema == 4 && bit % 2 == 0) {
        auto report = repair();
        ASSERT_OK(report.status());
        EXPECT_EQ(report->outcome, RepairReport::Outcome::kMended);
        EXPECT_EQ(report->sessions_kept, 1u);
      }
      expect_whole();
      ASSERT_EQ(sql_rows(catalog(), "PRAGMA user_version; PRAGMA application_id"), "4|\n1263948372|\n");
      fs::remove(root() + "/catalog.db.old");
    }
    write_file(catalog(), good);
    expect_whole();
  }
}

// Numbers that a later kvrt wrote, with a right checksum, are named as newer and stay as they are.
TEST_F(Numbers, TrulyNewerOnesAreLeftUntouched) {
  const auto good = test::read_file(format());
  const std::string id = std::string(good.begin() + 13, good.begin() + 13 + 38);
  const auto refused = [&](const char* what) {
    const auto before = everything();
    for (int way = 0; way < 2; ++way) {
      const Status status = way == 0 ? open_status() : repair().take_status();
      EXPECT_EQ(status.code(), Code::kIncompatible) << what << ": " << status.message();
      EXPECT_EQ(status.detail(), Detail::kStoreTooNew) << what << ": " << status.message();
    }
    EXPECT_EQ(everything(), before) << what;
  };
  for (const std::string number : {"2", "3", "5", "9", "17", "999999999"}) {
    write_file(format(), bytes_of(sealed("kvrt-store " + number + "\n" + id)));
    refused(number.c_str());
    write_file(format(), bytes_of(sealed("kvrt-store " + number + "\nsomething else\n")));
    refused(number.c_str());
  }
  write_file(format(), bytes_of("kvrt-store 2\n"));
  refused("two bits away");
  write_file(format(), good);
  const std::string salt = sql_rows(catalog(), "SELECT hex(value) FROM meta WHERE name = 'salt'");
  std::vector<uint8_t> value;
  for (size_t i = 0; i < 32; ++i) value.push_back(static_cast<uint8_t>(std::stoul(salt.substr(2 * i, 2), nullptr, 16)));
  value.insert(value.end(), {5, 0, 0, 0});  // one bit from 4
  value.resize(32 + 4 + 16, 0xab);
  const Checksum128 sum = checksum128(value);
  std::string hex;
  for (const uint64_t half : {sum.low, sum.high}) {
    for (int i = 0; i < 8; ++i) value.push_back(static_cast<uint8_t>(half >> 8 * i));
  }
  for (size_t i = 32; i < value.size(); ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", value[i]);
    hex += two;
  }
  sql("PRAGMA user_version = 5; UPDATE meta SET value = x'" + hex + "' WHERE name = 'identity'");
  refused("a schema of a later kvrt, though its tables are the same");
}

}  // namespace
}  // namespace kvrt
