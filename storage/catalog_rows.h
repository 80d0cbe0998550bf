// Small conversions between rows and values, shared by the catalog's files.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "storage/store.h"

namespace kvrt {

inline std::span<const uint8_t> token_bytes(std::span<const int32_t> tokens) {
  return {reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size_bytes()};
}

inline bool same_bytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// False if the column has another size than the value.
inline bool copy_exact(std::span<const uint8_t> from, std::span<uint8_t> to) {
  if (from.size() != to.size()) return false;
  std::copy(from.begin(), from.end(), to.begin());
  return true;
}

inline Status broken_row(const char* what) {
  return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: %s missing or malformed", what);
}

// What the checksum of a session's row covers. SQLite does not notice a flipped bit in a value; this does.
struct SessionSums {
  std::string_view domain, name;
  const SessionId& id;
  uint64_t gen;
  const BlockKey& root;
  const BlockKey& head;  // root if the session has no node
  uint64_t tokens, block_tokens;
  const Hash256& model_id;
  std::span<const uint8_t> manifest;

  std::array<uint8_t, 16> bytes() const {
    ByteWriter w;
    w.write_string(domain);
    w.write_string(name);
    w.write_bytes(id.bytes, sizeof id.bytes);
    w.write(gen);
    w.write_bytes(root.bytes.data(), 32);
    w.write_bytes(head.bytes.data(), 32);
    w.write(tokens);
    w.write(block_tokens);
    w.write_bytes(model_id.bytes.data(), 32);
    w.write_bytes(manifest.data(), manifest.size());
    Checksum128 sum = checksum128(w.bytes());
    std::array<uint8_t, 16> out;
    std::memcpy(out.data(), &sum.low, 8);
    std::memcpy(out.data() + 8, &sum.high, 8);
    return out;
  }
};

}  // namespace kvrt
