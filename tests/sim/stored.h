// Stored: what a store has of each session, and the rules for it, told from tokens and windows alone.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/store/store.h"

namespace kvrt::test {

class Stored {
 public:
  // windows: by group of layers, of the model of all sessions.
  Stored(Store* store, std::vector<uint32_t> windows) : store_(store), windows_(std::move(windows)) {}

  // Compares the store's counts of missing chunks with those of the rule. What sessions lost since the look before was evicted, by whole
  // nodes, and no session lost what it needed but one whose chain now ends at a boundary, or where another session goes on. (KV that made
  // logits which are not finite is forgotten, as the host asks.) `saver`: the domain and name of what was saved since. "": all is as it
  // should be.
  std::string look(const std::pair<std::string, std::string>& saver);
  uint64_t evicted() const { return evicted_; }  // chunks, since the store was opened
  uint64_t cut() const { return cut_; }          // sessions whose chain became shorter, but did not end, at the last look

 private:
  struct Session {
    uint64_t revision = 0;
    std::vector<BlockKey> keys;
    std::vector<uint64_t> tokens;  // by node
    std::vector<uint32_t> stored;  // by node, as a bit mask
    uint64_t missing = 0;
  };
  using Sessions = std::map<std::pair<std::string, std::string>, Session>;
  bool has(uint32_t stored, size_t group) const;
  uint64_t missing(const Session& session) const;
  bool is_boundary(const Session& session, size_t nodes) const;
  std::string read(const SessionStat& stat, Session* out);
  size_t left_of(const Session& before, const Session& now) const;
  std::string compare(const Session& before, const Session& now, bool evicted, bool others);
  bool goes_on(const Sessions& sessions, const Session& session, size_t nodes, const std::pair<std::string, std::string>& saver) const;

  Store* store_;
  const std::vector<uint32_t> windows_;
  Sessions before_;
  uint64_t evicted_ = 0, forgotten_ = 0, cut_ = 0;
};

}  // namespace kvrt::test
