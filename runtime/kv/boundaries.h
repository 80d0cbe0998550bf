// Boundaries: what of windows and states a session gives up, what of it stays in the cache for the application to come back to, and which
// of that goes.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/kv/kv_sequence.h"
#include "runtime/kv/prefix_index.h"

namespace kvrt {

class KvCache;

// A part of a KvCache, which owns it. `tokens`, as a count, are the first of the sequence.
class Boundaries {
 public:
  explicit Boundaries(KvCache* cache);
  Boundaries(const Boundaries&) = delete;
  Boundaries& operator=(const Boundaries&) = delete;

  // Keeps a window at the last block end of the first `tokens` tokens: now, or once its blocks are sealed. Needs a sequence that shares.
  void mark(KvSequence* sequence, uint64_t tokens);
  void mark_due(KvSequence* sequence, uint64_t tokens);    // where only so many tokens have passed: it goes before others
  void mark_asked(KvSequence* sequence, uint64_t tokens);  // for the application: a save stores the state there
  // Keeps the state that the sequence has, also within a block, for itself and its forks. Who writes to it next gets a copy, or takes it.
  void mark_end(KvSequence* sequence, std::span<const int32_t> tokens);
  // Gives up the blocks behind the windows: of n tokens the last two of each group stay, and one before `at`, the next row to be computed;
  // of states the one before `at` alone.
  void roll(KvSequence* sequence, uint64_t n, uint64_t at);
  // Gives up all windows but those that this run needs: the sequence computes them again. False: there were none.
  bool shed(KvSequence* sequence, const KvRun& run);
  // The block that a boundary keeps of a group's window there; kNoBlock: there is none.
  static BlockId kept_window(const ChainLink& link, uint32_t group) { return link.kept[group] > 0 ? link.places[group].block() : kNoBlock; }

  // For the cache:
  // Takes the resident windows with which computing can go on from a later block end, the last one where that is so. False: there is none.
  bool adopt(KvSequence* sequence, uint64_t n);
  void keep(KvSequence* sequence, uint64_t end);            // makes the block end a boundary, if all that it needs is resident
  void back_to_end(KvSequence* sequence, uint64_t tokens);  // takes the state of the last KvSequence::End there, if that is of use
  void forget(const ChainRef& boundary);                    // it is one no more
  bool give_up_oldest();                                    // false: there is none
  void trim() {                                             // gives up boundaries while the windows that they alone keep are too many
    while (pool_.window_count() > units_max_ && give_up_oldest()) continue;
  }

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  uint64_t block_end(uint64_t tokens) const { return tokens / shape_.block_tokens * shape_.block_tokens; }
  uint32_t last_resident(const KvSequence& sequence, uint32_t end, uint64_t past) const;
  void give_up(ChainRef boundary);
  void forget_past(ChainRef link);
  bool has_cached_window(const ChainRef& boundary) const;
  template <typename Fn>
  bool give_up_windows(KvSequence* sequence, Fn keeps);
  template <typename Fn>
  void each_of_windows(const ChainRef& last, Fn fn) const;

  KvCache& cache_;
  const KvShape& shape_;
  BlockPool& pool_;
  PrefixIndex& index_;
  const uint32_t first_window_;  // the first group with a window; n_groups: there is none
  const uint64_t units_max_;     // of windows at boundaries that no sequence holds
  uint32_t due_ = 0;             // boundaries that are only due
};

}  // namespace kvrt
