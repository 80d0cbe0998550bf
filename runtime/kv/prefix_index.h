// PrefixIndex: finds a sealed block by its tokens. A key names a block's tokens after those of the blocks before it; keys that collide are
// a miss, never foreign KV.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/kv/block_pool.h"

namespace kvrt {

// A block's tokens and, through `before`, all that come before. PrefixIndex makes equal ones one object: where two links are the same
// pointer, every token up to the root has been compared.
struct ChainLink {
  ChainLink() = default;
  ChainLink(const ChainLink&) = delete;
  ChainLink& operator=(const ChainLink&) = delete;
  ~ChainLink();
  std::shared_ptr<ChainLink> before;  // null: the first block
  BlockKey parent;                    // before's key; the root, of the first block
  BlockKey key;
  std::vector<int32_t> tokens;
};
using ChainRef = std::shared_ptr<ChainLink>;

// Not thread-safe: guarded by its owner's lock, and so is every ChainRef.
class PrefixIndex {
 public:
  // The link of `tokens` after `before`, or after the root where that is null.
  ChainRef link(const ChainRef& before, const BlockKey& root, std::span<const int32_t> tokens);
  BlockId lookup(const ChainRef& link) const;  // kNoBlock: a miss
  // False if the link has a block already.
  bool insert(BlockId block, ChainRef link);
  void erase(BlockId block);
  bool contains(BlockId block) const { return entries_.count(block) != 0; }
  // After a miss: how many leading tokens some resident block of the same parent shares with `tokens`; nullopt without one.
  std::optional<size_t> shared_with_sibling(const ChainRef& before, const BlockKey& root, std::span<const int32_t> tokens) const;
  size_t size() const { return entries_.size(); }

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  void forget_dead_links();

  std::unordered_multimap<BlockKey, std::weak_ptr<ChainLink>, Hash256Hasher> links_;  // by key; links that nobody holds go by and by
  size_t links_after_forgetting_ = 0;
  std::unordered_map<const ChainLink*, BlockId> by_link_;
  std::unordered_multimap<BlockKey, BlockId, Hash256Hasher> by_parent_;
  std::unordered_map<BlockId, ChainRef> entries_;
};

}  // namespace kvrt
