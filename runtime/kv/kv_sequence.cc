#include "runtime/kv/kv_sequence.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace kvrt {

namespace {

// By group: the tokens of each block that have their KV.
using Filled = std::array<std::span<const uint32_t>, kKvGroupsMax>;

uint32_t filled_at(std::span<const uint32_t> filled, uint64_t i) { return i < filled.size() ? filled[i] : 0; }

class Presence {
 public:
  Presence(const KvShape& shape, const Filled& filled) : shape_(shape), T_(shape.block_tokens), filled_(filled) {}

  bool has(uint32_t group, uint64_t position) const { return position % T_ < filled_at(filled_[group], position / T_); }

  // The first position of [from, n) without KV, or n.
  uint64_t missing(uint32_t group, uint64_t from, uint64_t n) const {
    for (uint64_t i = from / T_; i * T_ < n; ++i) {
      const uint64_t end = i * T_ + filled_at(filled_[group], i);
      if (end < (i + 1) * T_) return std::min(n, std::max(from, end));
    }
    return n;
  }

  // The first position of (at, n) where the group has KV if it has none at `at`, or has none if it has some; or n.
  uint64_t changes(uint32_t group, uint64_t at, uint64_t n) const {
    if (has(group, at)) return missing(group, at, n);
    for (uint64_t i = at / T_ + 1; i < filled_[group].size(); ++i) {
      if (filled_[group][i] > 0) return std::min(n, i * T_);
    }
    return n;
  }

  // Groups without a window have all KV before `at`.
  uint64_t restart(uint64_t at) const {
    for (uint32_t g = 0; g < shape_.n_groups;) {
      const auto& group = shape_.groups[g];
      const uint64_t before = group.state ? last_state(g, at) : group.window > 0 ? whole_window(g, at) : at;
      g = before < at ? 0 : g + 1;
      at = before;
    }
    return at;
  }

  KvRun next_run(uint64_t n) const {
    const uint32_t states = shape_.states(), with_kv = shape_.n_groups - (states != 0);
    uint64_t hole = states ? n - 1 : n;
    for (uint32_t g = 0; g < with_kv; ++g) {
      const uint64_t window = shape_.groups[g].window;
      hole = std::min(hole, missing(g, window > 0 && n > window ? n - window : 0, n));
    }
    if (hole == n) return {n - 1, n, 0};
    KvRun run{restart(hole), n, states};
    for (uint32_t g = 0; g < with_kv; ++g) {
      if (!has(g, run.begin)) run.stores |= 1u << g;
      run.end = std::min(run.end, changes(g, run.begin, n));
    }
    return run;
  }

 private:
  // `at`, if the group has what a row there sees before itself; else the last position of which that may be true.
  uint64_t whole_window(uint32_t group, uint64_t at) const {
    const uint64_t window = shape_.groups[group].window;
    const uint64_t first = at >= window ? at - (window - 1) : 0;
    for (uint64_t end = at; end > first;) {
      const uint64_t i = (end - 1) / T_, has_to = i * T_ + filled_at(filled_[group], i);
      if (has_to < end) return has_to;
      end = i * T_;
    }
    return at;
  }

  // `at`, if the group has the state before that row; else the last position before `at` of which that may be true.
  uint64_t last_state(uint32_t group, uint64_t at) const {
    if (at == 0) return 0;
    const uint64_t i = (at - 1) / T_, end = i * T_ + filled_at(filled_[group], i);
    return end <= at ? end : i * T_;
  }

  const KvShape& shape_;
  const uint64_t T_;
  const Filled& filled_;
};

Filled filled_of(const std::vector<BlockTable>& tables) {
  Filled filled;
  for (size_t g = 0; g < tables.size(); ++g) filled[g] = tables[g].filled();
  return filled;
}

}  // namespace

ChainKeys hash_ahead(const BlockKey& before, size_t first, std::span<const int32_t> tokens, uint32_t block_tokens) {
  ChainKeys ahead{first, {}};
  for (size_t i = first; (i + 1) * block_tokens <= tokens.size(); ++i) {
    ahead.keys.push_back(chain_key(ahead.keys.empty() ? before : ahead.keys.back(), tokens.subspan(i * block_tokens, block_tokens)));
  }
  return ahead;
}

KvSequence::KvSequence(const KvShape& kv) : shape(kv), tables(kv.n_groups, BlockTable(kv.block_tokens)) {}

KvRun KvSequence::next_run(uint64_t n) const { return Presence(shape, filled_of(tables)).next_run(n); }

uint64_t KvSequence::ready(uint64_t n) const {
  if (n == 0) return 0;
  const KvRun run = next_run(n);
  return all_ready(n, run) ? n : run.begin;
}

bool KvSequence::all_ready(uint64_t n, const KvRun& next) const {
  return shape.has_states() ? next.begin == n - 1 || restart(n) == n : next.stores == 0;
}

