#include "storage/repair/scan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>

#include "runtime/base/bytes.h"
#include "storage/segment/codec.h"
#include "storage/store/orphans.h"

namespace kvrt {

namespace {

constexpr size_t kFrameGroupAt = 108;

bool is_damage(const Status& status) { return status.code() == Code::kCorrupt; }

class Scan {
 public:
  Scan(Env* env, std::string root, const StoreId& store, FoundSegments* out)
      : env_(env), root_(std::move(root)), store_(store), out_(out) {}

  Status list(const std::function<bool(const SegmentId&)>& wanted, const std::function<bool(const SegmentId&)>& open) {
    KVRT_ASSIGN(auto directories, segment_directories(env_, root_));
    for (const std::string& directory : directories) {
      if (directory == "tmp") continue;
      auto names = env_->list_dir(root_ + "/" + directory);
      KVRT_TRY(check_safe(names.status()));
      if (names.status().os_code() == ENOTDIR) {
        fault(directory, names.status().message());
        continue;
      }
      KVRT_TRY(names.status().clone());
      for (const std::string& name : *names) {
        SegmentId id;
        if (!parse_segment_name(name, &id)) continue;
        if (id.path(root_) != root_ + "/" + directory + "/" + name) {
          if (wanted(id)) fault(directory + "/" + name, "lies in another folder than its name says");
        } else {
          const bool is_wanted = wanted(id);
          KVRT_TRY(add(id, is_wanted, is_wanted && open(id)));
        }
      }
    }
    return {};
  }

  Status read_all(const std::function<bool(uint64_t done, uint64_t total)>& progress) {
    uint64_t done = 0, total = 0;
    for (const FoundSegment& s : out_->segments) total += s.bytes;
    for (size_t i = 0; i < out_->segments.size(); i++) {
      segment_ = i;
      KVRT_TRY(read(done, total, progress));
      done += out_->segments[i].bytes;
    }
    if (progress && !progress(total, total)) return cancelled();
    return {};
  }

 private:
  static Status cancelled() { return error(Code::kCancelled, Detail::kNone, "repair was stopped; nothing was changed"); }
  // A mode or an owner is no damage: what is in the file may be sound, and would be forgotten.
  static Status check_safe(const Status& status) {
    if (status.detail() != Detail::kUnsafeDirectory) return {};
    return error(Code::kInvalid, Detail::kUnsafeDirectory,
                 "%s: put that right (chmod 600 a file, 700 a directory; chown; one name), or move it away, and repair again; no chunk was "
                 "forgotten",
                 status.message().c_str());
  }
  FoundSegment& segment() { return out_->segments[segment_]; }

  void fault(const std::string& where, const std::string& what) { out_->faults.push_back(where + ": " + what); }
  void fault_at(uint64_t offset, const std::string& what) {
    segment().sound = false;
    fault(segment().id.shown() + " at " + std::to_string(offset), what);
  }

  Status add(const SegmentId& id, bool wanted, bool open) {
    auto file = env_->open_read(id.path(root_));
    if (wanted) KVRT_TRY(check_safe(file.status()));
    if (file.status().code() == Code::kInvalid || file.status().code() == Code::kNotFound) {
      if (wanted) fault(id.shown(), file.status().message());
      return {};
    }
    KVRT_TRY(file.status().clone());
    KVRT_ASSIGN(const bool foreign, is_foreign_segment(**file, store_));
    if (foreign) {
      fault(id.shown(), "a segment of another store");
      out_->foreign.push_back(id);
    }
    if (foreign || !wanted) return {};
    KVRT_ASSIGN(const uint64_t bytes, (*file)->size());
    out_->segments.push_back({id, bytes, open});
    return {};
  }

  Status read(uint64_t before, uint64_t total, const std::function<bool(uint64_t, uint64_t)>& progress) {
    KVRT_ASSIGN(file_, env_->open_read(segment().id.path(root_)));
    auto index = read_segment_index(*file_, segment().id, store_);
    if (!index.is_ok()) {
      if (!is_damage(index.status())) return index.take_status().annotate(segment().id.shown());
      if (!segment().open) fault_at(0, index.status().message());
      KVRT_ASSIGN(index, find_frames());
    }
    for (const SegmentEntry& e : *index) {
      KVRT_TRY(take(e));
      if (progress && !progress(before + e.offset, total)) return cancelled();
    }
    return {};
  }

