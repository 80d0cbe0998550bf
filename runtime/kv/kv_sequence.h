// KvSequence: the KV of one sequence of tokens: per group of layers the blocks it holds, what is to be computed next, and how others know
// its blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kv/block_table.h"
#include "runtime/kv/prefix_index.h"
#include "runtime/kv/shape.h"

namespace kvrt {

// Rows that have to be computed: consecutive positions, and the groups that lack their KV.
struct KvRun {
  uint64_t begin = 0, end = 0;
  uint32_t stores = 0;  // bit g: group g. 0: all have it, and the last token is asked again, as a query alone
};

// Keys of a sequence's full blocks, from block `first` on, for KvCache::extend: they take most of its time, and are hashed without its owner's
// lock.
struct ChainKeys {
  size_t first = 0;
  std::vector<BlockKey> keys;
};
// Of the first blocks that are not in the chain: `before` is the key of the last link, or the root.
ChainKeys hash_ahead(const BlockKey& before, size_t first, std::span<const int32_t> tokens, uint32_t block_tokens);

// Not thread-safe: guarded by its owner's lock. A copy has no references of its own before KvCache::share.
struct KvSequence {
  explicit KvSequence(const KvShape& kv);

  // True where the sequence takes blocks that others made; nothing else decides that. It shows its own blocks wherever `share` is set.
  bool adopts() const { return share && !own_only; }

  // What to compute next so that n tokens, one at least, have all KV that their last row sees. A position can only be computed where each
  // group has what a row there sees: so a run may begin before the first hole, at the nearest position where that is so. Where there are
  // states every run stores one, and the last row always runs.
  KvRun next_run(uint64_t n) const;
  // The leading positions of n that need no computing for a token after them, or, where the last row always runs, for that.
  uint64_t ready(uint64_t n) const;
  bool all_ready(uint64_t n, const KvRun& next) const;  // ready(n) == n, for who knows next_run(n)
  // The leading positions of n that are computed, and need not be for a token after them.
  uint64_t computed(uint64_t n) const { return shape.has_states() ? restart(n) : ready(n); }
  // All that would be computed for n tokens, in order.
  std::vector<KvRun> runs(uint64_t n) const;
  // Positions of n that need no computing for a token after them.
  uint64_t reusable(uint64_t n) const;
  // The largest position, `at` or before it, where computing can go on.
  uint64_t restart(uint64_t at) const;
  // The leading tokens of n that have their KV in all groups without a window.
  uint64_t without_window(uint64_t n) const;
  // True if the KV of this position was there, and what is behind the windows was freed since: a row there cannot be computed again alone.
  bool behind_window(uint64_t at) const;

  uint32_t lacking(uint32_t i) const;  // groups whose block i has no KV, as bits
  // These groups, as bits, lack KV of block i, for this reason. A place keeps the strongest one.
  void lacks(uint32_t i, uint32_t groups, Hole why);
  // Computing can go on at `at`: what windows lack before it is behind them, whatever it said.
  void roll_holes(uint64_t at);
  // Why computing of n tokens goes on at `at`, and not later: the strongest reason of the places that it has to fill first.
  Hole why(uint64_t at, uint64_t n) const;

  // Of the first `blocks` full blocks, those whose KV is whole, as far as a row after them sees it.
  uint64_t whole_blocks(uint32_t blocks) const;
  uint32_t blocks() const;  // places of the longest table
  uint32_t blocks_held() const;
  uint64_t units_held() const;

  const KvShape shape;
  BlockKey root;                // before the first link: model, format, numerics, domain
  bool share = true;            // takes part in the prefix cache
  bool own_only = false;        // for this generation: KV that it reused made logits that are not finite
  std::vector<ChainRef> chain;  // links of the full blocks so far known; a prefix of the tokens' own chain
  std::vector<uint64_t> marks;  // ascending block ends whose windows are to be kept
  std::vector<uint64_t> due;    // of these, in the same order, those that nothing but the count of tokens made
  std::vector<uint64_t> asked;  // of these, in the same order, those that the application named: a save stores their states
  uint64_t cut_known = 0;       // leading tokens that had their KV when the sequence was cut
  // Ascending ends within a block whose state is to be kept; each with a link of the tokens of that block so far.
  struct End {
    uint64_t at = 0;
    ChainRef link;
  };
  std::vector<End> ends;
  std::vector<BlockTable> tables;  // by group; a reference per block
};

}  // namespace kvrt
