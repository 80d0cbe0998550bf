// Segments: files of frames, with an index at the end once they are sealed. Made under tmp/, then renamed into segs/.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "runtime/base/mutex.h"
#include "storage/values.h"

namespace kvrt {

inline constexpr uint32_t kSegmentMagic = 0x53'52'56'4Bu;  // "KVRS"
inline constexpr uint32_t kFooterMagic = 0x46'52'56'4Bu;   // "KVRF"
inline constexpr uint16_t kSegmentVersion = 1;
inline constexpr size_t kSegmentHeaderBytes = 32;
inline constexpr size_t kSegmentEntryBytes = 48;
inline constexpr size_t kSegmentTrailerBytes = 40;

struct SegmentId {
  std::array<uint8_t, 16> bytes{};
  bool operator==(const SegmentId&) const = default;
  std::string hex() const;
  std::string dir(const std::string& root) const;   // <root>/segs/<2hex>
  std::string path(const std::string& root) const;  // <root>/segs/<2hex>/<32hex>.seg
  std::string shown() const;                        // segs/<2hex>/<32hex>.seg
};
struct SegmentIdHasher {
  size_t operator()(const SegmentId& id) const {
    size_t v;
    std::memcpy(&v, id.bytes.data(), sizeof v);
    return v;
  }
};
// False unless `name` is <32 lower-case hex>.seg.
bool parse_segment_name(const std::string& name, SegmentId* out);

struct SegmentEntry {
  BlockKey key;  // the stored id
  uint64_t offset = 0, bytes = 0;
};

// A segment being written, by one thread. Its file stays open, and so locked, until the destructor. That removes the file, published or
// not, unless keep() was called.
class SegmentWriter {
 public:
  static Result<std::unique_ptr<SegmentWriter>> create(Env* env, const std::string& root, const StoreId& store);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  Status append(const BlockKey& key, std::span<const uint8_t> frame);
  Status cut(uint64_t bytes);  // takes the frames from there on away again
  Status sync() { return file_->sync(); }
  Status seal(bool sync);  // the footer, with all its frames
  // The footer with these frames, the last before `frames_end`. The bytes of the file; bytes() stays.
  Result<uint64_t> seal_at(uint64_t frames_end, std::span<const SegmentEntry> index) const;
  Status publish(bool sync);  // tmp/ -> segs/; with `sync` the directories reach the disk too
  Status sync_name();
  void keep() { kept_ = true; }  // the catalog names it
  // Removes the file, as the destructor does. False: it could not be removed.
  bool discard() noexcept;

  const SegmentId& id() const { return id_; }
  const std::vector<SegmentEntry>& entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }  // written, footer included once sealed

 private:
  SegmentWriter(Env* env, std::string root) : env_(env), root_(std::move(root)) {}

  Env* env_;
  std::string root_, tmp_path_;
  SegmentId id_;
  std::unique_ptr<File> file_;
  std::vector<SegmentEntry> entries_;
  uint64_t bytes_ = 0;
  bool published_ = false, kept_ = false;
};

// True if the file is a segment of another store: its header names neither this one nor, as those of 0.1, none. One bit beside that is
// damage.
Result<bool> is_foreign_segment(const File& file, const StoreId& store);
Result<uint64_t> segment_store_tag(const File& file);  // 0: the header names no store, or is none that is known

// Cuts the file at `frames_end`, and writes the footer there. The bytes of the file.
Result<uint64_t> write_footer(File* file, uint64_t frames_end, std::span<const SegmentEntry> index);

// The index of a segment whose header, footer and checksum are good, and whose entries all lie inside the file. CORRUPT otherwise;
// INCOMPATIBLE for a newer version, unknown flags, or another store.
Result<std::vector<SegmentEntry>> read_segment_index(const File& file, const SegmentId& id, const StoreId& store);

// True if a read failed for want of memory or descriptors in the process or the system, which proves nothing about the file.
bool is_want(const Status& status);

// Reads `bytes` of the file at `offset`, valid until the buffer's next use. CORRUPT, before it allocates, if the file does not have them.
Result<std::span<const uint8_t>> read_frame(const File& file, uint64_t offset, uint64_t bytes, ReadBuffer* buffer);

// Open segment files of one store, least recently used closed first. Thread-safe.
class SegmentCache {
 public:
  SegmentCache(Env* env, std::string root, size_t files_max) : env_(env), root_(std::move(root)), files_max_(files_max) {}
  void set_store(const StoreId& store) { store_ = store; }  // before the first open
  const StoreId& store() const { return store_; }
  // INCOMPATIBLE: of another store. A file that is shorter than `end`, as far as is known here, is opened again: an open file knows one size
  // for its direct reads.
  Result<std::shared_ptr<File>> open(const SegmentId& id, uint64_t end = 0);
  void forget(const SegmentId& id);

 private:
  struct Slot {
    SegmentId id;
    std::shared_ptr<File> file;
    uint64_t bytes;  // when it was opened
  };
  Env* env_;
  std::string root_;
  size_t files_max_;
  StoreId store_;
  Mutex mutex_;                                     // no other mutex of the store is taken under it
  std::list<Slot> recent_ KVRT_GUARDED_BY(mutex_);  // front: used last
  std::unordered_map<SegmentId, std::list<Slot>::iterator, SegmentIdHasher> slots_ KVRT_GUARDED_BY(mutex_);
};

}  // namespace kvrt
