// StoreImpl: the calls that look up and read chunks by key.
#include <algorithm>

#include "storage/store/store_impl.h"

namespace kvrt {

namespace {
std::string lost_text(const ChunkKey& chunk, const ChunkLocation& at, const std::string& why) {
  return chunk.shown() + " in " + at.segment.path("").substr(1) + " at " + std::to_string(at.offset) + ": " + why;
}
}  // namespace

bool StoreImpl::has(const ChunkKey& chunk) {
  Lock lock(read_mutex_);
  if (!bad_.empty() && bad_.count(chunk) != 0) return false;
  auto at = reader_.chunks.find(chunk);
  return at.is_ok() && at->has_value();
}

std::vector<uint32_t> StoreImpl::find(std::span<const NodeIn> chain) {
  std::vector<uint32_t> groups(chain.size());
  Lock lock(read_mutex_);
  auto there = reader_.nodes.find_chain(chain);
  if (!there.is_ok()) return groups;
  std::copy(there->groups.begin(), there->groups.end(), groups.begin());
  for (size_t i = 0; !bad_.empty() && i < groups.size(); i++) {
    for (uint32_t group = 0; group < kChunkGroups; group++) {
      if (bad_.count({chain[i].key, group}) != 0) groups[i] &= ~(uint32_t{1} << group);
    }
  }
  return groups;
}

ChunkState StoreImpl::read(const NodeIn& node, uint32_t group, uint32_t layout, std::span<uint8_t> out, std::string* damage) {
  const ChunkKey chunk{node.key, group};
  for (;;) {
    ChunkLocation at;
    {
      Lock lock(read_mutex_);
      if (!bad_.empty() && bad_.count(chunk) != 0) return ChunkState::kAbsent;
      auto found = reader_.chunks.find(chunk);
      if (!found.is_ok()) {
        if (damage != nullptr) *damage = found.status().message();
        return ChunkState::kAbsent;
      }
      if (!found->has_value()) return ChunkState::kAbsent;
      at = **found;
    }
    CodecPool::Lease codec(&codecs_);
    auto file = files_.open(at.segment, at.offset + at.bytes);
    auto frame = file.is_ok() ? read_frame(**file, at.offset, at.bytes, codec->read_buffer()) : file.take_status();
    Status status = frame.is_ok() ? codec->decode(*frame, node, group, layout, out) : frame.take_status();
    if (status.is_ok()) return ChunkState::kOk;
    std::optional<ChunkState> lost = lose(chunk, at, status, damage);
    if (lost) return *lost;
  }
}

// The state of a chunk that could not be read; none: it lies elsewhere by now. A damaged chunk is forgotten, so that the next save writes
// it again. A lack of descriptors or memory is not damage.
std::optional<ChunkState> StoreImpl::lose(const ChunkKey& chunk, const ChunkLocation& at, const Status& why, std::string* damage) {
  // Nor is a frame that a newer kvrt wrote: it is a hole for this one alone.
  bool passing = why.code() == Code::kIncompatible || is_want(why) || why.detail() == Detail::kPermission;
  const std::string text = lost_text(chunk, at, why.message());
  if (damage != nullptr) *damage = text;
  if (passing) return ChunkState::kAbsent;
  const bool missing = why.code() == Code::kNotFound;
  if (missing) files_.forget(at.segment);
  std::optional<ChunkState> lost;
  if (mutex_.try_lock()) {
    Lock lock(mutex_, std::adopt_lock);
    lost = forget_locked(chunk, at, missing);
  } else {  // a reader waits for no writer's disk
    lost = note_bad(chunk, at);
  }
  if (lost == ChunkState::kDamaged) logf(log_, LogLevel::kWarn, "store: %s", text.c_str());
  return lost;
}

// Forgets a damaged chunk, or with `missing` all of its segment, in the catalog; where that cannot be written, in memory alone.
std::optional<ChunkState> StoreImpl::forget_locked(const ChunkKey& chunk, const ChunkLocation& at, bool missing) {
  const Impatient at_once = catalog_.db.impatient();
  auto now = catalog_.chunks.find(chunk);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;  // removed while we read
  // The segment is compared by name: a later one may have its row number.
  if (now.is_ok() && (*now)->segment != at.segment) return std::nullopt;
  if (!check_writable_locked().is_ok()) return note_bad(chunk, at);
  (void)catalog_.db.set_durability(Durability::kProcess).is_ok();  // a power cut only brings it back, to be found again
  auto forgotten = missing ? catalog_.chunks.forget_segment(at.segment) : catalog_.chunks.forget(chunk, at.segment);
  if (!forgotten.is_ok()) return note_bad(chunk, at);
  damaged_ += *forgotten;
  return ChunkState::kDamaged;
}

// Remembers a damaged chunk until a save brings it.
std::optional<ChunkState> StoreImpl::note_bad(const ChunkKey& chunk, const ChunkLocation& at) {
  Lock reading(read_mutex_);
  auto now = reader_.chunks.find(chunk);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;
  if (now.is_ok() && (*now)->segment != at.segment) return std::nullopt;
  if (bad_.insert(chunk).second) damaged_++;
  return ChunkState::kDamaged;
}

uint64_t StoreImpl::discard(std::span<const NodeIn> chain, const std::string& why) {
  const std::vector<uint32_t> there = find(chain);
  uint64_t count = 0;
  for (size_t i = 0; i < chain.size(); i++) {
    for (uint32_t group = 0; group < kChunkGroups; group++) {
      if (has_group(there[i], group)) count += discard(ChunkKey{chain[i].key, group}, why);
    }
  }
  return count;
}

// False: it was gone already.
bool StoreImpl::discard(const ChunkKey& chunk, const std::string& why) {
  Lock lock(mutex_);
  auto found = catalog_.chunks.find(chunk);
  if (!found.is_ok() || !found->has_value()) return false;
  if (forget_locked(chunk, **found, false) != ChunkState::kDamaged) return false;
  logf(log_, LogLevel::kWarn, "store: %s", lost_text(chunk, **found, why).c_str());
  return true;
}

std::vector<std::vector<ChunkSize>> StoreImpl::chunk_sizes(std::span<const BlockKey> keys) {
  std::vector<std::vector<ChunkSize>> sizes(keys.size());
  Lock lock(read_mutex_);
  for (size_t i = 0; i < keys.size(); i++) {
    auto places = reader_.chunks.of_node(keys[i]);
    if (!places.is_ok()) continue;
    for (const ChunkPlace& place : *places) {
      if (bad_.count(place.chunk) == 0) sizes[i].push_back({place.chunk.group, place.bytes});
    }
    std::ranges::sort(sizes[i], {}, &ChunkSize::group);
  }
  return sizes;
}

}  // namespace kvrt
