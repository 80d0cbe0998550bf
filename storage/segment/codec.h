// Frames: the form of a chunk in a segment. A frame is a header, token ids, items, the low byte plane as it is, the high byte plane through
// zstd, and a checksum over all of it. High bytes of floats (sign, exponent) compress; the others are noise. A plain frame has the payload
// as it is: it is larger and loads sooner. FORMAT.md has the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/mutex.h"
#include "runtime/base/read_buffer.h"
#include "runtime/base/status.h"
#include "storage/values.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace kvrt {

inline constexpr uint32_t kFrameMagic = 0x43'52'56'4Bu;  // "KVRC"
inline constexpr uint16_t kFrameVersion = 3;             // the latest: a frame with items
inline constexpr uint16_t kFrameOfGroup = 2;             // without items
inline constexpr uint16_t kFrameOfAllLayers = 1;         // the same of group 0, as 0.1 wrote it
inline constexpr uint8_t kFrameHighZstd = 1;             // flag: the high plane is a zstd frame, else raw
inline constexpr uint8_t kFramePlain = 2;                // flag: no planes, the payload as it is
inline constexpr uint8_t kNoCipher = 0;                  // the only cipher id so far: nothing is sealed, and the stored id is the key
inline constexpr size_t kFrameHeaderBytes = 112;
inline constexpr size_t kChecksumBytes = 16;

struct FrameHeader {
  uint8_t flags = 0;
  BlockKey key, parent;
  uint64_t raw_bytes = 0, low_bytes = 0, high_bytes = 0;
  uint32_t layout = 0, elem_bytes = 0, n_words = 0, n_tokens = 0, group = 0;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> items;

  size_t head_bytes() const { return kFrameHeaderBytes + size_t{4} * n_words; }  // before the planes
};

// Parses the header of a whole frame. Checks the checksum first, then every length against every other. CORRUPT names the difference. The
// tags of items are not looked at.
Result<FrameHeader> parse_frame(std::span<const uint8_t> frame);

// The layout that the first bytes of a frame name, unchecked; 0: there are too few.
uint32_t frame_layout(std::span<const uint8_t> head);

// The planes of elements of 2 or 4 bytes: byte p of element i at low[p * elements + i], the last byte at high[i], and back.
void split_planes(const uint8_t* in, size_t elements, uint32_t width, uint8_t* low, uint8_t* high);
void merge_planes(const uint8_t* low, const uint8_t* high, size_t elements, uint32_t width, uint8_t* out);

// Encodes and decodes with the zstd contexts and scratch memory of one thread at a time.
class Codec {
 public:
  Codec();
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  // The frame of a chunk, valid until the next encode.
  Result<std::span<const uint8_t>> encode(const ChunkIn& chunk);
  // The payload of `frame` into exactly out.size() bytes, if it is the node's chunk (key, parent, tokens, items) of this group in this
  // layout. CORRUPT otherwise, but INCOMPATIBLE if it has an item with a tag above `item_tag_max`; `out` is then unspecified.
  Status decode(std::span<const uint8_t> frame, const NodeIn& node, uint32_t group, uint32_t layout, std::span<uint8_t> out,
                uint8_t item_tag_max = 0);
  // Checks that a frame can be decoded, without giving its payload: it takes no more memory for a larger one.
  Status check(std::span<const uint8_t> frame, FrameHeader* header);

  ReadBuffer* read_buffer() { return &read_; }  // for a caller that reads a frame to decode it

 private:
  size_t encode_payload(const ChunkIn& chunk, uint8_t* to, size_t low, uint8_t* flags);
  Status decode_payload(const FrameHeader& header, std::span<const uint8_t> payload, std::span<uint8_t> out);

  ZSTD_CCtx_s* cctx_ = nullptr;
  ZSTD_DCtx_s* dctx_ = nullptr;
  std::vector<uint8_t> frame_, plane_, raw_;
  ReadBuffer read_;
};

// Idle codecs, so that contexts and buffers are made once per concurrent user. Thread-safe.
class CodecPool {
 public:
  class Lease {
   public:
    explicit Lease(CodecPool* pool) : pool_(pool), codec_(pool->take()) {}
    ~Lease() { pool_->give(std::move(codec_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Codec* operator->() { return codec_.get(); }
    Codec* get() { return codec_.get(); }

   private:
    CodecPool* pool_;
    std::unique_ptr<Codec> codec_;
  };

 private:
  std::unique_ptr<Codec> take();
  void give(std::unique_ptr<Codec> codec);

  Mutex mutex_;  // no other mutex of the store is taken under it
  std::vector<std::unique_ptr<Codec>> idle_ KVRT_GUARDED_BY(mutex_);
};

}  // namespace kvrt
