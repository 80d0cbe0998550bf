// KvCache: a model's KV blocks, with the holders of each, the domain of its KV, and the sequences that may take it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/kv/block_pool.h"
#include "runtime/kv/boundaries.h"
#include "runtime/kv/kv_sequence.h"
#include "runtime/kv/prefix_index.h"

namespace kvrt {

// Not thread-safe: guarded by its owner's lock, and so is every KvSequence. Bookkeeping only: never touches the bytes of a block. `tokens`
// are those of the sequence, from its first on.
//
// A group with a window keeps the KV of a sequence's last two windows. Where the application may come back to, at a boundary, one window
// stays in the cache: a later row can be computed from there on. A boundary is the end of a sealed block. Of a group of states a sequence
// keeps the last, and a boundary the one there.
class KvCache {
 public:
  KvCache(uint32_t units, const KvShape& shape);

  const KvShape& shape() const { return shape_; }
  uint32_t block_tokens() const { return shape_.block_tokens; }
  uint32_t size() const { return pool_.size(); }                  // this and the next ones: units
  uint32_t free_count() const { return pool_.free_count(); }      // nobody's
  uint32_t cached_count() const { return pool_.cached_count(); }  // in no sequence, kept for the next one that begins so
  uint32_t used_count() const { return size() - free_count() - cached_count(); }
  uint64_t evictions() const { return evictions_; }  // cached blocks that were given up, ever
  BlockId next_unit(BlockId unit) const { return pool_.next_unit(unit); }
  std::vector<BlockId> units_of(BlockId block) const;
  Boundaries& boundaries() { return boundaries_; }

  // Makes chain links of all full blocks.
  void extend(KvSequence* sequence, std::span<const int32_t> tokens, const ChainKeys& ahead = {});
  // Takes the resident blocks that hold the KV of these tokens; of a group with a window, those that computing needs to go on from the last
  // boundary. Where the other groups have more, the end of that is marked: the next one who comes so far goes on from there. Extends the
  // chain. False: there was none to take.
  bool adopt(KvSequence* sequence, std::span<const int32_t> tokens);
  // The units of the leading blocks of its chain that adopt() would find, and how many of them nobody holds. Groups with windows do not count.
  struct Resident {
    uint64_t units = 0, cached = 0;
  };
  Resident resident(const KvSequence& sequence) const;
  // Counts the leading tokens of tokens[at...] that some resident block has after the same tokens; none where no block follows those.
  std::optional<size_t> shared_with_sibling(const KvSequence& sequence, std::span<const int32_t> tokens, uint64_t at) const;
  // Makes a group's full block i, whose bytes are complete, known to others; takes an equal resident block instead when there is one.
  void seal(KvSequence* sequence, std::span<const int32_t> tokens, uint32_t group, uint32_t i);
  // A group's block with one reference: of free units, else of those of the cached blocks that were used least recently; kNoBlock: others
  // hold too many. Where is_foreign says so, it has another domain's KV, until overwritten().
  BlockId alloc(const KvSequence& for_sequence, uint32_t group = 0);
  bool is_foreign(BlockId block) const;
  void overwritten(BlockId block, const KvSequence& sequence);
  uint32_t refs(BlockId block) const { return pool_.refs(block); }
  bool writable(BlockId block) const { return pool_.refs(block) == 1 && !index_.contains(block); }
  // Takes a block that one sequence alone holds out of the prefix cache, so that it can be written.
  bool unshare(BlockId block);

  // Puts `block`, which was written as a whole, into place i of a group's table, instead of a block there. The reference goes with it.
  void replace(KvSequence* sequence, uint32_t group, uint32_t i, BlockId block, uint32_t filled);
  // Makes a copy of a sequence one more owner of all blocks in its tables.
  void share(const KvSequence& copy) noexcept;
  void hold(BlockId block) { pool_.ref(block); }
  void drop(BlockId block);
  // Drops the references from this block on. Where there was KV, the holes say `why`; those that were there say what they did.
  void release(KvSequence* sequence, uint32_t from_block, Hole why = Hole::kNeverComputed);
  // Keeps the KV of the first `tokens` tokens. A sealed block that is cut is copied before this sequence writes to it.
  void cut(KvSequence* sequence, uint64_t tokens);
  // Drops all references, and takes the blocks of these tokens out of the prefix cache: nobody is to reuse them.
  void discard(KvSequence* sequence, std::span<const int32_t> tokens);

 private:
  friend class Boundaries;
  friend struct Probe;  // tests/sim reads everything after every step
  static constexpr uint64_t kForeign = 1;
  static uint64_t domain_of(const KvSequence& sequence);  // 64 bits of its root

  void take(KvSequence* sequence, uint32_t group, uint32_t i, BlockId resident, uint32_t filled);
  void forget(BlockId block);
  bool evict_oldest();
  Keep keep_of(BlockId block) const;

  const KvShape shape_;
  const uint32_t first_window_;  // the first group with a window; n_groups: there is none
  BlockPool pool_;
  PrefixIndex index_;
  Boundaries boundaries_;
  std::vector<uint64_t> domains_;  // by unit: the domain of its KV. 0: none, the unit is zeros; kForeign: not its holder's
  uint64_t evictions_ = 0;
};

}  // namespace kvrt
