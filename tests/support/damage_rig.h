// A store with one saved session, for tests that damage it or move it to a bad place.
#pragma once

#include <map>

#include "tests/support/sql.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

namespace fs = std::filesystem;

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    ASSERT_OK(save_chain(store->get(), "ann", chain_).status());
  }
  std::string root() const { return tmp_.path() + "/s"; }
  std::string catalog() const { return root() + "/catalog.db"; }
  Status open_status(StoreOptions options = {}) { return open_store(root(), options).take_status(); }
  void sql(const std::string& text) { sql_rows(catalog(), text); }
  // name -> bytes of every file below the root but the lock.
  std::map<std::string, std::vector<uint8_t>> everything() const {
    std::map<std::string, std::vector<uint8_t>> files;
    for (auto& e : fs::recursive_directory_iterator(root())) {
      if (e.path().filename() == "lock") continue;
      files[e.path().string()] = e.is_regular_file() ? test::read_file(e.path()) : std::vector<uint8_t>{};
    }
    return files;
  }
  void flip(const std::string& path, uint64_t at) {
    auto bytes = test::read_file(path);
    ASSERT_LT(at, bytes.size());
    bytes[at] ^= 0x10;
    write_file(path, bytes);
  }

  // The damage is found by verify and by reading; the rest reads; the tokens are there; a save heals the store.
  void expect_healed_by_a_save(size_t bad_chunks) {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    size_t named = 0;
    for (auto& f : *faults) named += f.session == "ann";
    EXPECT_GE(named, bad_chunks);
    EXPECT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size() - bad_chunks);
    EXPECT_EQ((*store)->info()->chunks_damaged, bad_chunks);
    auto loaded = (*store)->load("", "ann");
    ASSERT_OK(loaded.status());
    EXPECT_EQ(loaded->tokens, chain_.tokens);
    EXPECT_EQ((*store)->stat("", "ann")->chunks_missing, bad_chunks);
    SaveOptions o;
    o.revision_seen = 1;
    ASSERT_OK(save_chain(store->get(), "ann", chain_, &o).status());
    EXPECT_EQ(o.chunks_written, bad_chunks);
    EXPECT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size());
    auto again = (*store)->verify(nullptr);
    ASSERT_OK(again.status());
    for (auto& f : *again) {  // frames that nobody uses, and a footer, may stay bad
      EXPECT_TRUE(f.session != "ann" || f.what.rfind("chunk", 0) != 0) << f.where << ": " << f.what;
    }
  }

  TempDir tmp_{"/dev/shm"};
  Chain chain_{token_run(70)};  // 4 blocks and a tail
};

}  // namespace kvrt::test
