// StoreImpl: reads chunks, and forgets those that are no good.
#include "storage/store/store_impl.h"

namespace kvrt {

namespace {
std::string lost_text(const ChunkKey& chunk, const ChunkLocation& at, const std::string& why) {
  return chunk.shown() + " in " + at.segment.shown() + " at " + std::to_string(at.offset) + ": " + why;
}
}  // namespace

ChunkState StoreImpl::read(const NodeIn& node, uint32_t number, uint32_t layout, std::span<uint8_t> out, std::string* damage) {
  const ChunkKey chunk{node.key, number};
  for (;;) {
    auto found = reader_.locate(chunk);
    if (!found.is_ok() && damage != nullptr) *damage = found.status().message();
    if (!found.is_ok() || !found->has_value()) return ChunkState::kAbsent;
    const ChunkLocation at = **found;
    CodecPool::Lease codec(&store_.codecs);
    auto file = store_.files.open(at.segment, at.offset + at.bytes);
    auto frame = file.is_ok() ? read_frame(**file, at.offset, at.bytes, codec->read_buffer()) : file.take_status();
    Status status = frame.is_ok() ? codec->decode(*frame, node, number, layout, out, store_.item_tag_max) : frame.take_status();
    if (status.is_ok()) return ChunkState::kOk;
    std::optional<ChunkState> lost = lose(chunk, at, status, damage);
    if (lost) return *lost;
  }
}

uint32_t StoreImpl::layout_of(const NodeIn& node, uint32_t number) {
  auto found = reader_.locate({node.key, number});
  if (!found.is_ok() || !found->has_value()) return 0;
  auto file = store_.files.open((*found)->segment, (*found)->offset + (*found)->bytes);
  if (!file.is_ok()) return 0;
  CodecPool::Lease codec(&store_.codecs);
  auto head = read_frame(**file, (*found)->offset, std::min<uint64_t>((*found)->bytes, kFrameHeaderBytes), codec->read_buffer());
  return head.is_ok() ? frame_layout(*head) : 0;
}

// The state of a chunk that could not be read; none: it lies elsewhere by now. A damaged chunk is forgotten, so that the next save writes
// it again. A lack of descriptors or memory is not damage.
std::optional<ChunkState> StoreImpl::lose(const ChunkKey& chunk, const ChunkLocation& at, const Status& why, std::string* damage) {
  // Nor is a frame that a newer kvrt wrote: it is a hole for this one only.
  bool passing = why.code() == Code::kIncompatible || is_want(why) || why.detail() == Detail::kPermission;
  const std::string text = lost_text(chunk, at, why.message());
  if (damage != nullptr) *damage = text;
  if (passing) return ChunkState::kAbsent;
  const bool missing = why.code() == Code::kNotFound;
  if (missing) store_.files.forget(at.segment);
  std::optional<ChunkState> lost;
  if (writer_.mutex.try_lock()) {
    Lock lock(writer_.mutex, std::adopt_lock);
    lost = writer_.forget(chunk, at, missing);
  } else {  // a reader waits for no writer's disk
    lost = reader_.note_bad(chunk, at);
  }
  if (lost == ChunkState::kDamaged) logf(store_.log, LogLevel::kWarn, "store: %s", text.c_str());
  return lost;
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
  Lock lock(writer_.mutex);
  auto found = writer_.catalog.chunks.find(chunk);
  if (!found.is_ok() || !found->has_value()) return false;
  if (writer_.forget(chunk, **found, false) != ChunkState::kDamaged) return false;
  logf(store_.log, LogLevel::kWarn, "store: %s", lost_text(chunk, **found, why).c_str());
  return true;
}

}  // namespace kvrt
