#include "storage/segment/codec.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/base/block_items.h"
#include "runtime/base/bytes.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt {

namespace {

constexpr int kZstdLevel = 1;
constexpr int kWindowLogMax = 23;  // for a frame that is unpacked piece by piece; level 1 makes windows of 2^19
constexpr size_t kIdleCodecsMax = 16;

unsigned long long ull(uint64_t v) { return v; }

void store_checksum(const Checksum128& sum, uint8_t* to) {
  std::memcpy(to, &sum.low, 8);
  std::memcpy(to + 8, &sum.high, 8);
}

Checksum128 load_checksum(const uint8_t* from) {
  Checksum128 sum;
  std::memcpy(&sum.low, from, 8);
  std::memcpy(&sum.high, from + 8, 8);
  return sum;
}

template <typename T>
T load_at(std::span<const uint8_t> bytes, size_t at) {
  return kvrt::load<T>(bytes.data() + at);
}

BlockKey load_key(std::span<const uint8_t> bytes, size_t at) {
  BlockKey key;
  std::memcpy(key.bytes.data(), bytes.data() + at, key.bytes.size());
  return key;
}

bool known_width(uint32_t elem_bytes) { return elem_bytes == 1 || elem_bytes == 2 || elem_bytes == 4; }

Status check_lengths(const FrameHeader& h, uint64_t frame_bytes) {
  if (!known_width(h.elem_bytes)) return error(Code::kCorrupt, Detail::kFormat, "element width %u", h.elem_bytes);
  if (h.raw_bytes == 0 || h.raw_bytes > kChunkBytesMax || h.raw_bytes % h.elem_bytes != 0) {
    return error(Code::kCorrupt, Detail::kFormat, "payload of %llu bytes in elements of %u", ull(h.raw_bytes), h.elem_bytes);
  }
  bool plain = (h.flags & kFramePlain) != 0;
  uint64_t low = plain ? 0 : h.raw_bytes / h.elem_bytes * (h.elem_bytes - 1);
  uint64_t high = h.raw_bytes - low;
  bool packed = (h.flags & kFrameHighZstd) != 0;
  if (h.low_bytes != low || (packed ? h.high_bytes == 0 || h.high_bytes >= high : h.high_bytes != high)) {
    return error(Code::kCorrupt, Detail::kFormat, "planes of %llu and %llu bytes for a payload of %llu", ull(h.low_bytes),
                 ull(h.high_bytes), ull(h.raw_bytes));
  }
  if (packed && low == 0 && high / kPackRatioMax > h.high_bytes) {  // else the raw low plane bounds a frame's claim
    return error(Code::kCorrupt, Detail::kFormat, "a payload of %llu bytes from %llu, more than %llu times as many", ull(high),
                 ull(h.high_bytes), ull(kPackRatioMax));
  }
  uint64_t want = kFrameHeaderBytes + uint64_t{4} * h.n_words + h.low_bytes + h.high_bytes + kChecksumBytes;
  if (want != frame_bytes) {
    return error(Code::kCorrupt, Detail::kFormat, "frame of %llu bytes, its header says %llu", ull(frame_bytes), ull(want));
  }
  return {};
}

uint16_t version_of(uint32_t group, bool items) { return items ? kFrameVersion : group == 0 ? kFrameOfAllLayers : kFrameOfGroup; }

// For a frame whose checksum is right, so that its header can be believed: a newer kvrt wrote an unknown version, cipher, group or flag, and
// can read it. Where there is a cipher, the fields behind the stored id may be sealed: they tell nothing.
Status check_known(uint16_t version, uint8_t flags, uint8_t cipher, uint32_t group) {
  if (version > kFrameVersion) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "frame version %u of a newer kvrt, this one knows %u", version, kFrameVersion);
  }
  if (cipher != kNoCipher) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "frame with cipher %u of a newer kvrt, this one knows none", cipher);
  }
  if (version >= kFrameOfGroup && group >= kChunkGroups) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "frame of number %u of a newer kvrt, this one knows numbers below %u", group,
                 kChunkGroups);
  }
  if (version != version_of(group, version == kFrameVersion))
    return error(Code::kCorrupt, Detail::kFormat, "frame version %u with number %u", version, group);
  constexpr uint8_t kKnown = kFrameHighZstd | kFramePlain;
  if ((flags & ~kKnown) != 0) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "frame flags %02x of a newer kvrt, this one knows %02x", flags, kKnown);
  }
  if (flags == kKnown) return error(Code::kCorrupt, Detail::kFormat, "frame flags %02x, of which one excludes the other", flags);
  return {};
}

