// StoreImpl::verify: reads every byte of a store, and checks segments against themselves and against the catalog.
#include <algorithm>
#include <unordered_map>

#include "storage/catalog/rows.h"
#include "storage/store/store_impl.h"

namespace kvrt {

namespace {

std::string place(const SegmentId& id, uint64_t offset) {
  return "segs/" + id.hex().substr(0, 2) + "/" + id.hex() + ".seg at " + std::to_string(offset);
}

// The difference between a row and the frame that it points to; "" if there is none.
std::string compare(const ChunkRow& row, const FrameHeader& frame) {
  const ChunkKey& chunk = row.place.chunk;
  if (frame.key != chunk.node) return "holds another chunk (" + frame.key.hex().substr(0, 16) + ")";
  if (frame.group != chunk.group) {
    return "holds group " + std::to_string(frame.group) + ", group " + std::to_string(chunk.group) + " in the catalog";
  }
  if (row.parent && frame.parent != *row.parent) return "has another parent than the catalog";
  if (frame.tokens != row.tokens) return "has other tokens than the catalog";
  if (frame.raw_bytes != row.place.raw_bytes) return "holds another size than the catalog";
  return "";
}

// Appends a fault per bad segment, bad frame, or row that does not fit its frame. CANCELLED if progress returns false.
Status verify_segments(Env* env, const std::string& root, const StoreId& store, Codec* codec, std::span<const SegmentRow> segments,
                       std::span<const ChunkRow> chunks, const std::function<bool(const ChunkRow&)>& still_there,
                       const std::function<bool(uint64_t done, uint64_t total)>& progress, std::vector<VerifyFault>* faults) {
  std::unordered_map<int64_t, std::vector<const ChunkRow*>> rows;  // by segment
  uint64_t total = 0, done = 0;
  for (const auto& chunk : chunks) rows[chunk.segment].push_back(&chunk);
  for (const auto& segment : segments) total += segment.bytes;
  auto report = [&](const SegmentId& id, uint64_t offset, const std::string& what, const ChunkRow* row) {
    if (row != nullptr && !still_there(*row)) return;  // removed since the rows were read
    faults->push_back({place(id, offset), what, row != nullptr ? row->session : ""});
  };
  ReadBuffer buffer;
  for (const auto& segment : segments) {
    auto& users = rows[segment.row];
    auto file = env->open_read(segment.id.path(root));
    if (is_want(file.status())) return file.take_status();
    if (!file.is_ok()) {
      for (auto* row : users) report(segment.id, row->place.offset, row->place.chunk.shown() + ": " + file.status().message(), row);
      continue;
    }
    auto index = read_segment_index(**file, segment.id, store);
    if (is_want(index.status())) return index.take_status();
    if (!index.is_ok() && segment.sealed) report(segment.id, 0, index.status().message(), users.empty() ? nullptr : users.front());
    KVRT_ASSIGN(const bool foreign, is_foreign_segment(**file, store));
    if (foreign) continue;  // its frames are nobody's
    // Only frames that a row names are read: any other is removed, and may be dead, punched or half punched.
    for (auto* row : users) {
      FrameHeader header;
      const ChunkPlace& at = row->place;
      auto frame = read_frame(**file, at.offset, at.bytes, &buffer);
      Status status = frame.is_ok() ? codec->check(*frame, &header) : frame.take_status();
      if (is_want(status)) return status;
      std::string what = !status.is_ok() ? status.message() : compare(*row, header);
      if (!what.empty()) report(segment.id, at.offset, at.chunk.shown() + ": " + what, row);
      done += at.bytes;
      if (progress && !progress(std::min(done, total), total)) return error(Code::kCancelled, Detail::kNone, "verify was stopped");
    }
  }
  if (progress && !progress(total, total)) return error(Code::kCancelled, Detail::kNone, "verify was stopped");
  return {};
}

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
  CodecPool::Lease codec(&store_.codecs);
  KVRT_TRY(verify_segments(store_.env, store_.dir.root, store_.files.store(), codec.get(), segments, chunks, there, progress, &faults));
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
