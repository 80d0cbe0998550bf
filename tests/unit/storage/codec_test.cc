#include "storage/segment/codec.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/limits.h"

namespace kvrt {
namespace {

const std::vector<int32_t> kTokens = {5, -1, 70000, 12};

BlockKey key_of(uint8_t byte) {
  BlockKey key;
  key.bytes.fill(byte);
  return key;
}

// Like f16 KV: noise in the low byte, a few exponents in the high byte.
std::vector<uint8_t> f16_like(size_t bytes, unsigned seed = 1) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(bytes);
  for (size_t i = 0; i < bytes; i++) v[i] = static_cast<uint8_t>(i % 2 == 0 ? rng() : 0x30 + rng() % 12);
  return v;
}

std::vector<uint8_t> encode(const std::vector<uint8_t>& payload, uint32_t elem_bytes = 2, uint32_t layout = 3,
                            ChunkCodec with = ChunkCodec::kDefault) {
  Codec codec;
  auto frame = codec.encode({key_of(7), key_of(6), kTokens, layout, elem_bytes, payload, with});
  EXPECT_TRUE(frame.is_ok()) << frame.status().message();
  return std::vector<uint8_t>(frame->begin(), frame->end());
}

Status decode(const std::vector<uint8_t>& frame, std::vector<uint8_t>* out, uint32_t layout = 3) {
  Codec codec;
  return codec.decode(frame, {key_of(7), key_of(6), kTokens}, 0, layout, *out);
}

// Writes a new checksum over a frame that a test has changed: a refusal is then the parser's, not the checksum's.
void reseal(std::vector<uint8_t>* frame) {
  size_t body = frame->size() - kChecksumBytes;
  Checksum128 sum = checksum128({frame->data(), body});
  std::memcpy(frame->data() + body, &sum.low, 8);
  std::memcpy(frame->data() + body + 8, &sum.high, 8);
}

template <typename T>
void put(std::vector<uint8_t>* frame, size_t at, T value) {
  std::memcpy(frame->data() + at, &value, sizeof value);
}

TEST(Codec, PlanesSplitAndMerge) {
  for (size_t n : {0u, 1u, 2u, 15u, 16u, 17u, 1000u}) {
    for (uint32_t width : {2u, 4u}) {
      auto in = f16_like(width * n);
      std::vector<uint8_t> low((width - 1) * n), high(n), out(width * n);
      split_planes(in.data(), n, width, low.data(), high.data());
      for (size_t i = 0; i < n; i++) {
        for (size_t b = 0; b + 1 < width; b++) ASSERT_EQ(low[b * n + i], in[width * i + b]);
        ASSERT_EQ(high[i], in[width * i + width - 1]);
      }
      merge_planes(low.data(), high.data(), n, width, out.data());
      EXPECT_EQ(out, in);
    }
  }
}

TEST(Codec, RoundTrip) {
  for (uint32_t elem : {1u, 2u, 4u}) {
    for (size_t bytes : {4u, 36u, 4096u, 700'000u}) {
      auto payload = f16_like(bytes);
      auto frame = encode(payload, elem);
      std::vector<uint8_t> out(bytes);
      Status status = decode(frame, &out);
      ASSERT_TRUE(status.is_ok()) << status.message();
      EXPECT_EQ(out, payload) << elem << " " << bytes;
    }
  }
}

TEST(Codec, HeaderBytesAreAsDocumented) {
  auto payload = f16_like(4096);
  auto frame = encode(payload);
  EXPECT_EQ(std::memcmp(frame.data(), "KVRC", 4), 0);
  const uint8_t version_flags[] = {1, 0, 1, 0};
  EXPECT_EQ(std::memcmp(frame.data() + 4, version_flags, 4), 0);
  EXPECT_EQ(frame[8], 7);
  EXPECT_EQ(frame[40], 6);
  auto u64 = [&](size_t at) {
    uint64_t v;
    std::memcpy(&v, frame.data() + at, 8);
    return v;
  };
  EXPECT_EQ(u64(72), 4096u);
  EXPECT_EQ(u64(80), 2048u);
  EXPECT_EQ(u64(88), frame.size() - 112 - 16 - 2048 - 16);
  const uint8_t numbers[] = {3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
  EXPECT_EQ(std::memcmp(frame.data() + 96, numbers, sizeof numbers), 0);
  EXPECT_EQ(frame[128], payload[0]);
  EXPECT_EQ(frame[129], payload[2]);
}

TEST(Codec, CompressesHighBytesOnly) {
  auto payload = f16_like(1 << 20);
  EXPECT_LT(encode(payload).size(), payload.size() * 78 / 100);  // 8 + log2(12) = 11.6 bits of 16: 0.724
  std::mt19937 rng(9);
  for (auto& b : payload) b = static_cast<uint8_t>(rng());
  auto frame = encode(payload);
  EXPECT_EQ(frame.size(), kFrameHeaderBytes + 16 + payload.size() + kChecksumBytes) << "noise is stored as it is";
  std::vector<uint8_t> out(payload.size());
  ASSERT_TRUE(decode(frame, &out).is_ok());
  EXPECT_EQ(out, payload);
}

// Codec NONE: header, tokens, the payload byte for byte, checksum.
TEST(Codec, PlainFrames) {
  for (uint32_t elem : {1u, 2u, 4u}) {
    for (size_t bytes : {4u, 36u, 700'000u}) {
      auto payload = f16_like(bytes);
      auto frame = encode(payload, elem, 3, ChunkCodec::kNone);
      ASSERT_EQ(frame.size(), kFrameHeaderBytes + 16 + bytes + kChecksumBytes);
      const uint8_t version_flags[] = {1, 0, 2, 0};
      EXPECT_EQ(std::memcmp(frame.data() + 4, version_flags, 4), 0);
      EXPECT_EQ(std::memcmp(frame.data() + kFrameHeaderBytes + 16, payload.data(), bytes), 0);
      std::vector<uint8_t> out(bytes);
      Status status = decode(frame, &out);
      ASSERT_TRUE(status.is_ok()) << status.message();
      EXPECT_EQ(out, payload);
      FrameHeader header;
      Codec codec;
      EXPECT_TRUE(codec.check(frame, &header).is_ok());
    }
  }
  EXPECT_EQ(encode(f16_like(4096), 2, 3, ChunkCodec::kZstd), encode(f16_like(4096))) << "the default";
}

TEST(Codec, EveryFlippedBitIsFound) {
  for (ChunkCodec with : {ChunkCodec::kZstd, ChunkCodec::kNone}) {
    auto payload = f16_like(600);
    auto frame = encode(payload, 2, 3, with);
    std::vector<uint8_t> out(payload.size());
    for (size_t bit = 0; bit < frame.size() * 8; bit++) {
      auto bad = frame;
      bad[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      EXPECT_EQ(decode(bad, &out).code(), Code::kCorrupt) << "bit " << bit;
    }
  }
}

// A frame whose flags say otherwise, with a right checksum. Unknown flags are those of a newer kvrt.
TEST(Codec, FlagsThatDoNotFit) {
  auto payload = f16_like(600);
  std::vector<uint8_t> out(payload.size());
  for (ChunkCodec with : {ChunkCodec::kZstd, ChunkCodec::kNone}) {
    auto frame = encode(payload, 2, 3, with);
    for (uint16_t flags : {0, 1, 2, 3, 4, 0x8002}) {
      if (flags == (with == ChunkCodec::kZstd ? 1 : 2)) continue;
      auto bad = frame;
      put(&bad, 6, flags);
      reseal(&bad);
      EXPECT_EQ(decode(bad, &out).code(), (flags & ~3) != 0 ? Code::kIncompatible : Code::kCorrupt) << flags;
    }
  }
}

TEST(Codec, EveryTruncationIsFound) {
  auto payload = f16_like(600);
  auto frame = encode(payload);
  std::vector<uint8_t> out(payload.size());
  for (size_t n = 0; n < frame.size(); n++) {
    std::vector<uint8_t> cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_EQ(decode(cut, &out).code(), Code::kCorrupt) << n;
    if (n < kFrameHeaderBytes + kChecksumBytes) continue;
    reseal(&cut);
    EXPECT_EQ(decode(cut, &out).code(), Code::kCorrupt) << n << ", checksum made right";
  }
}

TEST(Codec, WrongExpectationsAreFound) {
  auto payload = f16_like(600);
  auto frame = encode(payload);
  std::vector<uint8_t> out(payload.size()), shorter(598);
  Codec codec;
  EXPECT_EQ(codec.decode(frame, {key_of(8), key_of(6), kTokens}, 0, 3, out).code(), Code::kCorrupt);
  EXPECT_EQ(codec.decode(frame, {key_of(7), key_of(5), kTokens}, 0, 3, out).code(), Code::kCorrupt);
  EXPECT_EQ(codec.decode(frame, {key_of(7), key_of(6), kTokens}, 0, 4, out).code(), Code::kCorrupt);
  EXPECT_EQ(codec.decode(frame, {key_of(7), key_of(6), kTokens}, 0, 3, shorter).code(), Code::kCorrupt);
  auto tokens = kTokens;
  tokens[3]++;
  EXPECT_EQ(codec.decode(frame, {key_of(7), key_of(6), tokens}, 0, 3, out).code(), Code::kCorrupt);
  tokens = kTokens;
  tokens.pop_back();
  EXPECT_EQ(codec.decode(frame, {key_of(7), key_of(6), tokens}, 0, 3, out).code(), Code::kCorrupt);
  EXPECT_TRUE(codec.decode(frame, {key_of(7), key_of(6), kTokens}, 0, 3, out).is_ok());
}

// Each number of the header set to extreme values, with a right checksum: refused before anything is allocated or read.
TEST(Codec, HostileHeaders) {
  auto payload = f16_like(600);
  auto frame = encode(payload);
  std::vector<uint8_t> out(payload.size());
  for (size_t at : {72u, 80u, 88u}) {
    uint64_t old;
    std::memcpy(&old, frame.data() + at, 8);
    for (uint64_t v : {uint64_t{0}, old - 1, old + 1, old + 2, uint64_t{1} << 30, uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{0} - 300}) {
      auto bad = frame;
      put(&bad, at, v);
      reseal(&bad);
      EXPECT_EQ(decode(bad, &out).code(), Code::kCorrupt) << at << " = " << v;
    }
  }
  for (size_t at : {4u, 6u, 100u, 104u}) {
    for (uint32_t v : {0u, 3u, 4u, 0x7fffffffu, 0xffffffffu}) {
      if (at == 104 && v == kTokens.size()) continue;
      auto bad = frame;
      at < 8 ? put(&bad, at, static_cast<uint16_t>(v)) : put(&bad, at, v);
      reseal(&bad);
      const bool newer = (at == 4 && v > kFrameVersion) || (at == 6 && (v & 4) != 0);  // a version or a flag to come
      EXPECT_EQ(decode(bad, &out).code(), newer ? Code::kIncompatible : Code::kCorrupt) << at << " = " << v;
    }
  }
}

// Replaces the zstd part of a good frame, lengths and checksum made to fit.
std::vector<uint8_t> with_high_plane(std::vector<uint8_t> frame, size_t low, const std::vector<uint8_t>& packed) {
  frame.resize(kFrameHeaderBytes + 16 + low);
  frame.insert(frame.end(), packed.begin(), packed.end());
  put(&frame, 88, static_cast<uint64_t>(packed.size()));
  frame.resize(frame.size() + kChecksumBytes);
  reseal(&frame);
  return frame;
}

std::vector<uint8_t> zstd(const std::vector<uint8_t>& content) {
  std::vector<uint8_t> packed(ZSTD_compressBound(content.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 19));
  return packed;
}

TEST(Codec, ZstdBombsAndTricks) {
  constexpr size_t kBytes = 1 << 16, kHigh = kBytes / 2;
  auto frame = encode(f16_like(kBytes));
  std::vector<uint8_t> out(kBytes);
  auto refused = [&](const std::vector<uint8_t>& packed, const char* what) {
    ASSERT_LT(packed.size(), kHigh);
    Status status = decode(with_high_plane(frame, kHigh, packed), &out);
    EXPECT_EQ(status.code(), Code::kCorrupt) << what;
    EXPECT_NE(status.message().find("zstd"), std::string::npos) << what << ": " << status.message();
  };
  auto good = zstd(std::vector<uint8_t>(kHigh, 9));
  ASSERT_TRUE(decode(with_high_plane(frame, kHigh, good), &out).is_ok()) << "the tool itself makes frames that pass";
  refused(zstd(std::vector<uint8_t>(64 << 20, 9)), "a frame that unpacks to 64 MiB");
  refused(zstd(std::vector<uint8_t>(kHigh - 1, 9)), "one byte short");
  refused(zstd(std::vector<uint8_t>(kHigh + 1, 9)), "one byte long");
  auto two = zstd(std::vector<uint8_t>(kHigh / 2, 9));
  two.insert(two.end(), two.begin(), two.end());
  refused(two, "two frames");
  auto trailing = good;
  trailing.push_back(0);
  refused(trailing, "trailing byte");
  std::vector<uint8_t> skippable = {0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4};
  refused(skippable, "skippable frame");
  auto after_skippable = skippable;
  after_skippable.insert(after_skippable.end(), good.begin(), good.end());
  refused(after_skippable, "skippable frame before a good one");
  // Magic, descriptor without single segment and content size, window 2^41: a streaming decoder would allocate it.
  std::vector<uint8_t> window = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00};
  refused(window, "unknown content size and a huge window");
  ZSTD_CCtx* cctx = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, 0);
  std::vector<uint8_t> unsized(ZSTD_compressBound(kHigh)), content(kHigh, 9);
  unsized.resize(ZSTD_compress2(cctx, unsized.data(), unsized.size(), content.data(), content.size()));
  ZSTD_freeCCtx(cctx);
  refused(unsized, "no content size");
}

// `bytes` of a part over and over as one zstd frame, without so many in memory.
std::vector<uint8_t> packed_run(uint64_t bytes, std::vector<uint8_t> part) {
  ZSTD_CCtx* cctx = ZSTD_createCCtx();
  ZSTD_CCtx_setPledgedSrcSize(cctx, bytes);
  std::vector<uint8_t> packed(1 << 20);
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  for (size_t left = 1; left != 0;) {
    ZSTD_inBuffer in{part.data(), static_cast<size_t>(std::min<uint64_t>(bytes, part.size())), 0};
    bytes -= in.size;
    left = ZSTD_compressStream2(cctx, &out, &in, bytes == 0 ? ZSTD_e_end : ZSTD_e_continue);
    if (bytes != 0) left = 1;
  }
  ZSTD_freeCCtx(cctx);
  packed.resize(out.pos);
  return packed;
}

uint64_t memory_peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoull(line.substr(6));
  }
  return 0;
}

// A frame of 1-byte elements whose payload is that part.
std::vector<uint8_t> claiming(uint64_t bytes, const std::vector<uint8_t>& packed) {
  auto frame = with_high_plane(encode(f16_like(4096), 1), 0, packed);
  put(&frame, 72, bytes);
  put(&frame, 80, uint64_t{0});
  reseal(&frame);
  return frame;
}

TEST(Codec, AFrameThatClaimsMuchFailsAndCostsNoMemory) {
  Codec codec;
  FrameHeader header;
  std::vector<uint8_t> part(4 << 20);  // more than a window
  std::mt19937 rng(3);
  const auto packed = packed_run(1u << 30, part);
  ASSERT_LT(packed.size(), 40'000u);
  for (size_t i = 0; i < part.size(); i += 1024) part[i] = static_cast<uint8_t>(rng());
  const auto some = packed_run(64u << 20, part), few = packed_run(8u << 20, part);
  ASSERT_LT(some.size(), (64u << 20) / 64);
  const uint64_t before = memory_peak_kib();
  Status refused = codec.check(claiming(1u << 30, packed), &header);
  EXPECT_EQ(refused.code(), Code::kCorrupt);
  EXPECT_NE(refused.message().find("times as many"), std::string::npos) << refused.message();
  // Within the ratio: the frame is sound, and is unpacked piece by piece.
  auto padded = claiming(64u << 20, some);
  ASSERT_EQ(codec.check(padded, &header).code(), Code::kOk) << codec.check(padded, &header).message();
  EXPECT_EQ(codec.check(claiming((64u << 20) - 1, some), &header).code(), Code::kCorrupt);
  EXPECT_EQ(codec.check(claiming(8u << 20, some), &header).code(), Code::kCorrupt);
  EXPECT_EQ(codec.check(claiming(64u << 20, few), &header).code(), Code::kCorrupt);
  EXPECT_LT(memory_peak_kib() - before, 24u << 10) << "KiB";
  const std::vector<uint8_t> zeros(64u << 20);
  auto own = codec.encode({key_of(1), key_of(2), kTokens, 0, 1, zeros});
  ASSERT_TRUE(own.is_ok());
  EXPECT_TRUE(codec.check(std::vector<uint8_t>(own->begin(), own->end()), &header).is_ok()) << "what it writes it reads";
}

TEST(Codec, RandomBytesNeverCrash) {
  std::mt19937 rng(20240607);
  auto payload = f16_like(300);
  auto frame = encode(payload);
  std::vector<uint8_t> out(payload.size());
  for (int round = 0; round < 5000; round++) {
    auto bad = frame;
    for (int k = 0; k < 4; k++) bad[rng() % (bad.size() - kChecksumBytes)] = static_cast<uint8_t>(rng());
    reseal(&bad);
    Status status = decode(bad, &out);  // may pass: the payload's bytes are free
    EXPECT_TRUE(status.is_ok() || status.code() == Code::kCorrupt || status.code() == Code::kIncompatible) << status.message();
  }
}

TEST(Codec, RefusesWhatItCannotStore) {
  Codec codec;
  auto payload = f16_like(600);
  auto code = [&](std::span<const int32_t> tokens, uint32_t elem, std::span<const uint8_t> bytes) {
    return codec.encode({key_of(1), key_of(2), tokens, 0, elem, bytes}).status().code();
  };
  EXPECT_EQ(code(kTokens, 3, payload), Code::kInvalid);
  EXPECT_EQ(code(kTokens, 0, payload), Code::kInvalid);
  EXPECT_EQ(code(kTokens, 8, payload), Code::kInvalid);
  EXPECT_EQ(code(kTokens, 4, std::span<const uint8_t>(payload).first(598)), Code::kInvalid);
  EXPECT_EQ(code(kTokens, 2, {}), Code::kInvalid);
  EXPECT_EQ(code(kTokens, 2, std::span<const uint8_t>(payload).first(599)), Code::kInvalid);
  EXPECT_EQ(code({}, 2, payload), Code::kInvalid);
  EXPECT_EQ(code(std::vector<int32_t>(kBlockTokensMax + 1), 2, payload), Code::kInvalid);
}

}  // namespace
}  // namespace kvrt