// What lies between header and planes, whose length check_lengths found right: tokens, and of a frame with items their count before them and
// the items behind them.
Status parse_words(std::span<const uint8_t> words, bool with_items, FrameHeader* h) {
  h->n_tokens = h->n_words;
  std::span<const uint8_t> items;
  if (with_items) {
    h->n_tokens = h->n_words != 0 ? load_at<uint32_t>(words, 0) : 0;
    if (h->n_words == 0 || h->n_tokens >= h->n_words - 1) {
      return error(Code::kCorrupt, Detail::kFormat, "%u tokens and items in %u words", h->n_tokens, h->n_words);
    }
    words = words.subspan(4);
    items = words.subspan(size_t{4} * h->n_tokens);
    const char* wrong = find_wrong_item(items, h->n_tokens);
    if (wrong != nullptr) return error(Code::kCorrupt, Detail::kFormat, "%s", wrong);
  }
  h->tokens.resize(h->n_tokens);
  std::memcpy(h->tokens.data(), words.data(), size_t{4} * h->n_tokens);
  h->items.assign(items.begin(), items.end());
  return {};
}

template <size_t width>
void split(const uint8_t* __restrict in, size_t elements, uint8_t* __restrict low, uint8_t* __restrict high) {
  for (size_t i = 0; i < elements; i++) {
    for (size_t p = 0; p + 1 < width; p++) low[p * elements + i] = in[width * i + p];
    high[i] = in[width * i + width - 1];
  }
}

template <size_t width>
void merge(const uint8_t* __restrict low, const uint8_t* __restrict high, size_t elements, uint8_t* __restrict out) {
  for (size_t i = 0; i < elements; i++) {
    for (size_t p = 0; p + 1 < width; p++) out[width * i + p] = low[p * elements + i];
    out[width * i + width - 1] = high[i];
  }
}

// Checks that `packed` is exactly one zstd frame with that much content.
Status check_packed(std::span<const uint8_t> packed, uint64_t content_bytes) {
  unsigned long long content = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (content != content_bytes) return error(Code::kCorrupt, Detail::kFormat, "zstd frame does not declare %llu bytes", ull(content_bytes));
  size_t frame = ZSTD_findFrameCompressedSize(packed.data(), packed.size());
  if (ZSTD_isError(frame) || frame != packed.size()) return error(Code::kCorrupt, Detail::kFormat, "not exactly one zstd frame");
  if (ZSTD_getDictID_fromFrame(packed.data(), packed.size()) != 0) return error(Code::kCorrupt, Detail::kFormat, "zstd dictionary");
  return {};
}

// Fills `out` exactly. A single pass into a buffer of the right size never allocates a window, so a frame that claims more than it should
// costs nothing.
Status inflate(ZSTD_DCtx* dctx, std::span<const uint8_t> packed, std::span<uint8_t> out) {
  KVRT_TRY(check_packed(packed, out.size()));
  size_t n = ZSTD_decompressDCtx(dctx, out.data(), out.size(), packed.data(), packed.size());
  if (ZSTD_isError(n)) return error(Code::kCorrupt, Detail::kFormat, "zstd: %s", ZSTD_getErrorName(n));
  if (n != out.size()) return error(Code::kCorrupt, Detail::kFormat, "zstd gave %zu bytes of %zu", n, out.size());
  return {};
}

// The same piece by piece into `sink`, for a caller that only checks whether the frame can be unpacked.
Status inflate_away(ZSTD_DCtx* dctx, std::span<const uint8_t> packed, uint64_t content_bytes, std::vector<uint8_t>* sink) {
  KVRT_TRY(check_packed(packed, content_bytes));
  ZSTD_DCtx_reset(dctx, ZSTD_reset_session_only);
  ZSTD_DCtx_setParameter(dctx, ZSTD_d_windowLogMax, kWindowLogMax);
  sink->resize(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  uint64_t content = 0;
  for (size_t left = 1; left != 0;) {
    ZSTD_outBuffer out{sink->data(), sink->size(), 0};
    const size_t before = in.pos;
    left = ZSTD_decompressStream(dctx, &out, &in);
    if (ZSTD_isError(left)) return error(Code::kCorrupt, Detail::kFormat, "zstd: %s", ZSTD_getErrorName(left));
    content += out.pos;
    if (left != 0 && out.pos == 0 && in.pos == before) return error(Code::kCorrupt, Detail::kFormat, "zstd: the frame does not end");
  }
  if (content == content_bytes) return {};
  return error(Code::kCorrupt, Detail::kFormat, "zstd gave %llu bytes of %llu", ull(content), ull(content_bytes));
}

}  // namespace

void split_planes(const uint8_t* in, size_t elements, uint32_t width, uint8_t* low, uint8_t* high) {
  width == 2 ? split<2>(in, elements, low, high) : split<4>(in, elements, low, high);
}

void merge_planes(const uint8_t* low, const uint8_t* high, size_t elements, uint32_t width, uint8_t* out) {
  width == 2 ? merge<2>(low, high, elements, out) : merge<4>(low, high, elements, out);
}

