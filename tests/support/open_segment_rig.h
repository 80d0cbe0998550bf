// A store whose segment stays open, and processes that are killed with one.
#pragma once

#include <sys/wait.h>

#include <functional>

#include "tests/support/gc_rig.h"
#include "tests/support/sql.h"

namespace kvrt::test {

class OpenSegment : public Gc {
 protected:
  std::string rows(const std::string& columns) { return sql_rows(root() + "/catalog.db", "SELECT " + columns + " FROM segments"); }
  std::string file() {
    const auto files = segment_files(root());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? "" : files[0];
  }
  // The files are as long as their rows say.
  void expect_lengths() {
    uint64_t bytes = 0;
    for (const std::string& path : segment_files(root())) bytes += fs::file_size(path);
    EXPECT_EQ(sql_rows(root() + "/catalog.db", "SELECT coalesce(sum(bytes), 0) FROM segments"), std::to_string(bytes) + "|\n");
  }
  static SessionIn session(const std::string& name, const Chain& chain, uint8_t id, Durability durability = Durability::kNone) {
    SessionIn in;
    in.name = name;
    in.id = session_id(id);
    in.root = chain.root;
    in.nodes = chain.nodes;
    in.token_count = chain.tokens.size();
    in.durability = durability;
    return in;
  }
  std::unique_ptr<Store::Save> begin() {
    auto save = store_->begin_save();
    EXPECT_OK(save.status());
    return save.is_ok() ? std::move(*save) : nullptr;
  }
  // Does it in a child on a store of its own, and kills that.
  void in_a_killed_process(const std::function<bool(Store*)>& work) {
    store_.reset();
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = open_store(root());
      if (!store.is_ok() || !work(store->get())) ::_exit(1);
      FaultPlan::die();
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
};

}  // namespace kvrt::test
