// Two hashes for two jobs. Hash256 (keyed BLAKE2b, libsodium): identity, of models, texts and blocks. checksum128 (XXH3): damage only.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace kvrt {

std::string to_hex(std::span<const uint8_t> bytes);

struct Hash256 {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Hash256&) const = default;
  bool is_zero() const { return *this == Hash256{}; }
  std::string hex() const { return to_hex(bytes); }
};

// A block's name: chained over its tokens, rooted in kv_root (model, KV format, block size, numerics, domain).
using BlockKey = Hash256;

struct Hash256Hasher {  // for unordered_map; the bytes are already uniform
  size_t operator()(const Hash256& h) const {
    size_t v;
    std::memcpy(&v, h.bytes.data(), sizeof v);
    return v;
  }
};

// Incremental BLAKE2b-256, optionally keyed. Not thread-safe; cheap to create.
class Hasher {
 public:
  Hasher();
  explicit Hasher(const Hash256& key);
  Hasher& add(std::span<const uint8_t> bytes);
  Hasher& add_u64(uint64_t value);
  Hasher& add_string(std::string_view s);  // u64 length, then the bytes: no two field lists collide
  Hash256 finish();

 private:
  alignas(64) std::array<uint8_t, 384> state_;  // libsodium's crypto_generichash_blake2b_state
};

// The key of a run of tokens after `parent`: BLAKE2b keyed with `parent` over (tag u8 = 0, id u32) per token, and before it (tag u8, n u8,
// u8[n]) per item of its row (block_items.h). A full block and a tail of n tokens use the same function. The first block's parent is
// kv_root.
BlockKey chain_key(const BlockKey& parent, std::span<const int32_t> tokens, std::span<const uint8_t> items = {});

struct Checksum128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Checksum128&) const = default;
};
Checksum128 checksum128(std::span<const uint8_t> bytes);  // XXH3-128
std::string xxhash_version();                             // the version that is compiled in

}  // namespace kvrt
