#include "runtime/compute/kv_groups.h"

#include <algorithm>
#include <map>

namespace kvrt {

namespace {

constexpr uint64_t kPaddingPart = 10;

uint32_t units_for(uint64_t layers, uint32_t unit_layers) { return static_cast<uint32_t>((layers + unit_layers - 1) / unit_layers); }

// Without a window padding would cost in every token: there is none.
bool fits(const std::vector<KvGroup>& groups, uint32_t unit_layers) {
  return std::ranges::all_of(groups, [&](const KvGroup& group) {
    const uint64_t padding = uint64_t{units_for(group.layers, unit_layers)} * unit_layers - group.layers;
    return padding * kPaddingPart <= (group.window > 0 ? group.layers : 0);
  });
}

uint32_t tables_of(const std::vector<KvGroup>& groups, uint32_t unit_layers) {
  uint32_t n = 0;
  for (const KvGroup& group : groups) n += units_for(group.layers, unit_layers);
  return n;
}

// As many as fit; of counts that give as many tables, the least.
uint32_t layers_of_unit(const std::vector<KvGroup>& groups, uint32_t layers) {
  uint32_t n = layers;
  while (n > 1 && !fits(groups, n)) --n;
  const uint32_t tables = n > 1 ? tables_of(groups, n) : 0;
  while (n > 1 && tables_of(groups, n - 1) == tables) --n;
  return std::max(n, 1u);
}

}  // namespace

KvGroups deal_layers(std::span<const uint32_t> windows, const KvGeometry& layer) {
  KvGroups kv;
  std::map<uint32_t, uint32_t> layers;  // by window
  for (const uint32_t window : windows) ++layers[window];
  for (const auto& [window, count] : layers) kv.groups.push_back({window, count, 0, 0});
  kv.unit = layer;
  kv.unit.layers = layers_of_unit(kv.groups, static_cast<uint32_t>(windows.size()));
  uint32_t tables = 0;
  for (KvGroup& group : kv.groups) {
    group.first_table = tables;
    group.tables = units_for(group.layers, kv.unit.layers);
    tables += group.tables;
  }
  std::vector<uint32_t> dealt(kv.groups.size());
  for (const uint32_t window : windows) {
    const auto at = std::ranges::find(kv.groups, window, &KvGroup::window);
    const auto group = static_cast<uint32_t>(at - kv.groups.begin());
    const uint32_t index = dealt[group]++;
    kv.places.push_back({index % kv.unit.layers, at->first_table + index / kv.unit.layers, group});
  }
  return kv;
}

KvGroups one_group(const KvGeometry& kv) {
  const std::vector<uint32_t> windows(kv.layers, 0);
  return deal_layers(windows, kv);
}

}  // namespace kvrt
