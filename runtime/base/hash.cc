#include "runtime/base/hash.h"

#include <sodium.h>

#include "runtime/base/block_items.h"
#include "runtime/base/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvrt {

namespace {
using State = crypto_generichash_blake2b_state;

State* as_state(std::array<uint8_t, 384>& bytes) { return reinterpret_cast<State*>(bytes.data()); }

void init_sodium() {
  static const int ready = sodium_init();  // picks the fastest compression function once
  KVRT_CHECK(ready >= 0);
}
}  // namespace

std::string xxhash_version() {
  return std::to_string(XXH_VERSION_MAJOR) + "." + std::to_string(XXH_VERSION_MINOR) + "." + std::to_string(XXH_VERSION_RELEASE);
}

std::string to_hex(std::span<const uint8_t> bytes) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text(bytes.size() * 2, '0');
  for (size_t i = 0; i < bytes.size(); i++) {
    text[2 * i] = kDigits[bytes[i] >> 4];
    text[2 * i + 1] = kDigits[bytes[i] & 15];
  }
  return text;
}

Hasher::Hasher() {
  static_assert(sizeof(State) <= sizeof(state_) && alignof(State) <= 64);
  init_sodium();
  crypto_generichash_blake2b_init(as_state(state_), nullptr, 0, sizeof(Hash256));
}

Hasher::Hasher(const Hash256& key) {
  init_sodium();
  crypto_generichash_blake2b_init(as_state(state_), key.bytes.data(), key.bytes.size(), sizeof(Hash256));
}

Hasher& Hasher::add(std::span<const uint8_t> bytes) {
  crypto_generichash_blake2b_update(as_state(state_), bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add_u64(uint64_t value) {
  return add({reinterpret_cast<const uint8_t*>(&value), sizeof value});  // little-endian (bytes.h asserts it)
}

Hasher& Hasher::add_string(std::string_view s) {
  add_u64(s.size());
  return add({reinterpret_cast<const uint8_t*>(s.data()), s.size()});
}

Hash256 Hasher::finish() {
  Hash256 out;
  crypto_generichash_blake2b_final(as_state(state_), out.bytes.data(), out.bytes.size());
  return out;
}

BlockKey chain_key(const BlockKey& parent, std::span<const int32_t> tokens, std::span<const uint8_t> items) {
  Hasher hasher(parent);
  std::array<uint8_t, 5 * 64> packed;  // (tag, id) pairs, a run of them per update
  size_t at = 0;
  auto item = take_item(&items);
  for (size_t row = 0; row < tokens.size(); row++) {
    for (; item && item->row == row; item = take_item(&items)) {
      hasher.add({packed.data(), at});
      at = 0;
      const uint8_t head[] = {item->tag, static_cast<uint8_t>(item->bytes.size())};
      hasher.add(head).add(item->bytes);
    }
    packed[at] = kTokenTag;
    std::memcpy(&packed[at + 1], &tokens[row], sizeof tokens[row]);
    at += 5;
    if (at == packed.size()) {
      hasher.add(packed);
      at = 0;
    }
  }
  hasher.add({packed.data(), at});
  BlockKey key = hasher.finish();
#ifdef KVRT_TEST_KEY_BITS  // tests/fault/short_keys.c: keys that collide all the time
  for (size_t bit = KVRT_TEST_KEY_BITS; bit < 8 * key.bytes.size(); ++bit) key.bytes[bit / 8] &= static_cast<uint8_t>(~(1u << bit % 8));
#endif
  return key;
}

Checksum128 checksum128(std::span<const uint8_t> bytes) {
  XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

}  // namespace kvrt
