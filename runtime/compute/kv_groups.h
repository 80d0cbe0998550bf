// KvGroups: which layers of a model keep KV for the same time, and where in the pool each has it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/compute/step.h"

namespace kvrt {

// Layers whose tokens leave KV behind for the same time.
struct KvGroup {
  uint32_t window = 0;  // a row sees so many positions, its own with them; 0: all before it
  uint32_t layers = 0;
  uint32_t first_table = 0, tables = 0;  // of a sequence's block tables; a block of the group has a unit in each
};

// The pool is cut into units: the KV of block_tokens tokens in unit.layers layers. All groups take units of one size, so that memory that
// one group gives up is good for any other.
struct KvGroups {
  KvGeometry unit;
  std::vector<KvGroup> groups;
  std::vector<KvPlace> places;  // by layer
  uint32_t tables() const { return groups.empty() ? 0 : groups.back().first_table + groups.back().tables; }
};

// Deals the layers, whose windows these are (0: none), to groups: one without a window, then one for each window, ascending. A group's
// layers fill its units in their order. A unit has as many layers as it can while the places that no layer takes are none in the group without
// a window, and in others at most a tenth of the group's layers. `layer`: the geometry of any one layer.
KvGroups deal_layers(std::span<const uint32_t> windows, const KvGeometry& layer);

// One group of all layers, each of which keeps all its KV.
KvGroups one_group(const KvGeometry& kv);

}  // namespace kvrt
