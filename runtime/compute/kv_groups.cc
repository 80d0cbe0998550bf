#include "runtime/compute/kv_groups.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace kvrt {

namespace {

constexpr uint64_t kPaddingPart = 10;
constexpr uint32_t kItemChannelsMax = 64;

bool takes(const KvGroup& group, const KvLayer& layer) {
  if (group.state || layer.state.any()) return group.state && layer.state.any();
  return group.window == layer.window && group.unit.same_layers(layer.kv);
}

// The groups of layers with KV, without their units' sizes.
std::vector<KvGroup> groups_of(std::span<const KvLayer> layers) {
  std::vector<KvGroup> groups;
  for (const KvLayer& layer : layers) {
    if (layer.state.any() || layer.of != KvLayer::kOwn) continue;
    auto at = std::ranges::find_if(groups, [&](const KvGroup& group) { return takes(group, layer); });
    if (at == groups.end()) {
      at = groups.insert(std::ranges::upper_bound(groups, layer.window, {}, &KvGroup::window), {layer.window, 0, layer.kv, 0, 0});
      at->unit.layers = 1;
    }
    ++at->layers;
  }
  return groups;
}

// Bytes of a block of all groups that no layer takes, those of groups without a window apart: these cost in every token.
struct Cut {
  bool too_much = false;
  uint64_t lasting = 0, passing = 0;
  uint32_t tables = 0;
  // The first is the best.
  auto rank() const { return std::tuple(too_much, too_much ? lasting : 0, too_much ? passing : 0, tables); }
};
// Sets the groups' units to this size, which has room for any layer.
Cut cut(uint64_t unit_bytes, std::vector<KvGroup>* groups) {
  Cut result;
  for (KvGroup& group : *groups) {
    const uint64_t layer = group.unit.layer_bytes(), own = group.layers * layer;
    group.unit.layers = static_cast<uint32_t>(unit_bytes / layer);
    group.unit.padding = unit_bytes % layer;
    group.first_table = result.tables;
    group.tables = (group.layers + group.unit.layers - 1) / group.unit.layers;
    const uint64_t padding = group.tables * unit_bytes - own;
    result.too_much |= padding * kPaddingPart > (group.window > 0 ? own : 0);
    (group.window > 0 ? result.passing : result.lasting) += padding;
    result.tables += group.tables;
  }
  return result;
}

// Few tables are few copies and look-ups; of sizes that give as many, the least. None is below `least`.
uint64_t unit_bytes_of(std::vector<KvGroup>* groups, uint64_t least) {
  std::set<uint64_t> sizes{least};
  for (const KvGroup& group : *groups) {
    least = std::max(least, group.unit.layer_bytes());
    for (uint32_t n = 1; n <= group.layers; ++n) sizes.insert(n * group.unit.layer_bytes());
  }
  uint64_t best = 0;
  Cut of_best;
  for (const uint64_t size : sizes) {
    if (size < least) continue;
    const Cut next = cut(size, groups);
    if (best == 0 || next.rank() < of_best.rank()) best = size, of_best = next;
  }
  return best;
}

// Lays items of all layers into units of their own from first_unit on, and returns the unit after them.
uint32_t place_items(StateItems* kind, const StateLayout& states, uint32_t first_unit) {
  kind->first_unit = first_unit;
  if (kind->items == 0) return first_unit;
  kind->per_unit = static_cast<uint32_t>(states.unit_bytes / kind->bytes);
  return first_unit + (states.layers * kind->items + kind->per_unit - 1) / kind->per_unit;
}

// The group of the layers with a state, and the layout of a block.
void add_states(std::span<const KvLayer> layers, const KvLayer& first, uint64_t unit_bytes, KvGroups* kv) {
  StateLayout& states = kv->states;
  states.layers = static_cast<uint32_t>(std::ranges::count_if(layers, [](const KvLayer& layer) { return layer.state.any(); }));
  states.unit_bytes = unit_bytes;
  states.inputs = first.state.inputs();
  states.heads = first.state.recurrences();
  states.units = place_items(&states.heads, states, place_items(&states.inputs, states, 0));
  KvGroup group{1, states.layers, {}, kv->tables(), 0, true};
  group.unit.block_tokens = first.kv.block_tokens;
  group.unit.padding = unit_bytes;
  kv->groups.push_back(group);
}

}  // namespace

bool KvGroups::one_shape() const {
  return std::ranges::all_of(groups, [&](const KvGroup& group) { return group.unit.same_layers(groups[0].unit); });
}

StateItems StateNeed::inputs() const {
  if (channels == 0) return {};
  const uint32_t of_item = std::min(channels & -channels, kItemChannelsMax);
  return {channels / of_item, (taps - 1) * of_item * static_cast<uint32_t>(sizeof(float))};
}

StateItems StateNeed::recurrences() const { return {heads, heads > 0 ? head_bytes : 0}; }

KvGroups deal_layers(std::span<const KvLayer> layers) {
  KvGroups kv;
  const auto recurrent = std::ranges::find_if(layers, [](const KvLayer& layer) { return layer.state.any(); });
  const StateNeed state = recurrent == layers.end() ? StateNeed{} : recurrent->state;
  kv.groups = groups_of(layers);
  const uint64_t unit_bytes = unit_bytes_of(&kv.groups, std::max(state.inputs().bytes, state.recurrences().bytes));
  cut(unit_bytes, &kv.groups);
  if (state.any()) add_states(layers, *recurrent, unit_bytes, &kv);
  std::vector<uint32_t> dealt(kv.groups.size());
  for (const KvLayer& layer : layers) {
    if (layer.of != KvLayer::kOwn) {
      kv.places.push_back(kv.places[layer.of]);
      continue;
    }
    ++kv.own;
    const auto at = std::ranges::find_if(kv.groups, [&](const KvGroup& group) { return takes(group, layer); });
    const auto group = static_cast<uint32_t>(at - kv.groups.begin());
    const uint32_t index = dealt[group]++;
    if (at->state)
      kv.places.push_back({index, 0, group});
    else
      kv.places.push_back({index % at->unit.layers, at->first_table + index / at->unit.layers, group});
  }
  return kv;
}

KvGroups deal_layers(std::span<const uint32_t> windows, const KvGeometry& layer) {
  std::vector<KvLayer> layers;
  for (const uint32_t window : windows) layers.push_back({window, layer});
  return deal_layers(layers);
}

KvGroups one_group(const KvGeometry& kv) {
  const std::vector<uint32_t> windows(kv.layers, 0);
  return deal_layers(windows, kv);
}

}  // namespace kvrt
