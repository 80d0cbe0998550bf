// Stores whose paths are as long as the system takes them, and longer than SQLite does.
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "tests/support/damage_rig.h"

namespace kvrt {
namespace {

using namespace test;

class LongPath : public Damage {
 protected:
  // Makes the directories of a path of this length, and gives it.
  std::string path_of(size_t bytes) {
    std::string path = tmp_.path() + "/" + std::to_string(bytes);
    while (path.size() < bytes) path += "/" + std::string(std::min<size_t>(200, bytes - path.size() - 1), 'd');
    fs::create_directories(path.substr(0, path.rfind('/')));
    return path;
  }
  void expect_works(const std::string& path) {
    {
      auto store = open_store(path);
      ASSERT_OK(store.status());
      ASSERT_OK(save_chain(store->get(), "ann", chain_).status());
      EXPECT_EQ((*store)->place(), Store::Place::kThere);
      auto beside = open_store(path);
      ASSERT_OK(beside.status());
      EXPECT_EQ((*beside)->load("", "ann")->tokens, chain_.tokens);
    }
    {  // the first handle closes before one that shares its index
      auto first = open_store(path);
      ASSERT_OK(first.status());
      auto second = open_store(path);
      ASSERT_OK(second.status());
      first->reset();
      auto third = open_store(path);
      ASSERT_OK(third.status());
      ASSERT_OK((*second)->pin("", "ann", 1));
      EXPECT_EQ((*third)->stat("", "ann")->pinned, 1);
    }
    StoreOptions reader;
    reader.read_only = true;
    auto read = open_store(path, reader);
    ASSERT_OK(read.status());
    EXPECT_EQ(readable_chunks(read->get(), chain_), chain_.nodes.size());
    auto store = open_store(path);
    ASSERT_OK(store.status());
    ASSERT_OK(save_chain(store->get(), "bob", other_).status());
    EXPECT_EQ((*read)->list("", true)->size(), 2u);
    ASSERT_OK((*store)->remove("", "ann"));
    ASSERT_OK((*store)->gc(nullptr).status());
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    EXPECT_TRUE(faults->empty()) << (*faults)[0].where << ": " << (*faults)[0].what;
  }

  Chain other_{token_run(50, 3)};
};

TEST_F(LongPath, EveryLengthThatTheSystemTakes) {
  for (size_t bytes : {460u, 488u, 489u, 500u, 512u, 700u, 4000u, 4080u, 4095u}) {
    SCOPED_TRACE(bytes);
    expect_works(path_of(bytes));
  }
}

// A killed process leaves a log, which the next open folds in.
TEST_F(LongPath, AfterAKill) {
  const std::string path = path_of(3000);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = open_store(path);
    if (store.is_ok() && save_chain(store->get(), "ann", chain_).is_ok()) _exit(0);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  auto store = open_store(path);
  ASSERT_OK(store.status());
  EXPECT_EQ((*store)->load("", "ann")->tokens, chain_.tokens);
  EXPECT_EQ(readable_chunks(store->get(), chain_), chain_.nodes.size());
}

// The descriptor leads to a directory wherever it was moved: that it is not at its path any more is found out all the same.
TEST_F(LongPath, MovedDirectoriesAndCatalogsAreRefused) {
  const std::string path = path_of(1000);
  for (const char* what : {"directory", "parent", "catalog"}) {
    SCOPED_TRACE(what);
    auto store = open_store(path);
    ASSERT_OK(store.status());
    const std::string moved = what == std::string("catalog")  ? path + "/catalog.db"
                              : what == std::string("parent") ? path.substr(0, path.rfind('/'))
                                                              : path;
    fs::rename(moved, tmp_.path() + "/away");
    EXPECT_NE((*store)->place(), Store::Place::kThere);
    const Status refused = save_chain(store->get(), "ann", chain_).status().clone();
    EXPECT_EQ(refused.code(), Code::kIo) << refused.message();
    EXPECT_NE(refused.message().find("moved"), std::string::npos) << refused.message();
    fs::rename(tmp_.path() + "/away", moved);
    EXPECT_EQ((*store)->place(), Store::Place::kThere);
    store->reset();
    fs::remove_all(path);
  }
}

// Without /proc the lengths are told.
TEST_F(LongPath, WithoutProcItIsALimit) {
  const std::string path = path_of(1000);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
      _exit(77);
    const Status refused = open_store(path).take_status();
    const bool named = refused.message().find(" bytes; without /proc SQLite takes 500") != std::string::npos;
    if (refused.code() != Code::kLimit || !named) fprintf(stderr, "%s\n", refused.message().c_str());
    _exit(refused.code() == Code::kLimit && named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no right to mount";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace kvrt
