#include "storage/store/verify.h"

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {

std::string place(const SegmentId& id, uint64_t offset) {
  return "segs/" + id.hex().substr(0, 2) + "/" + id.hex() + ".seg at " + std::to_string(offset);
}
std::string named(const BlockKey& key) { return "chunk " + key.hex().substr(0, 16); }

// What differs between a row and the frame that it points to, "" if nothing.
std::string compare(const Catalog::ChunkRow& row, const FrameHeader& frame) {
  if (frame.key != row.key) return "holds another chunk (" + frame.key.hex().substr(0, 16) + ")";
  if (row.parent && frame.parent != *row.parent) return "has another parent than the catalog";
  if (frame.tokens != row.tokens) return "has other tokens than the catalog";
  if (frame.raw_bytes != row.raw_bytes) return "holds another size than the catalog";
  return "";
}

}  // namespace

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

Status verify_segments(Env* env, const std::string& root, Codec* codec, std::span<const Catalog::SegmentRow> segments,
                       std::span<const Catalog::ChunkRow> chunks, const std::function<bool(const Catalog::ChunkRow&)>& still_there,
                       const std::function<bool(uint64_t done, uint64_t total)>& progress, std::vector<VerifyFault>* faults) {
  std::unordered_map<int64_t, std::vector<const Catalog::ChunkRow*>> rows;  // by segment
  uint64_t total = 0, done = 0;
  for (const auto& chunk : chunks) rows[chunk.segment].push_back(&chunk);
  for (const auto& segment : segments) total += segment.bytes;
  auto report = [&](const SegmentId& id, uint64_t offset, const std::string& what, const Catalog::ChunkRow* row) {
    if (row != nullptr && !still_there(*row)) return;  // removed since the rows were read
    faults->push_back({place(id, offset), what, row != nullptr ? row->session : ""});
  };
  ReadBuffer buffer;
  for (const auto& segment : segments) {
    auto& users = rows[segment.row];
    auto file = env->open_read(segment.id.path(root));
    if (is_want(file.status())) return file.take_status();
    if (!file.is_ok()) {
      for (auto* row : users) report(segment.id, row->offset, named(row->key) + ": " + file.status().message(), row);
      continue;
    }
    auto index = read_segment_index(**file, segment.id);
    if (is_want(index.status())) return index.take_status();
    if (!index.is_ok()) report(segment.id, 0, index.status().message(), users.empty() ? nullptr : users.front());
    // A frame that no row names is removed: dead, punched, or half punched.
    for (auto* row : users) {
      FrameHeader header;
      auto frame = read_frame(**file, row->offset, row->bytes, &buffer);
      Status status = frame.is_ok() ? codec->check(*frame, &header) : frame.take_status();
      if (is_want(status)) return status;
      std::string what = !status.is_ok() ? status.message() : compare(*row, header);
      if (!what.empty()) report(segment.id, row->offset, named(row->key) + ": " + what, row);
      done += row->bytes;
      if (progress && !progress(std::min(done, total), total)) return error(Code::kCancelled, Detail::kNone, "verify was stopped");
    }
  }
  if (progress) (void)progress(total, total);
  return {};
}

}  // namespace kvrt
