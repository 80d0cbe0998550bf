// KvCache: a model's KV blocks, with the holders of each, the domain of its KV, and the sequences that may take it.
#pragma once

#include <span>
#include <vector>

#include "runtime/kv/block_pool.h"
#include "runtime/kv/block_table.h"
#include "runtime/kv/prefix_index.h"

namespace kvrt {

// The KV of one sequence of tokens: the blocks it holds, and how others know them.
struct KvSequence {
  explicit KvSequence(uint32_t block_tokens) : table(block_tokens) {}

  // True where the sequence takes blocks that others made; nothing else decides that. It shows its own blocks wherever `share` is set.
  bool adopts() const { return share && !own_only; }

  BlockKey root;                // before the first link: model, format, numerics, domain
  bool share = true;            // takes part in the prefix cache
  bool own_only = false;        // for this generation: KV that it reused made logits that are not finite
  std::vector<ChainRef> chain;  // links of the full blocks so far known; a prefix of the tokens' own chain
  BlockTable table;             // a reference per block
};

// Not thread-safe: guarded by its owner's lock, and so is every KvSequence. Bookkeeping only: never touches the bytes of a block. `tokens`
// are those of the sequence, from its first on.
class KvCache {
 public:
  KvCache(uint32_t blocks, uint32_t block_tokens);

  uint32_t block_tokens() const { return block_tokens_; }
  uint32_t size() const { return pool_.size(); }
  uint32_t free_count() const { return pool_.free_count(); }      // blocks that are nobody's
  uint32_t cached_count() const { return pool_.cached_count(); }  // blocks in no sequence, kept for the next one that begins so
  uint32_t used_count() const { return size() - free_count() - cached_count(); }
  uint64_t evictions() const { return evictions_; }  // cached blocks that were given up, ever

  // Makes chain links of all full blocks.
  void extend(KvSequence* sequence, std::span<const int32_t> tokens);
  // Takes the resident blocks that hold the KV of these tokens. Extends the chain.
  void adopt(KvSequence* sequence, std::span<const int32_t> tokens);
  // The number of leading blocks of its chain that adopt() would find, and how many of them nobody holds.
  struct Resident {
    uint64_t blocks = 0, cached = 0;
  };
  Resident resident(const KvSequence& sequence) const;
  // Counts the leading tokens of tokens[at...] that some resident block has after the same tokens; none where no block follows those.
  std::optional<size_t> shared_with_sibling(const KvSequence& sequence, std::span<const int32_t> tokens, uint64_t at) const;
  // Makes full block i, whose bytes are complete, known to others; takes an equal resident block instead when there is one.
  void seal(KvSequence* sequence, std::span<const int32_t> tokens, uint32_t i);

  // A block with one reference: a free one, or the cached one that was used least recently; kNoBlock: others hold all. Where is_foreign
  // says so, it has another domain's KV, until overwritten().
  BlockId alloc(const KvSequence& for_sequence);
  bool is_foreign(BlockId block) const { return domains_[static_cast<size_t>(block)] == kForeign; }
  void overwritten(BlockId block, const KvSequence& sequence) { domains_[static_cast<size_t>(block)] = domain_of(sequence); }
  bool writable(BlockId block) const { return pool_.refs(block) == 1 && !index_.contains(block); }
  // Takes a block that one sequence alone holds out of the prefix cache, so that it can be written.
  bool unshare(BlockId block);

  // Puts `block`, which was written as a whole, into place i of the table, instead of a block there. The reference goes with it.
  void replace(KvSequence* sequence, uint32_t i, BlockId block, uint32_t filled);
  // Makes `to` one more owner of all blocks of `from`. It has none yet, and its table as many places: so this needs no memory.
  void share(const KvSequence& from, KvSequence* to) noexcept;
  void hold(BlockId block) { pool_.ref(block); }
  void drop(BlockId block) { pool_.unref(block, index_.contains(block)); }
  // Drops the references from this block on.
  void release(KvSequence* sequence, uint32_t from_block);
  // Keeps the KV of the first `tokens` tokens. A sealed block that is cut is copied before this sequence writes to it.
  void cut(KvSequence* sequence, uint64_t tokens);
  // Drops all references, and takes the blocks of these tokens out of the prefix cache: nobody is to reuse them.
  void discard(KvSequence* sequence, std::span<const int32_t> tokens);

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  static constexpr uint64_t kForeign = 1;
  static uint64_t domain_of(const KvSequence& sequence);  // 64 bits of its root

  BlockPool pool_;
  PrefixIndex index_;
  const uint32_t block_tokens_;
  std::vector<uint64_t> domains_;  // by block: the domain of its KV. 0: none, the block is zeros; kForeign: not its holder's
  uint64_t evictions_ = 0;
};

}  // namespace kvrt
