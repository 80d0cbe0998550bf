#include "runtime/engine/snapshot/kv_chunks.h"

#include <algorithm>

namespace kvrt {

std::vector<SessionGroup> groups_needed(const KvGroups& kv) {
  std::vector<SessionGroup> needed;
  if (kv.groups.size() == 1 && kv.groups[0].window == 0) return needed;
  for (uint32_t g = 0; g < kv.groups.size(); ++g) needed.push_back({chunk_number(kv, g), kv.groups[g].window});
  return needed;
}

bool one_shape(const KvGroups& kv) {
  return std::ranges::all_of(kv.groups, [&](const KvGroup& group) { return group.unit.same_layers(kv.groups[0].unit); });
}

std::vector<uint32_t> groups_stored(const KvGroups& kv, std::vector<uint32_t> chunks) {
  const uint32_t all = (1u << kv.groups.size()) - 1, whole = one_shape(kv) ? 1u << kAllLayers : 0;
  for (uint32_t& mask : chunks) mask = mask & whole ? all : mask >> 1 & all;
  return chunks;
}

KvChunk kv_chunk(const KvGroups& kv, uint32_t number) {
  KvChunk chunk{kv.groups[number == kAllLayers ? 0 : number - 1].unit, {}};
  const uint64_t layer_bytes = chunk.geometry.layer_bytes();
  chunk.geometry.padding = 0;
  chunk.geometry.layers = 0;
  if (number == kAllLayers && !one_shape(kv)) return chunk;
  for (const KvPlace& place : kv.places) {
    if (number != kAllLayers && place.group != number - 1) continue;
    const uint32_t unit = place.table - kv.groups[place.group].first_table;
    const uint64_t in_chunk = chunk.geometry.layers++ * layer_bytes, in_unit = place.layer * layer_bytes;
    if (!chunk.parts.empty()) {
      ChunkPart& last = chunk.parts.back();
      if (last.group == place.group && last.unit == unit && last.in_unit + last.bytes == in_unit) {
        last.bytes += layer_bytes;
        continue;
      }
    }
    chunk.parts.push_back({place.group, unit, in_chunk, in_unit, layer_bytes});
  }
  return chunk;
}

}  // namespace kvrt
