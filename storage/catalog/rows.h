// Small conversions between rows and values, shared by the catalog's files.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "storage/catalog/session_needs.h"
#include "storage/values.h"

namespace kvrt {

inline std::span<const uint8_t> token_bytes(std::span<const int32_t> tokens) {
  return {reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size_bytes()};
}

inline bool same_bytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// False: the column has another size than the value.
inline bool copy_exact(std::span<const uint8_t> from, std::span<uint8_t> to) {
  if (from.size() != to.size()) return false;
  std::copy(from.begin(), from.end(), to.begin());
  return true;
}

inline std::array<uint8_t, 16> checksum_bytes(std::span<const uint8_t> bytes) {
  const Checksum128 sum = checksum128(bytes);
  std::array<uint8_t, 16> out;
  std::memcpy(out.data(), &sum.low, 8);
  std::memcpy(out.data() + 8, &sum.high, 8);
  return out;
}

inline Status broken_row(const char* what) {
  return error(Code::kCorrupt, Detail::kCatalogCorrupt, "catalog: %s missing or malformed", what);
}

// A message of the catalog, for a line that begins with "catalog: " already.
inline std::string without_catalog(const std::string& message) {
  constexpr std::string_view kPrefix = "catalog: ";
  return message.starts_with(kPrefix) ? message.substr(kPrefix.size()) : message;
}

inline Status no_session(std::string_view domain, std::string_view name) {
  const std::string in = domain.empty() ? "" : " in domain \"" + std::string(domain) + "\"";
  return error(Code::kNotFound, Detail::kNone, "no session \"%s\"%s", std::string(name).c_str(), in.c_str());
}

// A session expires at expires_ms (0: never), unless it is pinned.
inline bool has_expired(uint8_t pinned, int64_t expires_ms, int64_t now_ms) {
  return pinned == 0 && expires_ms != 0 && expires_ms <= now_ms;
}

// The value of `counted` after an eviction took KV of the session since its last save: its chunks must be counted again in any case.
inline constexpr int64_t kEvictedSince = -2;

// What the store has of the chunks that a session needs.
struct ChunkCounts {
  uint64_t chunks = 0, chunks_missing = 0, chunk_bytes = 0, chunk_bytes_shared = 0;
  int64_t counted = -1;  // totals.shares when the chunks were counted; kEvictedSince
};

struct SessionRow : ChunkCounts {
  std::string domain, name;
  SessionId id;
  uint64_t revision = 0;
  BlockKey root, head_key;  // head_key: root if the session has no node
  int64_t head = 0;
  uint64_t tokens = 0, block_tokens = 0;
  uint8_t pinned = 0;
  int64_t expires_ms = 0, created_ms = 0, saved_ms = 0;
  Hash256 model_id;
  std::vector<uint8_t> manifest;
  std::vector<SessionGroup> needs;
  int64_t used = 0;  // the clock at its last save or load; 0: its KV was evicted

  // Catches a flipped bit in a value and a row of another store's log, neither of which SQLite notices.
  std::array<uint8_t, 16> checksum(const StoreId& store) const {
    ByteWriter w;
    w.write(store.tag());
    const std::vector<uint8_t> groups = encode_needs(needs);
    w.write(static_cast<uint32_t>(groups.size()));
    w.write_bytes(groups.data(), groups.size());
    write_values(&w);
    return checksum_bytes(w.bytes());
  }
  // The row as 0.1 made it.
  std::array<uint8_t, 16> old_checksum() const {
    ByteWriter w;
    write_values(&w);
    return checksum_bytes(w.bytes());
  }

 private:
  void write_values(ByteWriter* w) const {
    w->write_string(domain);
    w->write_string(name);
    w->write_bytes(id.bytes, sizeof id.bytes);
    w->write(revision);
    w->write_bytes(root.bytes.data(), 32);
    w->write_bytes(head_key.bytes.data(), 32);
    w->write(tokens);
    w->write(block_tokens);
    w->write(pinned);
    w->write(expires_ms);
    w->write_bytes(model_id.bytes.data(), 32);
    w->write_bytes(manifest.data(), manifest.size());
  }
};

}  // namespace kvrt
