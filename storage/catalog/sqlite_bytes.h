// Big-endian numbers, as SQLite's files have them.
#pragma once

#include <cstdint>

namespace kvrt {

inline uint32_t be16(const uint8_t* p) { return uint32_t{p[0]} << 8 | p[1]; }
inline uint32_t be32(const uint8_t* p) { return be16(p) << 16 | be16(p + 2); }
inline uint64_t be64(const uint8_t* p) { return uint64_t{be32(p)} << 32 | be32(p + 4); }

}  // namespace kvrt
