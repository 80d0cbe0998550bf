// The segments that a store's saves append to: one as a rule. A save's frames lie in one segment, and between them those of saves that run
// beside it. FORMAT.md, "Segment".
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "storage/segment/segment.h"

namespace kvrt {

inline constexpr uint64_t kOpenSegmentBytes = 64u << 20;  // past these a segment takes no more saves

// Thread-safe. The destructor closes the files, and removes those that no commit can have named.
class OpenSegments {
 private:
  struct Frames {
    uint64_t end = 0, count = 0;  // of the last of them
  };
  struct Segment {
    std::unique_ptr<SegmentWriter> writer;
    std::map<const void*, Frames> parts;  // of the saves that run, by Part
    Frames committed;                     // up to the row's `bytes`; 0: it has no row
    uint64_t synced = 0;                  // bytes
    bool published = false, named_on_disk = false;
    bool retired = false;  // takes no more saves
    bool taken = false;    // by whoever seals it
    bool unknown = false;  // a commit failed that may be on the disk
    Status torn;           // its file ends with a part of a frame, which could not be cut off
    Status failed;         // the sync that failed: nothing behind `synced` can be trusted
  };

  using Handle = std::shared_ptr<Segment>;

 public:
  OpenSegments(Env* env, std::string root) : env_(env), root_(std::move(root)) {}
  ~OpenSegments();
  OpenSegments(const OpenSegments&) = delete;
  OpenSegments& operator=(const OpenSegments&) = delete;

  void set_store(const StoreId& store) { store_ = store; }  // before the first save

  // The frames of one save, by one thread. The destructor gives them up, unless a commit may have named them.
  class Part {
   public:
    explicit Part(OpenSegments* all) : all_(all) {}
    ~Part() { give_up(); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    Result<uint64_t> append(const BlockKey& key, std::span<const uint8_t> frame);  // the frame's offset. A failed one leaves nothing
    // Gives the file its name; with `sync` file and name are on the disk. It comes before the commit.
    Status publish(bool sync);
    // What the commit is to write. An error: a sync failed, and the frames may be lost.
    struct Extent {
      SegmentId id;
      uint64_t bytes = 0, synced = 0;
      bool begun = false;  // it has a row
    };
    Result<Extent> extent() const;
    const SegmentId& id() const { return segment_->writer->id(); }
    enum class Outcome { kNamed, kUnknown };
    void committed(Outcome outcome) noexcept;
    void give_up() noexcept;  // its frames are cut off, or dead where those of others follow

   private:
    OpenSegments* const all_;
    Handle segment_;
  };

  // The bytes that no row counts yet: those of running saves, dead ones, and of each segment the footer to come.
  uint64_t uncounted_bytes();

  // Segments that take no more saves from now on.
  void retire(uint64_t from_bytes);  // those of so many bytes, or with very many frames
  void retire(const SegmentId& id);
  void fail(const SegmentId& id, const Status& why);  // a sync of it failed elsewhere
  std::vector<SegmentId> list();

  // A retired segment that no save uses, for its holder to seal. Unless it is dropped the destructor gives it back.
  class Taken {
   public:
    Taken(OpenSegments* all, Handle segment) noexcept : all_(all), segment_(std::move(segment)) {}
    Taken(Taken&&) noexcept = default;
    Taken& operator=(Taken&&) = delete;
    ~Taken();

    const SegmentId& id() const { return segment_->writer->id(); }
    uint64_t bytes() const { return segment_->writer->bytes(); }
    Result<uint64_t> seal(uint64_t frames_end, std::span<const SegmentEntry> index);  // the file's bytes
    Status sync() { return segment_->writer->sync(); }
    void drop();  // closes the file, and so lets its lock go. A file that no commit can have named is removed

   private:
    OpenSegments* const all_;
    Handle segment_;
  };

  std::vector<Taken> take_idle();
  std::optional<Taken> take(const SegmentId& id);  // none: a save uses it, or somebody else seals it

  // A file could not be removed.
  bool litter() const { return litter_; }

 private:
  Result<Handle> enter() KVRT_REQUIRES(mutex_);
  void leave(Segment* segment, const void* part) noexcept KVRT_REQUIRES(mutex_);
  bool discard(Segment* segment) noexcept;

  Env* const env_;
  const std::string root_;
  StoreId store_;
  std::atomic<bool> litter_{false};
  Mutex mutex_;  // held while a frame is written, not while a sync waits. No other mutex of the store is taken under it
  std::vector<Handle> segments_ KVRT_GUARDED_BY(mutex_);
};

}  // namespace kvrt