Result<FrameHeader> parse_frame(std::span<const uint8_t> frame) {
  if (frame.size() < kFrameHeaderBytes + kChecksumBytes) {
    return error(Code::kCorrupt, Detail::kFormat, "frame of %zu bytes, a header alone has %zu", frame.size(), kFrameHeaderBytes);
  }
  if (load_at<uint32_t>(frame, 0) != kFrameMagic) {
    return error(Code::kCorrupt, Detail::kFormat, "no frame here (magic %08x)", load_at<uint32_t>(frame, 0));
  }
  size_t body = frame.size() - kChecksumBytes;
  if (checksum128(frame.first(body)) != load_checksum(frame.data() + body)) {
    return error(Code::kCorrupt, Detail::kFormat, "checksum differs");
  }
  FrameHeader h;
  h.flags = frame[6];
  h.group = load_at<uint32_t>(frame, 108);
  const auto version = load_at<uint16_t>(frame, 4);
  KVRT_TRY(check_known(version, h.flags, frame[7], h.group));
  h.key = load_key(frame, 8);  // the stored id
  h.parent = load_key(frame, 40);
  h.raw_bytes = load_at<uint64_t>(frame, 72);
  h.low_bytes = load_at<uint64_t>(frame, 80);
  h.high_bytes = load_at<uint64_t>(frame, 88);
  h.layout = load_at<uint32_t>(frame, 96);
  h.elem_bytes = load_at<uint32_t>(frame, 100);
  h.n_words = load_at<uint32_t>(frame, 104);
  KVRT_TRY(check_lengths(h, frame.size()));
  KVRT_TRY(parse_words(frame.subspan(kFrameHeaderBytes, size_t{4} * h.n_words), version == kFrameVersion, &h));
  return h;
}

uint32_t frame_layout(std::span<const uint8_t> head) {
  constexpr size_t kLayoutAt = 96;
  return head.size() < kFrameHeaderBytes ? 0 : load_at<uint32_t>(head, kLayoutAt);
}

Codec::Codec() : cctx_(ZSTD_createCCtx()), dctx_(ZSTD_createDCtx()) {
  if (cctx_ == nullptr || dctx_ == nullptr) {  // as operator new does
    ZSTD_freeCCtx(cctx_);
    ZSTD_freeDCtx(dctx_);
    throw std::bad_alloc();
  }
}

Codec::~Codec() {
  ZSTD_freeCCtx(cctx_);
  ZSTD_freeDCtx(dctx_);
}

Result<std::span<const uint8_t>> Codec::encode(const ChunkIn& chunk) {
  if (!known_width(chunk.elem_bytes) || chunk.payload.empty() || chunk.payload.size() % chunk.elem_bytes != 0 ||
      chunk.payload.size() > kChunkBytesMax) {
    return error(Code::kInvalid, Detail::kNone, "chunk of %zu bytes in elements of %u", chunk.payload.size(), chunk.elem_bytes);
  }
  if (chunk.tokens.empty() || chunk.tokens.size() > kBlockTokensMax) {
    return error(Code::kInvalid, Detail::kNone, "chunk of %zu tokens, at most %u fit", chunk.tokens.size(), kBlockTokensMax);
  }
  if (chunk.group >= kChunkGroups) {
    return error(Code::kInvalid, Detail::kNone, "chunk of number %u, the last is %u", chunk.group, kChunkGroups - 1);
  }
  const char* wrong = find_wrong_item(chunk.items, chunk.tokens.size());
  if (wrong != nullptr) return error(Code::kInvalid, Detail::kNone, "%s", wrong);
  size_t raw = chunk.payload.size();
  size_t low = chunk.codec == ChunkCodec::kNone ? 0 : raw - raw / chunk.elem_bytes;
  const bool items = !chunk.items.empty();
  const size_t words = chunk.tokens.size() + (items ? 1 + chunk.items.size() / 4 : 0), head = kFrameHeaderBytes + 4 * words;
  frame_.resize(head + low + ZSTD_compressBound(raw - low) + kChecksumBytes);
  uint8_t flags = 0;
  size_t n = encode_payload(chunk, frame_.data() + head, low, &flags);
  ByteWriter header;
  header.write(kFrameMagic);
  header.write(version_of(chunk.group, items));
  header.write(flags);
  header.write(kNoCipher);
  header.write_bytes(chunk.key.bytes.data(), 32);
  header.write_bytes(chunk.parent.bytes.data(), 32);
  for (uint64_t size : {raw, low, n}) header.write(size);
  for (uint32_t v : {chunk.layout, chunk.elem_bytes, static_cast<uint32_t>(words), chunk.group}) header.write(v);
  if (items) header.write(static_cast<uint32_t>(chunk.tokens.size()));
  header.write_bytes(chunk.tokens.data(), chunk.tokens.size_bytes());
  header.write_bytes(chunk.items.data(), chunk.items.size());
  KVRT_CHECK(header.bytes().size() == head);
  std::memcpy(frame_.data(), header.bytes().data(), head);
  size_t body = head + low + n;
  store_checksum(checksum128({frame_.data(), body}), frame_.data() + body);
  return std::span<const uint8_t>(frame_.data(), body + kChecksumBytes);
}

