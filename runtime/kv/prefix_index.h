// PrefixIndex: finds a group's sealed block by its tokens and items. A key names those of a block after those of the blocks before it; keys
// that collide are a miss, never foreign KV.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/limits.h"
#include "runtime/kv/place.h"

namespace kvrt {

// A block's tokens and items and, through `before`, all that come before. PrefixIndex makes equal ones one object: where two links are the
// same pointer, every token and item up to the root has been compared.
struct ChainLink {
  ChainLink() = default;
  ChainLink(const ChainLink&) = delete;
  ChainLink& operator=(const ChainLink&) = delete;
  ~ChainLink();
  std::shared_ptr<ChainLink> before;  // null: the first block
  BlockKey parent;                    // before's key; the root, of the first block
  BlockKey key;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;  // what its bits depend on besides them (runtime/base/block_items.h)
  // PrefixIndex's: by group, where its KV is; and, if it has a block, which of its siblings it is.
  std::array<Place, kKvGroupsMax> places;
  size_t sibling = 0;
  // KvCache's: the end of the link is a boundary, whose windows are kept; by group, the count of boundaries whose windows have this link.
  bool boundary = false;
  bool due = false;  // of a boundary: it is there only because so many tokens had passed, and goes before others
  std::array<uint32_t, kKvGroupsMax> kept{};
};
using ChainRef = std::shared_ptr<ChainLink>;

// Not thread-safe: guarded by its owner's lock, and so is every ChainRef.
class PrefixIndex {
 public:
  // The link of `tokens` and `items` after `before`, or after the root where that is null. `hashed`: its key; null: it is hashed here.
  ChainRef link(const ChainRef& before, const BlockKey& root, std::span<const int32_t> tokens, const BlockKey* hashed = nullptr,
                std::span<const uint8_t> items = {});
  static Place lookup(const ChainRef& link, uint32_t group = 0) { return link->places[group]; }  // a hole: a miss
  // False if the link has a block of this group already.
  bool insert(BlockId block, ChainRef link, uint32_t group = 0);
  void erase(BlockId block);
  bool contains(BlockId block) const { return entries_.count(block) != 0; }
  struct Entry {
    ChainRef link;
    uint32_t group = 0;
  };
  const Entry* find(BlockId block) const;       // null: it is not in the index
  bool has_child(const ChainLink& link) const;  // some link after it has a block of the first group
  // Some link that has a block and for which fn(link) is true; null: there is none.
  template <typename Fn>
  ChainRef find_link(Fn fn) const {
    for (const auto& [block, entry] : entries_) {
      if (fn(entry.link)) return entry.link;
    }
    return nullptr;
  }
  // After a miss: how many leading tokens, with their items, some resident block of the same parent shares with `tokens`; nullopt without
  // one. It looks at 1,000 blocks at most.
  std::optional<size_t> shared_with_sibling(const ChainRef& before, const BlockKey& root, std::span<const int32_t> tokens,
                                            std::span<const uint8_t> items = {}) const;
  size_t size() const { return entries_.size(); }

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  void forget_dead_links();

  std::unordered_multimap<BlockKey, std::weak_ptr<ChainLink>, Hash256Hasher> links_;  // by key; links that nobody holds go by and by
  size_t links_after_forgetting_ = 0;
  std::unordered_map<BlockKey, std::vector<ChainLink*>, Hash256Hasher> by_parent_;  // links that have a block, by `sibling`
  std::unordered_map<BlockId, Entry> entries_;
};

}  // namespace kvrt