  // Takes one frame, or notes a fault.
  Status take(const SegmentEntry& e) {
    FrameHeader header;
    auto frame = read_frame(*file_, e.offset, e.bytes, &buffer_);
    if (frame.is_ok() && std::all_of(frame->begin(), frame->end(), [](uint8_t byte) { return byte == 0; })) return {};  // removed
    const uint32_t group = frame.is_ok() && frame->size() >= kFrameHeaderBytes ? load<uint32_t>(&(*frame)[kFrameGroupAt]) : 0;
    Status status = frame.is_ok() ? codec_.check(*frame, &header) : frame.take_status();
    if (status.is_ok() && header.key != e.key) status = error(Code::kCorrupt, Detail::kFormat, "the frame has another key than the index");
    if (status.is_ok() && (header.tokens.empty() || chain_key(header.parent, header.tokens, header.items) != header.key)) {
      status = error(Code::kCorrupt, Detail::kFormat, "the key is not that of the parent, the tokens and the items");
    }
    if (status.is_ok()) {
      const ChunkPlace place{{header.key, header.group}, e.offset, e.bytes, header.raw_bytes};
      out_->frames.push_back({place, segment_, header.parent, std::move(header.tokens), std::move(header.items)});
      return {};
    }
    if (!is_damage(status)) return std::move(status).annotate(segment().id.shown() + " at " + std::to_string(e.offset));
    if (group < kChunkGroups) out_->bad.push_back({{e.key, group}, segment_, e.offset});
    fault_at(e.offset, "chunk " + e.key.hex().substr(0, 16) + ": " + status.message());
    return {};
  }

  // Finds frames without an index: from a frame it goes on where that one says it ends, from a broken one at the next magic number.
  Result<std::vector<SegmentEntry>> find_frames() {
    std::vector<SegmentEntry> found;
    const uint64_t size = segment().bytes;
    uint64_t at = kSegmentHeaderBytes, unread = 8 * size;  // bounds the cost of false magic numbers
    while (at + kFrameHeaderBytes <= size) {
      std::vector<uint8_t> head(kFrameHeaderBytes);
      KVRT_TRY(file_->pread(at, head));
      uint64_t bytes = 0;
      if (frame_bytes(head, size - at, &bytes) && bytes <= unread) {
        unread -= bytes;
        KVRT_ASSIGN(const auto frame, read_frame(*file_, at, bytes, &buffer_));
        auto header = parse_frame(frame);
        if (header.is_ok()) {
          found.push_back({header->key, at, bytes});
          at += bytes;
          continue;
        }
      }
      KVRT_ASSIGN(at, next_magic(at + 1));
    }
    return found;
  }

  static bool frame_bytes(std::span<const uint8_t> head, uint64_t rest, uint64_t* bytes) {
    if (load<uint32_t>(head.data()) != kFrameMagic) return false;
    const CheckedSize size = CheckedSize(kFrameHeaderBytes) + CheckedSize(load<uint32_t>(&head[104])) * 4 + load<uint64_t>(&head[80]) +
                             load<uint64_t>(&head[88]) + kChecksumBytes;
    return size.get(rest, bytes);
  }

  // The offset of the next frame's magic number from `at` on; the end of the file if there is none.
  Result<uint64_t> next_magic(uint64_t at) {
    constexpr uint64_t kWindow = 1u << 20;
    constexpr std::array<uint8_t, 4> kMagic{'K', 'V', 'R', 'C'};
    for (; at + kMagic.size() <= segment().bytes; at += kWindow - 3) {
      KVRT_ASSIGN(const auto window, file_->read(at, static_cast<size_t>(std::min(kWindow, segment().bytes - at)), &buffer_));
      auto hit = std::search(window.begin(), window.end(), kMagic.begin(), kMagic.end());
      if (hit != window.end()) return at + static_cast<uint64_t>(hit - window.begin());
    }
    return segment().bytes;
  }

  Env* env_;
  const std::string root_;
  const StoreId store_;
  FoundSegments* out_;
  size_t segment_ = 0;
  std::unique_ptr<File> file_;
  Codec codec_;
  ReadBuffer buffer_;
};

}  // namespace

Result<FoundSegments> scan_segments(Env* env, const std::string& root, const StoreId& store,
                                    const std::function<bool(const SegmentId&)>& wanted, const std::function<bool(const SegmentId&)>& open,
                                    const std::function<bool(uint64_t done, uint64_t total)>& progress) {
  FoundSegments found;
  Scan scan(env, root, store, &found);
  KVRT_TRY(scan.list(wanted, open));
  KVRT_TRY(scan.read_all(progress));
  return found;
}

Result<uint64_t> commonest_store(Env* env, const std::string& root) {
  std::map<uint64_t, uint64_t> counts;
  KVRT_ASSIGN(const auto directories, segment_directories(env, root));
  for (const std::string& directory : directories) {
    auto names = env->list_dir(root + "/" + directory);
    for (size_t i = 0; names.is_ok() && i < names->size(); i++) {
      SegmentId id;
      if (directory == "tmp" || !parse_segment_name((*names)[i], &id)) continue;
      auto file = env->open_read(id.path(root));
      if (!file.is_ok()) continue;
      KVRT_ASSIGN(const uint64_t tag, segment_store_tag(**file));
      if (tag != 0) counts[tag]++;
    }
  }
  const auto most = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

}  // namespace kvrt
