// StoreImpl: the calls that look up and read chunks by key.
#include "storage/store/store_impl.h"

namespace kvrt {

namespace {
std::string lost_text(const BlockKey& key, const ChunkLocation& at, const std::string& why) {
  return "chunk " + key.hex().substr(0, 16) + " in segs/" + at.id.hex().substr(0, 2) + "/" + at.id.hex() + ".seg at " +
         std::to_string(at.offset) + ": " + why;
}
}  // namespace

bool StoreImpl::has(const BlockKey& key) {
  Lock lock(read_mutex_);
  if (!bad_.empty() && bad_.count(key) != 0) return false;
  auto at = reader_.nodes.find(key);
  return at.is_ok() && at->has_value();
}

std::vector<bool> StoreImpl::has(std::span<const NodeIn> chain) {
  std::vector<bool> flags(chain.size());
  Lock lock(read_mutex_);
  auto there = reader_.nodes.find_chain(chain);
  if (!there.is_ok()) return flags;
  for (size_t i = 0; i < there->ids.size(); i++) flags[i] = there->has_chunk[i] && bad_.count(chain[i].key) == 0;
  return flags;
}

ChunkState StoreImpl::read(const NodeIn& node, uint32_t layout, std::span<uint8_t> out, std::string* damage) {
  const BlockKey& key = node.key;
  for (;;) {
    ChunkLocation at;
    {
      Lock lock(read_mutex_);
      if (!bad_.empty() && bad_.count(key) != 0) return ChunkState::kAbsent;
      auto found = reader_.nodes.find(key);
      if (!found.is_ok()) {
        if (damage != nullptr) *damage = found.status().message();
        return ChunkState::kAbsent;
      }
      if (!found->has_value()) return ChunkState::kAbsent;
      at = **found;
    }
    CodecPool::Lease codec(&codecs_);
    auto file = files_.open(at.id);
    auto frame = file.is_ok() ? read_frame(**file, at.offset, at.bytes, codec->read_buffer()) : file.take_status();
    Status status = frame.is_ok() ? codec->decode(*frame, node, 0, layout, out) : frame.take_status();
    if (status.is_ok()) return ChunkState::kOk;
    std::optional<ChunkState> lost = lose(key, at, status, damage);
    if (lost) return *lost;
  }
}

// The state of a chunk that could not be read; none: it lies elsewhere by now. A damaged chunk is forgotten, so that the next save writes
// it again. A lack of descriptors or memory is not damage.
std::optional<ChunkState> StoreImpl::lose(const BlockKey& key, const ChunkLocation& at, const Status& why, std::string* damage) {
  // Nor is a frame that a newer kvrt wrote: it is a hole for this one alone.
  bool passing = why.code() == Code::kIncompatible || is_want(why) || why.detail() == Detail::kPermission;
  const std::string text = lost_text(key, at, why.message());
  if (damage != nullptr) *damage = text;
  if (passing) return ChunkState::kAbsent;
  const bool missing = why.code() == Code::kNotFound;
  if (missing) files_.forget(at.id);
  std::optional<ChunkState> lost;
  if (mutex_.try_lock()) {
    Lock lock(mutex_, std::adopt_lock);
    lost = forget_locked(key, at, missing);
  } else {  // a reader waits for no writer's disk
    lost = note_bad(key, at);
  }
  if (lost == ChunkState::kDamaged) logf(log_, LogLevel::kWarn, "store: %s", text.c_str());
  return lost;
}

// Forgets a damaged chunk, or with `missing` all of its segment, in the catalog; where that cannot be written, in memory alone.
std::optional<ChunkState> StoreImpl::forget_locked(const BlockKey& key, const ChunkLocation& at, bool missing) {
  const Impatient at_once = catalog_.db.impatient();
  auto now = catalog_.nodes.find(key);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;  // removed while we read
  // The segment is compared by name: a later one may have its row number.
  if (now.is_ok() && (*now)->id != at.id) return std::nullopt;
  if (!check_writable_locked().is_ok()) return note_bad(key, at);
  (void)catalog_.db.set_durability(Durability::kProcess).is_ok();  // a power cut only brings it back, to be found again
  auto forgotten = missing ? catalog_.nodes.forget_segment(at.id) : catalog_.nodes.forget_chunk(key, at.id);
  if (!forgotten.is_ok()) return note_bad(key, at);
  damaged_ += *forgotten;
  return ChunkState::kDamaged;
}

// Remembers a damaged chunk until a save brings it.
std::optional<ChunkState> StoreImpl::note_bad(const BlockKey& key, const ChunkLocation& at) {
  Lock reading(read_mutex_);
  auto now = reader_.nodes.find(key);
  if (now.is_ok() && !now->has_value()) return ChunkState::kAbsent;
  if (now.is_ok() && (*now)->id != at.id) return std::nullopt;
  if (bad_.insert(key).second) damaged_++;
  return ChunkState::kDamaged;
}

uint64_t StoreImpl::discard(std::span<const NodeIn> chain, const std::string& why) {
  const std::vector<bool> there = has(chain);
  uint64_t count = 0;
  for (size_t i = 0; i < chain.size(); i++) {
    if (!there[i]) continue;
    Lock lock(mutex_);
    auto found = catalog_.nodes.find(chain[i].key);
    if (!found.is_ok() || !found->has_value()) continue;
    if (forget_locked(chain[i].key, **found, false) != ChunkState::kDamaged) continue;
    logf(log_, LogLevel::kWarn, "store: %s", lost_text(chain[i].key, **found, why).c_str());
    count++;
  }
  return count;
}

std::vector<uint64_t> StoreImpl::chunk_bytes(std::span<const BlockKey> keys) {
  std::vector<uint64_t> bytes(keys.size());
  Lock lock(read_mutex_);
  for (size_t i = 0; i < keys.size(); i++) {
    if (!bad_.empty() && bad_.count(keys[i]) != 0) continue;
    auto at = reader_.nodes.find(keys[i]);
    if (at.is_ok() && at->has_value()) bytes[i] = (*at)->bytes;
  }
  return bytes;
}

}  // namespace kvrt
