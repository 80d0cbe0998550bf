// A file system without free inodes: a store there opens for all that needs no new file, and says what is wanting.
#include "tests/support/damage_rig.h"
#include "tests/support/tmpfs.h"

namespace kvrt {
namespace {

using namespace test;

class Inodes : public Damage {
 protected:
  void SetUp() override {
    Damage::SetUp();
    if (!mount_.mounted()) GTEST_SKIP() << "no right to mount";
    auto store = open_store(place());
    ASSERT_OK(store.status());
    ASSERT_OK(save_chain(store->get(), "ann", chain_).status());
    ASSERT_OK(save_chain(store->get(), "bob", bob_).status());
  }
  std::string place() const { return tmp_.path() + "/m/s"; }
  void fill() {
    for (; std::ofstream(filler(fillers_)).good(); ++fillers_) {
    }
  }
  void free_all() {
    for (; fillers_ > 0; --fillers_) fs::remove(filler(fillers_ - 1));
  }
  std::string filler(int number) const { return tmp_.path() + "/m/f" + std::to_string(number); }
  static void expect_named(const Status& status) {
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.message();
    EXPECT_NE(status.message().find("inode"), std::string::npos) << status.message();
  }
  void expect_readable(Store* store, std::string_view name, const Chain& chain) {
    auto loaded = store->load("", name);
    ASSERT_OK(loaded.status());
    EXPECT_EQ(loaded->tokens, chain.tokens);
    EXPECT_EQ(readable_chunks(store, chain), chain.nodes.size());
  }

  Tmpfs mount_{tmp_.path() + "/m", "size=8m,nr_inodes=100"};
  Chain bob_{token_run(90, 3)}, eve_{token_run(60, 4)};
  int fillers_ = 0;
};

TEST_F(Inodes, TheReserveOpensForWriting) {
  for (int round = 0; round < 2; ++round) {  // closing makes the reserve again
    SCOPED_TRACE(round);
    fill();
    auto store = open_store(place());
    ASSERT_OK(store.status());
    EXPECT_FALSE((*store)->info()->read_only);
    expect_readable(store->get(), "ann", chain_);
    SaveOptions kv;
    kv.durability = Durability::kKv;
    expect_named(save_chain(store->get(), "eve", eve_, kv).status());
    ASSERT_OK((*store)->gc(nullptr).status());
    ASSERT_OK((*store)->rename("", "bob", "eve"));
    ASSERT_OK((*store)->rename("", "eve", "bob"));
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
    store->reset();
    EXPECT_TRUE(fs::exists(place() + "/reserve"));
    EXPECT_TRUE(fs::exists(place() + "/reserve2"));
  }
  auto store = open_store(place());
  ASSERT_OK((*store)->remove("", "bob"));
  ASSERT_OK((*store)->gc(nullptr).status());
  EXPECT_EQ((*store)->list("", true)->size(), 1u);
  free_all();
  ASSERT_OK(save_chain(store->get(), "eve", eve_).status());
  expect_readable(store->get(), "eve", eve_);
}

TEST_F(Inodes, WithoutTheReserveItIsReadOnly) {
  fs::remove(place() + "/reserve");
  fs::remove(place() + "/reserve2");
  fill();
  {
    auto store = open_store(place());
    ASSERT_OK(store.status());
    EXPECT_TRUE((*store)->info()->read_only);
    expect_readable(store->get(), "ann", chain_);
    EXPECT_EQ((*store)->list("", true)->size(), 2u);
    expect_named((*store)->begin_save().status());
    expect_named((*store)->remove("", "bob"));
    expect_named((*store)->gc(nullptr).status());
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
  }
  free_all();
  auto store = open_store(place());
  ASSERT_OK(store.status());
  EXPECT_FALSE((*store)->info()->read_only);
  ASSERT_OK(save_chain(store->get(), "eve", eve_).status());
}

TEST_F(Inodes, ANewStoreIsRefusedByName) {
  fill();
  expect_named(open_store(tmp_.path() + "/m/t").status());
  fs::remove(filler(--fillers_));  // enough for its directory
  expect_named(open_store(tmp_.path() + "/m/t").status());
  free_all();
  ASSERT_OK(open_store(tmp_.path() + "/m/t").status());
}

}  // namespace
}  // namespace kvrt