uint64_t KvSequence::without_window(uint64_t n) const {
  const Filled filled = filled_of(tables);
  const Presence present(shape, filled);
  for (uint32_t g = 0; g < shape.first_window(); ++g) n = present.missing(g, 0, n);
  return n;
}

uint64_t KvSequence::restart(uint64_t at) const {
  const Filled filled = filled_of(tables);
  return Presence(shape, filled).restart(without_window(at));
}

bool KvSequence::behind_window(uint64_t at) const {
  if (!shape.has_windows()) return false;
  if (at < cut_known) return true;
  if (shape.first_window() > 0) return without_window(at + 1) > at;
  const auto i = static_cast<uint32_t>(at / shape.block_tokens);
  return std::ranges::any_of(tables, [&](const BlockTable& table) { return table.filled(i) > at % shape.block_tokens; });
}

uint32_t KvSequence::lacking(uint32_t i) const {
  uint32_t groups = 0;
  for (uint32_t g = 0; g < shape.n_groups; ++g) groups |= tables[g].filled(i) == 0 ? 1u << g : 0;
  return groups;
}

void KvSequence::lacks(uint32_t i, uint32_t groups, Hole why) {
  for (uint32_t g = 0; g < shape.n_groups; ++g) {
    if (groups >> g & 1) tables[g].lacks(i, why);
  }
}

void KvSequence::roll_holes(uint64_t at) {
  for (uint32_t g = shape.first_window(); g < shape.n_groups; ++g) {
    const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(at / shape.block_tokens, tables[g].size()));
    for (uint32_t i = 0; i < blocks; ++i) {
      if (tables[g].place(i).is_hole()) tables[g].say(i, Hole::kBehindWindow);
    }
  }
}

// Groups without a window are asked for the first position that one of them lacks; windows for those before it, for which rows go back to
// `at`.
Hole KvSequence::why(uint64_t at, uint64_t n) const {
  const uint64_t T = shape.block_tokens, whole = without_window(n);
  Hole strongest = Hole::kNeverComputed;
  for (uint32_t g = 0; g < shape.n_groups; ++g) {
    const bool window = shape.groups[g].window > 0;
    const uint64_t end = window ? whole : std::min(n, whole + 1);
    for (uint64_t i = (window ? at : whole) / T; i * T < end; ++i) {
      const auto block = static_cast<uint32_t>(i);
      if (tables[g].filled(block) < std::min(T, end - i * T)) strongest = std::max(strongest, tables[g].place(block).why());
    }
  }
  return strongest;
}

std::vector<KvRun> KvSequence::runs(uint64_t n) const {
  const uint64_t T = shape.block_tokens;
  std::array<std::vector<uint32_t>, kKvGroupsMax> filled;
  Filled seen;  // the same
  for (uint32_t g = 0; g < shape.n_groups; ++g) {
    filled[g].assign(tables[g].filled().begin(), tables[g].filled().end());
    filled[g].resize(std::max<uint64_t>(filled[g].size(), (n + T - 1) / T));
    seen[g] = filled[g];
  }
  std::vector<KvRun> all;
  while (n > 0) {
    const KvRun run = Presence(shape, seen).next_run(n);
    if (run.stores == 0) break;
    all.push_back(run);
    if (run.end == n) break;
    for (uint32_t g = 0; g < shape.n_groups; ++g) {
      if ((run.stores >> g & 1) == 0) continue;
      const uint64_t first = shape.groups[g].state ? (run.end - 1) / T : run.begin / T;
      for (uint64_t i = first; i * T < run.end; ++i) filled[g][i] = static_cast<uint32_t>(std::min(T, run.end - i * T));
    }
  }
  return all;
}

uint64_t KvSequence::reusable(uint64_t n) const {
  if (shape.has_states() && restart(n) == n) return n;
  uint64_t reused = n;
  for (const KvRun& run : runs(n)) reused -= run.end - run.begin;
  return reused;
}

uint64_t KvSequence::whole_blocks(uint32_t blocks) const {
  uint64_t whole = 0;
  for (uint32_t i = 0; i < blocks; ++i) {
    bool all = true;
    for (uint32_t g = 0; g < shape.n_groups; ++g) {
      const bool needs = shape.groups[g].window == 0 || i >= shape.window_begin(g, blocks - 1);
      all &= !needs || tables[g].filled(i) == shape.block_tokens;
    }
    whole += all;
  }
  return whole;
}

uint32_t KvSequence::blocks() const {
  uint32_t most = 0;
  for (const BlockTable& table : tables) most = std::max(most, table.size());
  return most;
}

uint32_t KvSequence::blocks_held() const {
  return std::accumulate(tables.begin(), tables.end(), 0u, [](uint32_t n, const BlockTable& table) { return n + table.blocks_held(); });
}

uint64_t KvSequence::units_held() const {
  uint64_t units = 0;
  for (uint32_t g = 0; g < shape.n_groups; ++g) units += uint64_t{tables[g].blocks_held()} * shape.groups[g].units;
  return units;
}

}  // namespace kvrt
