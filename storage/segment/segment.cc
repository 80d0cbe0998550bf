#include "storage/segment/segment.h"

#include <algorithm>
#include <cerrno>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr int kNamesMax = 10;

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

constexpr size_t kStoreTagAt = 24;

enum class Owner { kOurs, kFlipped, kForeign };

// Two stores' tags differ in many bits. 0.1 wrote none.
Owner owner_of(uint64_t tag, const StoreId& store) {
  if (tag == store.tag() || tag == 0) return Owner::kOurs;
  return std::popcount(tag ^ store.tag()) == 1 || std::popcount(tag) == 1 ? Owner::kFlipped : Owner::kForeign;
}

Status another_store() { return error(Code::kIncompatible, Detail::kFormat, "a segment of another store"); }
}  // namespace

std::string SegmentId::hex() const { return to_hex(bytes); }

std::string SegmentId::dir(const std::string& root) const { return root + "/segs/" + hex().substr(0, 2); }
std::string SegmentId::path(const std::string& root) const { return root + "/" + shown(); }
std::string SegmentId::shown() const { return "segs/" + hex().substr(0, 2) + "/" + hex() + ".seg"; }

bool parse_segment_name(const std::string& name, SegmentId* out) {
  if (name.size() != 36 || name.compare(32, 4, ".seg") != 0) return false;
  for (size_t i = 0; i < 16; i++) {
    int high = hex_digit(name[2 * i]), low = hex_digit(name[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out->bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

Result<std::unique_ptr<SegmentWriter>> SegmentWriter::create(Env* env, const std::string& root, const StoreId& store) {
  std::unique_ptr<SegmentWriter> writer(new SegmentWriter(env, root));
  for (int tries = 1; writer->file_ == nullptr; tries++) {
    env->random(writer->id_.bytes);
    writer->tmp_path_ = root + "/tmp/" + writer->id_.hex() + ".seg";
    auto file = env->create_new(writer->tmp_path_);  // locked: see remove_orphans
    if (file.status().code() == Code::kNotFound) {   // somebody removed tmp/
      KVRT_TRY(env->make_dir(root + "/tmp"));
      file = env->create_new(writer->tmp_path_);
    }
    if (file.status().code() == Code::kBusy && tries < kNamesMax) continue;  // a collector had its lock first, and removes it
    KVRT_ASSIGN(writer->file_, std::move(file));
  }
  ByteWriter header;
  header.write(kSegmentMagic);
  header.write(kSegmentVersion);
  header.write(uint16_t{0});
  header.write_bytes(writer->id_.bytes.data(), writer->id_.bytes.size());
  header.write(store.tag());
  KVRT_TRY(writer->file_->append(header.bytes()));
  writer->bytes_ = kSegmentHeaderBytes;
  return writer;
}

SegmentWriter::~SegmentWriter() { (void)discard(); }

bool SegmentWriter::discard() noexcept {
  if (std::exchange(kept_, true) || tmp_path_.empty()) return true;
  try {
    return env_->remove_file(published_ ? id_.path(root_) : tmp_path_).is_ok();
  } catch (...) {  // no memory
    return false;
  }
}

Status SegmentWriter::append(const BlockKey& key, std::span<const uint8_t> frame) {
  if (entries_.size() >= kSegmentChunksMax) {
    return error(Code::kLimit, Detail::kNone, "a segment has at most %u chunks (kSegmentChunksMax)", kSegmentChunksMax);
  }
  entries_.push_back({key, bytes_, frame.size()});  // first: there may be no memory for it, and the frame would be in the file
  Status written = file_->append(frame);
  if (written.is_ok()) {
    bytes_ += frame.size();
  } else {
    entries_.pop_back();
  }
  return written;
}

Status SegmentWriter::cut(uint64_t bytes) {
  KVRT_TRY(file_->resize(bytes));
  bytes_ = bytes;
  while (!entries_.empty() && entries_.back().offset >= bytes) entries_.pop_back();
  return {};
}

Status SegmentWriter::seal(bool sync) {
  KVRT_ASSIGN(bytes_, seal_at(bytes_, entries_));
  return sync ? file_->sync() : Status();
}

Result<uint64_t> SegmentWriter::seal_at(uint64_t frames_end, std::span<const SegmentEntry> index) const {
  return write_footer(file_.get(), frames_end, index);
}

Status SegmentWriter::publish(bool sync) {
  Status made = env_->make_dir(id_.dir(root_));
  if (made.code() == Code::kNotFound) {  // somebody removed segs/
    KVRT_TRY(env_->make_dir(root_ + "/segs"));
    made = env_->make_dir(id_.dir(root_));
  }
  KVRT_TRY(std::move(made));
  KVRT_TRY(env_->rename_new(tmp_path_, id_.path(root_)));
  published_ = true;
  return sync ? sync_name() : Status();
}

Status SegmentWriter::sync_name() {
  KVRT_TRY(env_->sync_dir(id_.dir(root_)));
  return env_->sync_dir(root_ + "/segs");
}

Result<uint64_t> segment_store_tag(const File& file) {
  std::array<uint8_t, kSegmentHeaderBytes> head;
  Status read = file.pread(0, head);
  if (read.code() == Code::kCorrupt) return uint64_t{0};  // it is shorter, or was emptied since it was opened
  KVRT_TRY(std::move(read));
  const bool known = load<uint32_t>(head.data()) == kSegmentMagic && load<uint16_t>(head.data() + 4) == kSegmentVersion &&
                     load<uint16_t>(head.data() + 6) == 0;
  return known ? load<uint64_t>(head.data() + kStoreTagAt) : uint64_t{0};
}

Result<bool> is_foreign_segment(const File& file, const StoreId& store) {
  KVRT_ASSIGN(const uint64_t tag, segment_store_tag(file));
  return owner_of(tag, store) == Owner::kForeign;
}

Result<uint64_t> write_footer(File* file, uint64_t frames_end, std::span<const SegmentEntry> index) {
  ByteWriter footer;
  for (const SegmentEntry& e : index) {
    footer.write_bytes(e.key.bytes.data(), e.key.bytes.size());
    footer.write(e.offset);
    footer.write(e.bytes);
  }
  footer.write(kFooterMagic);
  footer.write(static_cast<uint32_t>(index.size()));
  footer.write(frames_end);
  const uint64_t file_bytes = frames_end + footer.bytes().size() + 24;
  footer.write(file_bytes);
  Checksum128 sum = checksum128(footer.bytes());
  footer.write(sum.low);
  footer.write(sum.high);
  KVRT_ASSIGN(const uint64_t size, file->size());
  if (size != frames_end) KVRT_TRY(file->resize(frames_end));
  Status written = file->append(footer.bytes());
  if (written.is_ok()) return file_bytes;
  (void)file->resize(frames_end).is_ok();
  return written;
}

namespace {

// CORRUPT or INCOMPATIBLE unless it is the header of this segment, of this store.
Status check_segment_header(std::span<const uint8_t, kSegmentHeaderBytes> head, const SegmentId& id, const StoreId& store) {
  const auto magic = load<uint32_t>(head.data());
  const auto version = load<uint16_t>(head.data() + 4), flags = load<uint16_t>(head.data() + 6);
  if (magic != kSegmentMagic || version == 0) {
    return error(Code::kCorrupt, Detail::kFormat, "no segment (magic %08x, version %u)", magic, version);
  }
  if (version > kSegmentVersion || flags != 0) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "segment version %u, flags %04x of a newer kvrt, this one knows version %u",
                 version, flags, kSegmentVersion);
  }
  if (std::memcmp(head.data() + 8, id.bytes.data(), 16) != 0) return error(Code::kCorrupt, Detail::kFormat, "another segment's file");
  const Owner owner = owner_of(load<uint64_t>(head.data() + kStoreTagAt), store);
  if (owner == Owner::kForeign) return another_store();
  if (owner == Owner::kFlipped) return error(Code::kCorrupt, Detail::kFormat, "a bit of the store's uuid in its header has flipped");
  return {};
}

}  // namespace

Result<std::vector<SegmentEntry>> read_segment_index(const File& file, const SegmentId& id, const StoreId& store) {
  KVRT_ASSIGN(uint64_t size, file.size());
  if (size < kSegmentHeaderBytes + kSegmentTrailerBytes) {
    return error(Code::kCorrupt, Detail::kFormat, "segment of %llu bytes, the smallest has %zu", static_cast<unsigned long long>(size),
                 kSegmentHeaderBytes + kSegmentTrailerBytes);
  }
  std::array<uint8_t, kSegmentHeaderBytes> head;
  std::array<uint8_t, kSegmentTrailerBytes> tail;
  KVRT_TRY(file.pread(0, head));
  KVRT_TRY(file.pread(size - tail.size(), tail));
  KVRT_TRY(check_segment_header(head, id, store));
  const auto tail_magic = load<uint32_t>(tail.data()), count = load<uint32_t>(tail.data() + 4);
  const auto index_offset = load<uint64_t>(tail.data() + 8), file_bytes = load<uint64_t>(tail.data() + 16);
  if (tail_magic != kFooterMagic || file_bytes != size || count > kSegmentChunksMax || index_offset > size ||
      size - index_offset != uint64_t{count} * kSegmentEntryBytes + kSegmentTrailerBytes) {
    return error(Code::kCorrupt, Detail::kFormat, "no footer: the file is cut or overwritten (%llu bytes)",
                 static_cast<unsigned long long>(size));
  }
  std::vector<uint8_t> footer(static_cast<size_t>(size - index_offset));
  KVRT_TRY(file.pread(index_offset, footer));
  size_t body = footer.size() - 16;
  Checksum128 sum;
  std::memcpy(&sum.low, footer.data() + body, 8);
  std::memcpy(&sum.high, footer.data() + body + 8, 8);
  if (checksum128({footer.data(), body}) != sum) return error(Code::kCorrupt, Detail::kFormat, "footer: checksum differs");
  std::vector<SegmentEntry> entries(count);
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t* p = footer.data() + size_t{i} * kSegmentEntryBytes;
    std::memcpy(entries[i].key.bytes.data(), p, 32);
    std::memcpy(&entries[i].offset, p + 32, 8);
    std::memcpy(&entries[i].bytes, p + 40, 8);
    if (entries[i].offset > index_offset || entries[i].bytes > index_offset - entries[i].offset) {
      return error(Code::kCorrupt, Detail::kFormat, "footer: entry %u ends outside the segment", i);
    }
  }
  return entries;
}

Result<std::shared_ptr<File>> SegmentCache::open(const SegmentId& id, uint64_t end) {
  {
    Lock lock(mutex_);
    auto found = slots_.find(id);
    if (found != slots_.end() && found->second->bytes < end) {
      recent_.erase(found->second);
      slots_.erase(found);
    } else if (found != slots_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second);
      return found->second->file;
    }
  }
  KVRT_ASSIGN(std::unique_ptr<File> opened, env_->open_read(id.path(root_)));
  KVRT_ASSIGN(const bool foreign, is_foreign_segment(*opened, store_));
  if (foreign) return another_store();
  std::shared_ptr<File> file = std::move(opened);
  KVRT_ASSIGN(const uint64_t bytes, file->size());
  Lock lock(mutex_);
  if (slots_.count(id) != 0) return file;  // another thread was faster
  std::list<Slot> slot;                    // becomes a part of recent_ once nothing can fail any more
  slot.push_front({id, file, bytes});
  slots_[id] = slot.begin();
  recent_.splice(recent_.begin(), slot);
  if (recent_.size() > files_max_) {
    slots_.erase(recent_.back().id);
    recent_.pop_back();
  }
  return file;
}

void SegmentCache::forget(const SegmentId& id) {
  Lock lock(mutex_);
  auto found = slots_.find(id);
  if (found == slots_.end()) return;
  recent_.erase(found->second);
  slots_.erase(found);
}

bool is_want(const Status& status) {
  return status.code() == Code::kNoMemory || (status.code() == Code::kIo && (status.os_code() == EMFILE || status.os_code() == ENFILE));
}

Result<std::span<const uint8_t>> read_frame(const File& file, uint64_t offset, uint64_t bytes, ReadBuffer* buffer) {
  KVRT_ASSIGN(uint64_t size, file.size());
  if (bytes > kChunkBytesMax + (1u << 20) || offset > size || bytes > size - offset) {
    return error(Code::kCorrupt, Detail::kFormat, "%llu bytes wanted at %llu, the file has %llu", static_cast<unsigned long long>(bytes),
                 static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size));
  }
  return file.read(offset, static_cast<size_t>(bytes), buffer);
}

}  // namespace kvrt
