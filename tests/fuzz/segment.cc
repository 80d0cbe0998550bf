// Any bytes as a frame and as a segment, with their checksums made right, so that later checks are reached: a Status or a chunk that
// survives being written again, and index entries that lie within the file.
#include <algorithm>
#include <cstring>

#include "runtime/base/block_items.h"
#include "storage/segment/codec.h"
#include "storage/segment/segment.h"
#include "tests/fuzz/require.h"

namespace {

using namespace kvrt;
using Bytes = std::vector<uint8_t>;

// Makes the last 16 bytes the checksum of those from `begin` on.
void seal(Bytes* bytes, size_t begin) {
  const size_t end = bytes->size() - kChecksumBytes;
  const Checksum128 sum = checksum128({bytes->data() + begin, end - begin});
  std::memcpy(bytes->data() + end, &sum.low, 8);
  std::memcpy(bytes->data() + end + 8, &sum.high, 8);
}

class MemoryFile final : public File {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  Status pread(uint64_t offset, std::span<uint8_t> out) const override {
    require(offset <= bytes_.size() && out.size() <= bytes_.size() - offset, "only bytes that are there are read");
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }
  Result<std::span<const uint8_t>> read(uint64_t offset, size_t bytes, ReadBuffer* buffer) const override {
    const std::span<uint8_t> out(buffer->reserve(bytes), bytes);
    KVRT_TRY(pread(offset, out));
    return std::span<const uint8_t>(out);
  }
  Result<bool> is_zero(uint64_t offset, uint64_t bytes) const override {
    require(offset <= bytes_.size() && bytes <= bytes_.size() - offset, "only bytes that are there are read");
    const auto part = bytes_.subspan(offset, bytes);
    return std::all_of(part.begin(), part.end(), [](uint8_t byte) { return byte == 0; });
  }
  Status append(std::span<const uint8_t>) override { return error(Code::kIo, Detail::kNone, "read only"); }
  Status resize(uint64_t) override { return error(Code::kIo, Detail::kNone, "read only"); }
  Status sync() override { return {}; }
  Result<uint64_t> size() const override { return uint64_t{bytes_.size()}; }
  Result<std::span<const uint8_t>> map() override { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

void try_frame(Bytes frame) {
  if (frame.size() >= kChecksumBytes) seal(&frame, 0);
  Codec codec;
  FrameHeader header;
  const Status checked = codec.check(frame, &header);
  if (!checked.is_ok()) return require(!checked.message().empty(), "a failure says why");
  require(header.tokens.size() == header.n_tokens && header.raw_bytes <= uint64_t{1} << 30, "sizes are sane");
  require(find_wrong_item(header.items, header.n_tokens) == nullptr, "the items are some of the block's");
  Bytes payload(header.raw_bytes), again(header.raw_bytes);
  const NodeIn node{header.key, header.parent, header.tokens, header.items};
  const auto decode = [&](const Bytes& of, const NodeIn& as, uint32_t group, Bytes* out, uint8_t item_tag_max = 255) {
    return codec.decode(of, as, group, header.layout, *out, item_tag_max);
  };
  require(decode(frame, node, header.group, &payload).is_ok(), "what was found good decodes");
  std::vector<int32_t> others = header.tokens;
  if (!others.empty()) others.back() ^= 1;
  require(others.empty() || !decode(frame, {header.key, header.parent, others, header.items}, header.group, &again).is_ok(),
          "other tokens are another chunk");
  Bytes items = header.items;
  append_item({0, 1, {}}, &items);
  require(!decode(frame, {header.key, header.parent, header.tokens, items}, header.group, &again).is_ok(), "other items are another chunk");
  require(header.items.empty() || decode(frame, node, header.group, &again, 0).code() == Code::kIncompatible, "an unknown tag is a hole");
  BlockKey stranger = header.parent;
  stranger.bytes[0] ^= 1;
  require(!decode(frame, {header.key, stranger, header.tokens, header.items}, header.group, &again).is_ok(),
          "another parent is another chunk");
  require(!decode(frame, node, header.group ^ 1, &again).is_ok(), "another group is another chunk");
  auto encoded = codec.encode({header.key, header.parent, header.tokens, header.layout, header.elem_bytes, payload, ChunkCodec::kDefault,
                               header.group, header.items});
  if (!encoded.is_ok()) return;  // limits of a writer are tighter
  const Bytes copy(encoded->begin(), encoded->end());
  require(decode(copy, node, header.group, &again).is_ok() && again == payload, "a chunk survives a rewrite");
}

void try_segment(Bytes file) {
  if (file.size() < kSegmentHeaderBytes + kSegmentTrailerBytes) return;
  uint64_t index;
  std::memcpy(&index, file.data() + file.size() - kSegmentTrailerBytes + 8, sizeof index);
  if (index <= file.size() - kSegmentTrailerBytes) seal(&file, index);
  SegmentId id;
  std::copy_n(file.begin() + 8, id.bytes.size(), id.bytes.begin());
  StoreId store;
  std::copy_n(file.begin() + 24, 8, store.bytes.begin());
  require(!is_foreign_segment(MemoryFile(file), store).value(), "the store that it names");
  auto entries = read_segment_index(MemoryFile(file), id, store);
  if (!entries.is_ok()) return require(!entries.status().message().empty(), "a failure says why");
  for (const SegmentEntry& entry : *entries) {
    require(entry.offset <= file.size() && entry.bytes <= file.size() - entry.offset, "an entry lies within the file");
    if (entry.bytes < 4096)
      try_frame(
          Bytes(file.begin() + static_cast<ptrdiff_t>(entry.offset), file.begin() + static_cast<ptrdiff_t>(entry.offset + entry.bytes)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_frame(Bytes(data, data + size));
  try_segment(Bytes(data, data + size));
  return 0;
}
