// A fast hash of short byte strings, for tables in memory. Vocabularies are no adversaries of a process that loads their weights, and the
// tables that texts fill are of fixed size: it need not resist collisions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace kvrt {

inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kMul = 0x9E3779B97F4A7C15u;
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t h = n * kMul;
  auto mix = [&h](uint64_t word) {
    h = (h ^ word) * kMul;
    h ^= h >> 32;
  };
  uint64_t word;
  for (; n >= 8; p += 8, n -= 8) {
    std::memcpy(&word, p, 8);
    mix(word);
  }
  if (n >= 4) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    mix(static_cast<uint64_t>(high) << 32 | low);
  } else if (n > 0) {
    auto byte = [p](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(p[i])); };
    mix(byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16);
  }
  return h * kMul;
}

}  // namespace kvrt
