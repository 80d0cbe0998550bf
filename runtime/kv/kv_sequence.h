// KvSequence: the KV of one sequence of tokens: per group of layers the blocks it holds, what is to be computed next, and how others know
// its blocks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/kv/block_table.h"
#include "runtime/kv/prefix_index.h"

namespace kvrt {

// The groups of a model's layers, for those who keep their blocks. A group keeps the KV of a position as long as a later row may see it.
struct KvShape {
  struct Group {
    uint32_t window = 0;  // a row sees so many positions, its own with them; 0: all before it
    uint32_t units = 1;   // of the pool, that a block has
    // Recurrent layers: a block is the state after its `filled` tokens, and a row needs the one after the token before it, no other.
    // `window` is 1.
    bool state = false;
  };
  KvShape(uint32_t tokens) : block_tokens(tokens) {}  // one group, which keeps everything
  uint32_t block_tokens;
  uint32_t step_rows = 0;  // of one sequence
  uint32_t n_groups = 1;   // those without a window come first, one of states last
  std::array<Group, kKvGroupsMax> groups{};

  uint32_t first_window() const;  // the first group with a window; n_groups: there is none
  bool has_windows() const { return first_window() < n_groups; }
  bool has_states() const { return groups[n_groups - 1].state; }
  uint32_t states() const { return has_states() ? 1u << (n_groups - 1) : 0; }             // their group, as a bit
  uint32_t state_units() const { return has_states() ? groups[n_groups - 1].units : 0; }  // of a state
  uint32_t units() const;                                                                 // of a block of every group
  uint32_t tables() const;                               // block tables of a sequence, as a device reads them: one per unit, none of states
  uint32_t all() const { return (1u << n_groups) - 1; }  // groups, as bits
  // The most blocks of the group that a sequence of so many tokens holds: all; or of a window two, and before a step one with its rows.
  uint64_t blocks_for(uint32_t group, uint64_t tokens) const;
  uint64_t units_for(uint64_t tokens) const;  // of all groups
  uint64_t boundary_units() const;            // of the windows that one boundary keeps, at most
  // What boundaries may take of a pool beside the sessions: all, if no group keeps everything, else a quarter, and one boundary at least.
  uint64_t boundaries_units(uint64_t pool_units) const;
  uint64_t tokens_in(uint64_t units) const;  // the most tokens whose units these are; whole blocks
  // Groups that keep block i where computing goes on after `end` blocks, as bits: a window is kept twice. Where there are windows, nothing
  // past `end` is of use.
  uint32_t keeping(uint64_t i, uint64_t end) const;
  // The first block of the window that ends with block `last`: all that the last row there sees.
  uint32_t window_begin(uint32_t group, uint32_t last) const;
};

// Rows that have to be computed: consecutive positions, and the groups that lack their KV.
struct KvRun {
  uint64_t begin = 0, end = 0;
  uint32_t stores = 0;  // bit g: group g. 0: all have it, and the last token is asked again, as a query alone
};

// Not thread-safe: guarded by its owner's lock.
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