// Writes the two planes, or the payload as it is. Gives the bytes of the high plane as stored.
size_t Codec::encode_payload(const ChunkIn& chunk, uint8_t* to, size_t low, uint8_t* flags) {
  size_t high = chunk.payload.size() - low;
  if (chunk.codec == ChunkCodec::kNone) {
    std::memcpy(to, chunk.payload.data(), high);
    *flags = kFramePlain;
    return high;
  }
  std::span<const uint8_t> plane = chunk.payload;
  if (low != 0) {
    plane_.resize(high);
    split_planes(chunk.payload.data(), high, chunk.elem_bytes, to, plane_.data());
    plane = plane_;
  }
  size_t n = ZSTD_compressCCtx(cctx_, to + low, ZSTD_compressBound(high), plane.data(), high, kZstdLevel);
  if (!ZSTD_isError(n) && n < high && (low != 0 || high / kPackRatioMax <= n)) {
    *flags = kFrameHighZstd;
    return n;
  }
  std::memcpy(to + low, plane.data(), high);
  return high;
}

Status Codec::decode_payload(const FrameHeader& h, std::span<const uint8_t> payload, std::span<uint8_t> out) {
  auto low = payload.first(static_cast<size_t>(h.low_bytes));
  auto high = payload.subspan(low.size(), static_cast<size_t>(h.high_bytes));
  if ((h.flags & kFrameHighZstd) != 0) {
    std::span<uint8_t> plane = out;  // 1-byte elements: the plane is the payload
    if (!low.empty()) {
      plane_.resize(out.size() - low.size());
      plane = plane_;
    }
    KVRT_TRY(inflate(dctx_, high, plane));
    high = plane;
  } else if (low.empty()) {
    std::memcpy(out.data(), high.data(), out.size());
  }
  if (!low.empty()) merge_planes(low.data(), high.data(), high.size(), h.elem_bytes, out.data());
  return {};
}

Status Codec::decode(std::span<const uint8_t> frame, const NodeIn& node, uint32_t group, uint32_t layout, std::span<uint8_t> out,
                     uint8_t item_tag_max) {
  KVRT_ASSIGN(FrameHeader h, parse_frame(frame));
  if (h.key != node.key) return error(Code::kCorrupt, Detail::kFormat, "holds chunk %.16s", h.key.hex().c_str());
  if (const uint8_t tag = highest_tag(h.items); tag > item_tag_max) {
    return error(Code::kIncompatible, Detail::kStoreTooNew, "an item with tag %u of a newer kvrt, the last known is %u", tag, item_tag_max);
  }
  if (h.parent != node.parent || !std::ranges::equal(h.tokens, node.tokens) || !std::ranges::equal(h.items, node.items)) {
    return error(Code::kCorrupt, Detail::kFormat, "other tokens or items, or another parent, under the same key");
  }
  if (h.group != group) return error(Code::kCorrupt, Detail::kFormat, "holds number %u, expected number %u", h.group, group);
  if (h.layout != layout || h.raw_bytes != out.size()) {
    return error(Code::kCorrupt, Detail::kFormat, "layout %u with %llu bytes, expected layout %u with %zu", h.layout, ull(h.raw_bytes),
                 layout, out.size());
  }
  return decode_payload(h, frame.subspan(h.head_bytes()), out);
}

Status Codec::check(std::span<const uint8_t> frame, FrameHeader* header) {
  KVRT_ASSIGN(*header, parse_frame(frame));
  if ((header->flags & kFrameHighZstd) == 0) return {};  // the checksum covers raw bytes
  const size_t at = header->head_bytes() + static_cast<size_t>(header->low_bytes);
  const auto packed = frame.subspan(at, static_cast<size_t>(header->high_bytes));
  return inflate_away(dctx_, packed, header->raw_bytes - header->low_bytes, &raw_);
}

std::unique_ptr<Codec> CodecPool::take() {
  {
    Lock lock(mutex_);
    idle_.reserve(kIdleCodecsMax);  // give() runs in destructors and must not need memory
    if (!idle_.empty()) {
      auto codec = std::move(idle_.back());
      idle_.pop_back();
      return codec;
    }
  }
  return std::make_unique<Codec>();
}

void CodecPool::give(std::unique_ptr<Codec> codec) {
  Lock lock(mutex_);
  if (idle_.size() < kIdleCodecsMax) idle_.push_back(std::move(codec));
}

}  // namespace kvrt
