#include "storage/store/reader.h"

#include <algorithm>

namespace kvrt {

bool Reader::has(const ChunkKey& chunk) {
  auto at = locate(chunk);
  return at.is_ok() && at->has_value();
}

std::vector<uint32_t> Reader::find(std::span<const NodeIn> chain) {
  std::vector<uint32_t> groups(chain.size());
  Lock lock(mutex);
  auto there = catalog.nodes.find_chain(chain);
  if (!there.is_ok()) return groups;
  std::copy(there->groups.begin(), there->groups.end(), groups.begin());
  for (size_t i = 0; !bad_.empty() && i < groups.size(); i++) {
    for (uint32_t group = 0; group < kChunkGroups; group++) {
      if (bad_.count({chain[i].key, group}) != 0) groups[i] &= ~(uint32_t{1} << group);
    }
  }
  return groups;
}

Result<std::optional<ChunkLocation>> Reader::locate(const ChunkKey& chunk) {
  Lock lock(mutex);
  if (!bad_.empty() && bad_.count(chunk) != 0) return std::optional<ChunkLocation>();
  return catalog.chunks.find(chunk);
}

std::vector<std::vector<ChunkSize>> Reader::chunk_sizes(std::span<const BlockKey> keys) {
  std::vector<std::vector<ChunkSize>> sizes(keys.size());
  Lock lock(mutex);
  for (size_t i = 0; i < keys.size(); i++) {
    auto places = catalog.chunks.of_node(keys[i]);
    if (!places.is_ok()) continue;
    for (const ChunkPlace& place : *places) {
      if (bad_.count(place.chunk) == 0) sizes[i].push_back({place.chunk.group, place.bytes});
    }
    std::ranges::sort(sizes[i], {}, &ChunkSize::group);
  }
  return sizes;
}

std::optional<ChunkState> Reader::note_bad(const ChunkKey& chunk, const ChunkLocation& at) {
  Lock lock(mutex);
  auto now = catalog.chunks.find(chunk);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;
  if (now.is_ok() && (*now)->segment != at.segment) return std::nullopt;
  if (bad_.insert(chunk).second) store_->damaged++;
  return ChunkState::kDamaged;
}

ChunkKeys Reader::bad_of(std::span<const ChunkPlace> chunks) {
  ChunkKeys bad;
  Lock lock(mutex);
  for (const ChunkPlace& place : chunks) {
    if (bad_.count(place.chunk) != 0) bad.insert(place.chunk);
  }
  return bad;
}

void Reader::forget_bad(const ChunkKeys& chunks) {
  Lock lock(mutex);
  for (const ChunkKey& chunk : chunks) bad_.erase(chunk);
}

}  // namespace kvrt
