// The catalog's log, or its index, is deleted or replaced while the store is open: nothing more is saved there that nobody would find, what
// was saved before stays, and another process that came meanwhile finds a whole store.
#include <sys/wait.h>

#include "tests/support/damage_rig.h"

namespace kvrt {
namespace {

using namespace test;

class MovedLog : public Damage {
 protected:
  void remove(const std::vector<std::string>& suffixes) {
    for (const std::string& suffix : suffixes) ASSERT_TRUE(fs::remove(catalog() + suffix)) << suffix;
  }
  static void expect_refused(const Status& status, const std::string& name) {
    EXPECT_EQ(status.code(), Code::kIo) << status.message();
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("open the store again"), std::string::npos) << status.message();
  }
  void expect_whole(const std::vector<std::pair<std::string, const Chain*>>& sessions) {
    auto store = open_store(root());
    ASSERT_OK(store.status());
    auto faults = (*store)->verify(nullptr);
    ASSERT_OK(faults.status());
    for (auto& f : *faults) ADD_FAILURE() << f.where << ": " << f.what;
    for (auto& [name, chain] : sessions) {
      auto session = (*store)->load("", name);
      ASSERT_OK(session.status());
      EXPECT_EQ(session->tokens, chain->tokens);
    }
    EXPECT_EQ((*store)->list("", true)->size(), sessions.size());
    ASSERT_OK(save_chain(store->get(), "later", later_).status());
    ASSERT_OK((*store)->remove("", "later"));
  }
  const Chain bob_{token_run(50, 3)}, eve_{token_run(60, 4)}, later_{token_run(30, 5)};
  const std::vector<std::vector<std::string>> ways_{{"-wal"}, {"-wal", "-shm"}, {"-shm"}};
};

TEST_F(MovedLog, WritesAndReadsAreRefused) {
  for (const auto& way : ways_) {
    SCOPED_TRACE(way[0] + std::to_string(way.size()));
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      SaveOptions o;
      o.durability = Durability::kTokens;
      o.overwrite = true;
      ASSERT_OK(save_chain(store->get(), "bob", bob_, o).status());
      remove(way);
      expect_refused((*store)->load("", "ann").status(), way[0]);
      expect_refused((*store)->list("", true).status(), way[0]);
      expect_refused(save_chain(store->get(), "eve", eve_).status(), way[0]);
      expect_refused((*store)->load("", "ann").status(), way[0]);
      expect_refused((*store)->remove("", "ann"), way[0]);
      expect_refused((*store)->gc(nullptr).status(), way[0]);
      expect_refused((*store)->verify(nullptr).status(), way[0]);
    }
    expect_whole({{"ann", &chain_}, {"bob", &bob_}});
  }
}

TEST_F(MovedLog, ClosedWithoutAnotherCall) {
  for (const auto& way : ways_) {
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      SaveOptions o;
      o.overwrite = true;
      ASSERT_OK(save_chain(store->get(), "bob", bob_, o).status());
      remove(way);
    }
    expect_whole({{"ann", &chain_}, {"bob", &bob_}});
  }
}

// A process is killed after it was told.
TEST_F(MovedLog, WhatItHadIsFoldedInOnceItIsMissed) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    auto store = open_store(root());
    if (!store.is_ok() || !save_chain(store->get(), "bob", bob_).is_ok()) ::_exit(1);
    fs::remove(catalog() + "-wal");
    if (save_chain(store->get(), "eve", eve_).status().code() != Code::kIo) ::_exit(2);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  expect_whole({{"ann", &chain_}, {"bob", &bob_}});
}

// Another process opens the store, which has a new log then. The first may write neither to its own log nor to the database.
TEST_F(MovedLog, AnotherProcessMadeANewOne) {
  for (const auto& way : ways_) {
    SCOPED_TRACE(way[0] + std::to_string(way.size()));
    int ready[2], go[2];
    ASSERT_EQ(::pipe(ready), 0);
    ASSERT_EQ(::pipe(go), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      ::close(ready[0]);
      ::close(go[1]);
      char byte = 0;
      {
        auto store = open_store(root());
        SaveOptions o;
        o.overwrite = true;
        if (!store.is_ok() || !save_chain(store->get(), "bob", bob_, o).is_ok()) ::_exit(1);
        if (::write(ready[1], &byte, 1) != 1 || ::read(go[0], &byte, 1) != 1) ::_exit(2);
        if (save_chain(store->get(), "lost", later_).status().code() != Code::kIo) ::_exit(3);
      }
      ::_exit(0);
    }
    ::close(ready[1]);
    ::close(go[0]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    remove(way);
    bool bob = false;
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      SaveOptions o;
      o.overwrite = true;
      // Where the index is still the first process's, it tells of frames that this log does not have.
      EXPECT_EQ(save_chain(store->get(), "eve", eve_, o).status().code(), way == ways_[0] ? Code::kIo : Code::kOk);
      ASSERT_EQ(::write(go[1], &byte, 1), 1);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    {
      auto store = open_store(root());
      ASSERT_OK(store.status());
      bob = (*store)->load("", "bob").is_ok();
      EXPECT_TRUE(bob || way != ways_[0]);
      SaveOptions o;
      o.overwrite = true;
      ASSERT_OK(save_chain(store->get(), "eve", eve_, o).status());
    }
    std::vector<std::pair<std::string, const Chain*>> sessions{{"ann", &chain_}, {"eve", &eve_}};
    if (bob) sessions.push_back({"bob", &bob_});
    expect_whole(sessions);
    ::close(ready[0]);
    ::close(go[1]);
  }
}

}  // namespace
}  // namespace kvrt
