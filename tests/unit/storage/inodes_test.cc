// A file system without free inodes: a store there opens for all that needs no new file, and says what is wanting.
#include <sys/wait.h>

#include <functional>

#include "tests/support/damage_rig.h"
#include "tests/support/tmpfs.h"

namespace kvrt {
namespace {

using namespace test;

// Another process. It takes a step when it is told, and says how that went.
class OtherProcess {
 public:
  explicit OtherProcess(const std::vector<std::function<Status()>>& steps) {
    EXPECT_EQ(::pipe(to_), 0);
    EXPECT_EQ(::pipe(from_), 0);
    child_ = ::fork();
    if (child_ != 0) return;
    char told = 0;
    for (const auto& step : steps) {
      if (::read(to_[0], &told, 1) != 1) break;
      const Status status = step();
      const std::string answer = status.is_ok() ? "ok" : status.message();
      if (::write(from_[1], answer.data(), answer.size()) < 0) break;
    }
    ::_exit(0);
  }
  ~OtherProcess() {
    kill();
    for (int fd : {to_[0], to_[1], from_[0], from_[1]}) ::close(fd);
  }
  // "ok", or the error's message.
  std::string step() {
    char answer[1000];
    EXPECT_EQ(::write(to_[1], "s", 1), 1);
    const ssize_t n = ::read(from_[0], answer, sizeof answer);
    return n > 0 ? std::string(answer, static_cast<size_t>(n)) : "it is gone";
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  int to_[2], from_[2];
  pid_t child_;
};

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
  void give_up_reserve() {
    fs::remove(place() + "/reserve");
    fs::remove(place() + "/reserve2");
  }
  static Status missing(const std::string& name) { return error(Code::kNotFound, Detail::kNone, "KV of %s", name.c_str()); }
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
  Chain bob_{token_run(90, 3)}, eve_{token_run(60, 4)}, kim_{token_run(50, 5)};
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
  give_up_reserve();
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

// A store that was opened for reading only writes as soon as there are inodes, on the same handle.
TEST_F(Inodes, ItWritesOnceThereAreSome) {
  give_up_reserve();
  fill();
  auto store = open_store(place());
  ASSERT_OK(store.status());
  expect_named(save_chain(store->get(), "eve", eve_).status());
  fs::remove(filler(--fillers_));  // of the two that it needs
  expect_named(save_chain(store->get(), "eve", eve_).status());
  EXPECT_TRUE((*store)->info()->read_only && (*store)->info()->waits_for_room);
  expect_readable(store->get(), "ann", chain_);
  free_all();
  ASSERT_OK(save_chain(store->get(), "eve", eve_).status());
  EXPECT_FALSE((*store)->info()->read_only || (*store)->info()->waits_for_room);
  for (const auto& [name, chain] : {std::pair("ann", &chain_), {"bob", &bob_}, {"eve", &eve_}}) expect_readable(store->get(), name, *chain);
  EXPECT_EQ((*store)->list("", true)->size(), 3u);
  ASSERT_OK((*store)->remove("", "bob"));
  ASSERT_OK((*store)->gc(nullptr).status());
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
  store->reset();
  EXPECT_TRUE(fs::exists(place() + "/reserve2"));
  EXPECT_FALSE(fs::exists(place() + "/catalog.db-wal"));
  EXPECT_EQ((*open_store(place()))->list("", true)->size(), 2u);
}

// A store that finds no room for its reserve when it is opened makes it once there is room, as long as it is open.
TEST_F(Inodes, TheReserveIsMadeLater) {
  give_up_reserve();
  fill();
  for (int i = 0; i < 2; ++i) fs::remove(filler(--fillers_));  // for the log and its index
  auto store = open_store(place());
  ASSERT_OK(store.status());
  EXPECT_FALSE((*store)->info()->read_only);
  EXPECT_FALSE(fs::exists(place() + "/reserve2"));
  free_all();
  ASSERT_OK(save_chain(store->get(), "eve", eve_).status());
  EXPECT_TRUE(fs::exists(place() + "/reserve") && fs::exists(place() + "/reserve2"));
}

TEST_F(Inodes, ItWritesWhenItIsOpenedAgain) {
  give_up_reserve();
  fill();
  auto store = open_store(place());
  ASSERT_OK(store.status());
  (*store)->retry_writing();
  EXPECT_TRUE((*store)->info()->read_only);
  free_all();
  (*store)->retry_writing();
  EXPECT_FALSE((*store)->info()->read_only);
  expect_readable(store->get(), "ann", chain_);
}

// What another process writes beside a store that is open for reading only is not mixed with what that has read; and then both write.
TEST_F(Inodes, BesideAWriterThatComesLater) {
  std::unique_ptr<Store> theirs;
  SaveOptions kv;
  kv.durability = Durability::kKv;
  OtherProcess other({[&]() -> Status {
                        KVRT_ASSIGN(theirs, open_store(place()));
                        return save_chain(theirs.get(), "eve", eve_, kv).take_status();
                      },
                      [&] { return readable_chunks(theirs.get(), kim_) == kim_.nodes.size() ? theirs->remove("", "bob") : missing("kim"); },
                      [&] { return theirs.reset(), Status(); }});
  give_up_reserve();
  fill();
  auto store = open_store(place());
  ASSERT_OK(store.status());
  EXPECT_TRUE((*store)->info()->read_only);
  free_all();
  EXPECT_EQ(other.step(), "ok");
  EXPECT_NE((*store)->load("", "ann").status().message().find("open the store again"), std::string::npos);
  SaveOptions o;
  o.durability = Durability::kKv;
  o.id = 4;
  ASSERT_OK(save_chain(store->get(), "kim", kim_, o).status());
  expect_readable(store->get(), "eve", eve_);
  EXPECT_EQ(other.step(), "ok");
  EXPECT_EQ((*store)->load("", "bob").status().code(), Code::kNotFound);
  EXPECT_EQ(other.step(), "ok");
  ASSERT_OK((*store)->gc(nullptr).status());
  store->reset();
  store = open_store(place());
  EXPECT_EQ((*store)->list("", true)->size(), 3u);
  for (const auto& [name, chain] : {std::pair("ann", &chain_), {"eve", &eve_}, {"kim", &kim_}}) expect_readable(store->get(), name, *chain);
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
}

// The log and its index are there, and need no inode.
TEST_F(Inodes, BesideAWriterThatWasThere) {
  std::unique_ptr<Store> theirs;
  OtherProcess other({[&]() -> Status {
                        KVRT_ASSIGN(theirs, open_store(place()));
                        return save_chain(theirs.get(), "eve", eve_).take_status();
                      },
                      [&] { return theirs->rename("", "eve", "joe"); }});
  EXPECT_EQ(other.step(), "ok");
  give_up_reserve();
  fill();
  auto store = open_store(place());
  ASSERT_OK(store.status());
  EXPECT_FALSE((*store)->info()->read_only);
  expect_readable(store->get(), "eve", eve_);
  ASSERT_OK((*store)->remove("", "bob"));
  SaveOptions o;
  o.id = 4;
  o.durability = Durability::kKv;
  expect_named(save_chain(store->get(), "kim", kim_, o).status());
  EXPECT_EQ(other.step(), "ok");
  expect_readable(store->get(), "joe", eve_);
  other.kill();
  ASSERT_OK((*store)->rename("", "joe", "eve"));
  store->reset();
  store = open_store(place());
  ASSERT_OK(store.status());
  expect_readable(store->get(), "eve", eve_);
  free_all();
  ASSERT_OK(save_chain(store->get(), "kim", kim_, o).status());
  EXPECT_EQ((*store)->list("", true)->size(), 3u);
  EXPECT_TRUE((*store)->verify(nullptr)->empty());
}

// A killed writer's log needs its index, which is there or needs an inode: nothing is read without what the log has.
TEST_F(Inodes, AfterAWriterThatWasKilled) {
  for (const bool index : {true, false}) {
    SCOPED_TRACE(index);
    std::unique_ptr<Store> theirs;
    OtherProcess other({[&]() -> Status {
      KVRT_ASSIGN(theirs, open_store(place()));
      return theirs->rename("", index ? "bob" : "eve", index ? "eve" : "bob");
    }});
    EXPECT_EQ(other.step(), "ok");
    other.kill();
    if (!index) fs::remove(place() + "/catalog.db-shm");
    give_up_reserve();
    fill();
    auto store = open_store(place());
    if (index) {
      ASSERT_OK(store.status());
      expect_readable(store->get(), "eve", bob_);
    } else {
      expect_named(store.status());
    }
    store = error(Code::kNotFound, Detail::kNone, "closed");
    free_all();
    store = open_store(place());
    ASSERT_OK(store.status());
    expect_readable(store->get(), index ? "eve" : "bob", bob_);
    EXPECT_TRUE((*store)->verify(nullptr)->empty());
  }
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
