#include "runtime/engine/sources/kv_chunks.h"

#include <algorithm>

namespace kvrt {

std::vector<SessionGroup> groups_needed(const KvGroups& kv) {
  std::vector<SessionGroup> needed;
  if (kv.groups.size() == 1 && kv.groups[0].window == 0) return needed;
  for (uint32_t g = 0; g < kv.groups.size(); ++g) needed.push_back({chunk_number(kv, g), kv.groups[g].window});
  return needed;
}

std::vector<uint32_t> groups_stored(const KvGroups& kv, std::vector<uint32_t> chunks) {
  const uint32_t all = (1u << kv.groups.size()) - 1, whole = kv.one_shape() ? 1u << kAllLayers : 0;
  for (uint32_t& mask : chunks) mask = mask & whole ? all : mask >> 1 & all;
  return chunks;
}

namespace {

// The chunk of the group of states: its items without what lies between them in the units.
KvChunk states_chunk(const KvGroups& kv, uint32_t group) {
  KvChunk chunk{kv.groups[group].unit, {}, true};
  chunk.geometry.k.format = chunk.geometry.v.format = KvFormat::kF32;
  uint64_t at = 0;
  for (const StateItems& kind : {kv.states.inputs, kv.states.heads}) {
    uint32_t unit = kind.first_unit;
    for (uint32_t left = kv.states.layers * kind.items; left > 0; ++unit) {
      const uint32_t here = std::min(left, kind.per_unit);
      chunk.parts.push_back({group, unit, at, 0, uint64_t{here} * kind.bytes});
      at += chunk.parts.back().bytes;
      left -= here;
    }
  }
  chunk.geometry.padding = at;
  return chunk;
}

}  // namespace

KvChunk kv_chunk(const KvGroups& kv, uint32_t number) {
  const uint32_t only = number == kAllLayers ? 0 : number - 1;
  if (kv.groups[only].state && (number != kAllLayers || kv.groups.size() == 1)) return states_chunk(kv, only);
  KvChunk chunk{kv.groups[only].unit, {}};
  const uint64_t layer_bytes = chunk.geometry.layer_bytes();
  chunk.geometry.padding = 0;
  chunk.geometry.layers = 0;
  if (number == kAllLayers && !kv.one_shape()) return chunk;
  for (const KvPlace& place : std::span(kv.places).first(kv.own)) {
    if (number != kAllLayers && place.group != number - 1) continue;
    chunk.layers.push_back(static_cast<uint32_t>(&place - kv.places.data()));
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
