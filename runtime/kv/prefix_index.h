// PrefixIndex: what a sealed block is. Key -> block, with the tokens, which are compared on every hit: a colliding key is a miss.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/kv/block_pool.h"

namespace kvrt {

// Not thread-safe: guarded by its owner's lock.
class PrefixIndex {
 public:
  BlockId lookup(const BlockKey& key, std::span<const int32_t> tokens) const;  // kNoBlock: a miss
  // False if the key is there already.
  bool insert(BlockId block, const BlockKey& key, const BlockKey& parent, std::span<const int32_t> tokens);
  void erase(BlockId block);
  bool contains(BlockId block) const { return entries_.count(block) != 0; }
  // After a miss: how many leading tokens some resident block of the same parent shares with `tokens`; nullopt without one.
  std::optional<size_t> shared_with_sibling(const BlockKey& parent, std::span<const int32_t> tokens) const;
  size_t size() const { return entries_.size(); }

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  struct Entry {
    BlockKey key, parent;
    std::vector<int32_t> tokens;
  };
  std::unordered_map<BlockKey, BlockId, Hash256Hasher> by_key_;
  std::unordered_multimap<BlockKey, BlockId, Hash256Hasher> by_parent_;
  std::unordered_map<BlockId, Entry> entries_;
};

}  // namespace kvrt
