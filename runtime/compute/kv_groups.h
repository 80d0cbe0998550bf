// KvGroups: which layers of a model keep KV for the same time, and where in the pool each has it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/compute/state_layout.h"
#include "runtime/compute/step.h"

namespace kvrt {

// Layers whose tokens leave KV of one shape behind for the same time, or all layers with a state.
struct KvGroup {
  uint32_t window = 0;  // a row sees so many positions, its own with them; 0: all before it
  uint32_t layers = 0;
  KvGeometry unit;                       // what a unit of the group is
  uint32_t first_table = 0, tables = 0;  // of a sequence's block tables; a block of the group has a unit in each
  bool state = false;                    // its blocks are states: StepSeq names their units, and no table
};

// The pool is cut into units: the KV of a block's tokens in some layers of a group, or a part of a state. All groups take units of one size
// in bytes, so that memory that one group gives up is good for any other.
struct KvGroups {
  std::vector<KvGroup> groups;
  std::vector<KvPlace> places;  // by layer; of one with a state: {its number among those, 0, the group}
  uint32_t own = 0;             // so many first layers have a place of their own; the others read at one of these
  StateLayout states;           // units 0: no layer has one
  uint32_t tables() const { return groups.empty() ? 0 : groups.back().first_table + groups.back().tables; }
  uint64_t unit_bytes() const { return groups.empty() ? 0 : groups[0].unit.block_bytes(); }
  const KvGeometry& unit(KvPlace place) const { return groups[place.group].unit; }
  bool one_shape() const;  // of all layers: one chunk may have them all
};

// What a recurrent layer keeps of a sequence, however long that is: f32 numbers.
struct StateNeed {
  uint32_t channels = 0, taps = 0;     // the last taps - 1 inputs of a convolution
  uint32_t heads = 0, head_bytes = 0;  // a recurrence's state
  bool operator==(const StateNeed&) const = default;
  bool any() const { return channels > 0 || heads > 0; }
  StateItems inputs() const;  // how they are cut: the largest power of two of channels that divides them, at most 64
  StateItems recurrences() const;
};

// What a layer's tokens leave behind, and for how long.
struct KvLayer {
  uint32_t window = 0;  // 0: for ever
  KvGeometry kv;        // of one layer; the same block_tokens in all. With a state nothing but those
  StateNeed state{};    // the same in all layers that have one
  // It leaves nothing behind, and reads what this earlier layer does. All layers after the first such one are so.
  uint32_t of = kOwn;
  static constexpr uint32_t kOwn = UINT32_MAX;
};

// Deals the layers to groups: those without a window first, then by the window, ascending; layers of different shapes are in different
// groups. A group's layers fill its units in their order. A unit is as large as it can be while the bytes that no layer takes are none in a
// group without a window, and in others at most a tenth of the layers' own; where no size is such, there is as little of the first
// as can be, then of the second. Layers with a state are the last group; a unit has room for an item of theirs.
KvGroups deal_layers(std::span<const KvLayer> layers);
KvGroups deal_layers(std::span<const uint32_t> windows, const KvGeometry& layer);  // all of this shape, whatever its count of layers

// One group of all layers, each of which keeps all its KV.
KvGroups one_group(const KvGeometry& kv);

}  // namespace kvrt
