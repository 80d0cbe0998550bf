// KvShape: the groups of a model's layers, and how many blocks and units of the pool a sequence needs of each. A value.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/limits.h"

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

  // The first group with a window; n_groups: there is none. A state counts as a window of 1 token, here and for has_windows().
  uint32_t first_window() const;
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

}  // namespace kvrt
