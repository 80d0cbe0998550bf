// How the KV of a block lies in the chunks of the store, and where in the pool each part of a chunk is. Values: any thread.
#pragma once

#include <vector>

#include "runtime/compute/kv_groups.h"
#include "runtime/compute/kv_layout.h"
#include "storage/values.h"

namespace kvrt {

// A run of layers, or of parts of states, that lie together, in a chunk and in a unit of a group's block. Positions in bytes.
struct ChunkPart {
  uint32_t group = 0, unit = 0;
  uint64_t in_chunk = 0, in_unit = 0, bytes = 0;
};

// A chunk holds the layers of one group, or all layers: as the only group of a model does, and as kvrt 0.1 wrote for every model. Layers of
// different shapes are in no chunk together.
struct KvChunk {
  KvGeometry geometry;  // of its layers, in the model's order; of states no layer and their bytes as padding
  std::vector<ChunkPart> parts;
  bool states = false;
  std::vector<uint32_t> layers{};  // by layer of the geometry: its number in the model
  uint32_t layout() const { return states ? kStatesLayout : block_layout(geometry); }
};

inline constexpr uint32_t kAllLayers = 0;  // the number of the chunk that has them

// The number, for a node, of the chunk with the group's layers.
inline uint32_t chunk_number(const KvGroups& kv, uint32_t group) { return kv.groups.size() == 1 ? kAllLayers : group + 1; }
// The chunks that a session of the model needs, in the store's words. None: all of one group, which keeps everything.
std::vector<SessionGroup> groups_needed(const KvGroups& kv);
// The store's masks of the chunks of nodes, as masks of the groups whose layers these hold.
std::vector<uint32_t> groups_stored(const KvGroups& kv, std::vector<uint32_t> chunks);
// The chunk with that number, 0 to the count of groups. Without parts: there is no such chunk.
KvChunk kv_chunk(const KvGroups& kv, uint32_t number);

}  // namespace kvrt
