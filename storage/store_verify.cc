#include "storage/store_verify.h"

#include <algorithm>
#include <map>
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
  if (frame.parent != row.parent) return "has another parent than the catalog";
  if (frame.tokens != row.tokens) return "has other tokens than the catalog";
  if (frame.raw_bytes != row.raw_bytes) return "holds another size than the catalog";
  return "";
}

}  // namespace

Status read_frame(const File& file, uint64_t offset, uint64_t bytes, std::vector<uint8_t>* out) {
  KVRT_ASSIGN(uint64_t size, file.size());
  if (bytes > kChunkBytesMax + (1u << 20) || offset > size || bytes > size - offset) {
    return error(Code::kCorrupt, Detail::kFormat, "%llu bytes wanted at %llu, the file has %llu", static_cast<unsigned long long>(bytes),
                 static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size));
  }
  out->resize(static_cast<size_t>(bytes));
  return file.pread(offset, *out);
}

Status verify_segments(Env* env, const std::string& root, Codec* codec, std::span<const Catalog::SegmentRow> segments,
                       std::span<const Catalog::ChunkRow> chunks, const std::function<bool(const Catalog::ChunkRow&)>& still_there,
                       const std::function<bool(uint64_t done, uint64_t total)>& progress, std::vector<VerifyFault>* faults) {
  std::unordered_map<int64_t, std::map<uint64_t, const Catalog::ChunkRow*>> rows;  // segment -> offset -> row
  uint64_t total = 0, done = 0;
  for (const auto& chunk : chunks) rows[chunk.segment][chunk.offset] = &chunk;
  for (const auto& segment : segments) total += segment.bytes;
  auto report = [&](const SegmentId& id, uint64_t offset, const std::string& what, const Catalog::ChunkRow* row) {
    if (row != nullptr && !still_there(*row)) return;  // removed since the rows were read
    faults->push_back({place(id, offset), what, row != nullptr ? row->session : ""});
  };
  std::vector<uint8_t> buffer;
  for (const auto& segment : segments) {
    auto& expected = rows[segment.row];
    auto file = env->open_read(segment.id.path(root));
    if (!file.is_ok()) {
      for (auto& [offset, row] : expected) report(segment.id, offset, named(row->key) + ": " + file.status().message(), row);
      continue;
    }
    std::vector<SegmentEntry> entries;
    auto index = read_segment_index(**file, segment.id);
    if (index.is_ok()) {
      entries = std::move(*index);
    } else {
      report(segment.id, 0, index.status().message(), expected.empty() ? nullptr : expected.begin()->second);
    }
    for (auto& [offset, row] : expected) {  // the catalog is what is read by; the index only adds frames that nobody uses
      bool listed = std::any_of(entries.begin(), entries.end(), [o = offset](const SegmentEntry& e) { return e.offset == o; });
      if (!listed) entries.push_back({row->key, offset, row->bytes});
    }
    for (const SegmentEntry& e : entries) {
      auto found = expected.find(e.offset);
      const Catalog::ChunkRow* row = found == expected.end() ? nullptr : found->second;
      FrameHeader header;
      Status status = read_frame(**file, e.offset, row != nullptr ? row->bytes : e.bytes, &buffer);
      if (status.is_ok()) status = codec->check(buffer, &header);
      std::string what = !status.is_ok() ? status.message() : row != nullptr ? compare(*row, header) : "";
      if (!what.empty()) report(segment.id, e.offset, named(row != nullptr ? row->key : e.key) + ": " + what, row);
      done += e.bytes;
      if (progress && !progress(std::min(done, total), total)) return error(Code::kCancelled, Detail::kNone, "verify was stopped");
    }
  }
  if (progress) (void)progress(total, total);
  return {};
}

}  // namespace kvrt
