#include "runtime/kv/shape.h"

#include <algorithm>
#include <numeric>

namespace kvrt {

uint64_t KvShape::blocks_for(uint32_t group, uint64_t tokens) const {
  const uint64_t T = block_tokens, window = groups[group].window;
  const uint64_t most = window > 0 ? window + std::max<uint64_t>(window, step_rows) : tokens;
  const uint64_t all_blocks = tokens / T + (tokens % T != 0);
  if (groups[group].state) return std::min<uint64_t>(all_blocks, 2);  // before a step, and after it
  return tokens <= most ? all_blocks : std::min(all_blocks, most / T + (most % T != 0) + 1);
}

uint64_t KvShape::units_for(uint64_t tokens) const {
  uint64_t units = 0;
  for (uint32_t g = 0; g < n_groups; ++g) units += blocks_for(g, tokens) * groups[g].units;
  return units;
}

uint64_t KvShape::boundary_units() const {
  uint64_t units = 0;
  for (uint32_t g = first_window(); g < n_groups; ++g) {
    units += (uint64_t{groups[g].window} + block_tokens - 1) / block_tokens * groups[g].units;
  }
  return units;
}

uint64_t KvShape::boundaries_units(uint64_t pool_units) const {
  constexpr uint64_t kPart = 4;
  return first_window() > 0 ? std::max(pool_units / kPart, boundary_units()) : pool_units;
}

uint64_t KvShape::tokens_in(uint64_t units) const {
  uint64_t blocks = 0;
  for (uint64_t step = uint64_t{1} << 32; step > 0; step /= 2) {
    if (units_for((blocks + step) * block_tokens) <= units) blocks += step;
  }
  return blocks * block_tokens;
}

uint32_t KvShape::units() const {
  return std::accumulate(groups.begin(), groups.begin() + n_groups, 0u, [](uint32_t n, const Group& group) { return n + group.units; });
}

uint32_t KvShape::tables() const { return units() - state_units(); }

uint32_t KvShape::first_window() const {
  uint32_t g = 0;
  while (g < n_groups && groups[g].window == 0) ++g;
  return g;
}

uint32_t KvShape::keeping(uint64_t i, uint64_t end) const {
  uint32_t keep = 0;
  for (uint32_t g = 0; g < n_groups; ++g) {
    const uint64_t window = groups[g].window;
    const bool kept = window == 0 || (i + 1) * block_tokens + 2 * window > end * block_tokens;
    if (kept && (i < end || !has_windows())) keep |= 1u << g;
  }
  return keep;
}

uint32_t KvShape::window_begin(uint32_t group, uint32_t last) const {
  const uint64_t end = uint64_t{last + 1} * block_tokens, window = groups[group].window;
  return end >= window ? static_cast<uint32_t>((end - window) / block_tokens) : 0;
}

}  // namespace kvrt
