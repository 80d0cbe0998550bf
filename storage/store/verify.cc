// StoreImpl::verify: reads every byte of a store, and checks segments against themselves and against the catalog.
#include <algorithm>
#include <unordered_map>

#include "storage/catalog/rows.h"
#include "storage/store/store_impl.h"

namespace kvrt {

namespace {

std::string place(const SegmentId& id, uint64_t offset) { return id.shown() + " at " + std::to_string(offset); }

// The difference between a row and the frame that it points to; "" if there is none.
std::string compare(const ChunkRow& row, const FrameHeader& frame) {
  const ChunkKey& chunk = row.place.chunk;
  if (frame.key != chunk.node) return "holds another chunk (" + frame.key.hex().substr(0, 16) + ")";
  if (frame.group != chunk.group) {
    return "holds number " + std::to_string(frame.group) + ", number " + std::to_string(chunk.group) + " in the catalog";
  }
  if (row.parent && frame.parent != *row.parent) return "has another parent than the catalog";
  if (frame.tokens != row.tokens || frame.items != row.items) return "has other tokens or items than the catalog";
  if (frame.raw_bytes != row.place.raw_bytes) return "holds another size than the catalog";
  return "";
}

Status stopped() { return error(Code::kCancelled, Detail::kNone, "verify was stopped"); }

// Checks segments, and the frames that rows name. Appends a fault per bad segment, bad frame, or row that does not fit its frame.
class SegmentsCheck {
 public:
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;
  SegmentsCheck(StoreContext* store, std::function<bool(const ChunkRow&)> still_there, const Progress& progress,
                std::vector<VerifyFault>* faults)
      : store_(store), still_there_(std::move(still_there)), progress_(progress), faults_(faults), codec_(&store->codecs) {}

  // CANCELLED if progress returns false; another error where the memory or the descriptors are wanting.
  Status run(std::span<const SegmentRow> segments, std::span<const ChunkRow> chunks) {
    std::unordered_map<int64_t, std::vector<const ChunkRow*>> rows;  // by segment
    for (const auto& chunk : chunks) rows[chunk.segment].push_back(&chunk);
    for (const auto& segment : segments) total_ += segment.bytes;
    for (const auto& segment : segments) KVRT_TRY(check_segment(segment, rows[segment.row]));
    return progress_ && !progress_(total_, total_) ? stopped() : Status();
  }

 private:
  Status check_segment(const SegmentRow& segment, std::span<const ChunkRow* const> users) {
    auto file = store_->env->open_read(segment.id.path(store_->dir.root));
    if (is_want(file.status())) return file.take_status();
    if (!file.is_ok()) {
      for (auto* row : users) report(segment.id, row->place.offset, row->place.chunk.shown() + ": " + file.status().message(), row);
      return {};
    }
    auto index = read_segment_index(**file, segment.id, store_->files.store());
    if (is_want(index.status())) return index.take_status();
    if (!index.is_ok() && segment.sealed) report(segment.id, 0, index.status().message(), users.empty() ? nullptr : users.front());
    KVRT_ASSIGN(const bool foreign, is_foreign_segment(**file, store_->files.store()));
    if (foreign) return {};  // its frames are nobody's
    // Only frames that a row names are read: any other is removed, and may be dead, punched or half punched.
    for (auto* row : users) KVRT_TRY(check_frame(**file, segment.id, *row));
    return {};
  }

  Status check_frame(const File& file, const SegmentId& segment, const ChunkRow& row) {
    FrameHeader header;
    const ChunkPlace& at = row.place;
    auto frame = read_frame(file, at.offset, at.bytes, &buffer_);
    Status status = frame.is_ok() ? codec_->check(*frame, &header) : frame.take_status();
    if (is_want(status)) return status;
    std::string what = !status.is_ok() ? status.message() : compare(row, header);
    if (!what.empty()) report(segment, at.offset, at.chunk.shown() + ": " + what, &row);
    done_ += at.bytes;
    return progress_ && !progress_(std::min(done_, total_), total_) ? stopped() : Status();
  }

  void report(const SegmentId& id, uint64_t offset, const std::string& what, const ChunkRow* row) {
    if (row != nullptr && !still_there_(*row)) return;  // removed since the rows were read
    faults_->push_back({place(id, offset), what, row != nullptr ? row->session : ""});
  }

  StoreContext* const store_;
  const std::function<bool(const ChunkRow&)> still_there_;
  const Progress& progress_;
  std::vector<VerifyFault>* const faults_;
  CodecPool::Lease codec_;
  ReadBuffer buffer_;
  uint64_t total_ = 0, done_ = 0;
};

}  // namespace

Result<std::vector<VerifyFault>> StoreImpl::verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                                   const SessionCheck& check) {
  std::vector<VerifyFault> faults;
  std::vector<ChunkRow> chunks;
  std::vector<SegmentRow> segments;
  {
    Lock lock(writer_.mutex);
    KVRT_TRY(writer_.catalog.db.check_in_place());  // else each of its segments would be missing
    Status checked = writer_.catalog.check(check, &faults, &chunks, &segments);
    if (checked.is_ok()) checked = writer_.catalog.models.check(&faults);
    if (checked.code() == Code::kCorrupt) {  // the damage is such that its tables cannot be read
      faults.push_back({"catalog", without_catalog(checked.message()), ""});
      return faults;
    }
    KVRT_TRY(checked.clone());
    if (store_.dir.read_only && !store_.dir.logged)
      faults.push_back({"catalog.db", "another program changed its journal mode, WAL: it can be read only", ""});
    if (!store_.dir.log_damage.empty()) faults.push_back({"catalog.db-wal", "when this store was opened: " + store_.dir.log_damage, ""});
    KVRT_ASSIGN(const FormatFile format, read_format(store_.env, store_.dir.root));
    if (format.kind != FormatFile::Kind::kSound && format.kind != FormatFile::Kind::kOld) {
      faults.push_back({"FORMAT", format.kind == FormatFile::Kind::kMissing ? "missing" : "damaged", ""});
    }
  }
  const auto there = [&](const ChunkRow& chunk) { return still_there(chunk, segments); };
  KVRT_TRY(SegmentsCheck(&store_, there, progress, &faults).run(segments, chunks));
  return faults;
}

// Whether its row is as it was when `segments` were read: another segment may have one's row number.
bool StoreImpl::still_there(const ChunkRow& chunk, std::span<const SegmentRow> segments) {
  Lock lock(writer_.mutex);
  auto at = writer_.catalog.chunks.find(chunk.place.chunk);
  const auto named = [&](const SegmentRow& row) { return row.row == chunk.segment && row.id == (*at)->segment; };
  return at.is_ok() && at->has_value() && (*at)->offset == chunk.place.offset && std::any_of(segments.begin(), segments.end(), named);
}

}  // namespace kvrt
