// What goes into a store and comes out of it: plain values, which its parts share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace kvrt {

// Which store it is: made with it, and copied with it.
struct StoreId {
  std::array<uint8_t, 16> bytes{};
  bool operator==(const StoreId&) const = default;
  std::string hex() const { return to_hex(bytes); }
};

enum class Durability : uint32_t { kDefault = 0, kNone = 1, kProcess = 2, kTokens = 3, kKv = 4 };

struct StoreOptions {
  bool read_only = false;       // an unwritable directory is opened so by itself; info() says it
  bool must_exist = false;      // NOT_FOUND instead of creating
  uint64_t disk_bytes_max = 0;  // 0: no cap. A save that would pass it takes the KV of idle sessions, else it is NO_SPACE
  uint64_t free_bytes_min = 0;  // of the file system, as above; 0: a twentieth of it, at most 1 GiB
};

struct SessionId {
  uint8_t bytes[16] = {};
  bool operator==(const SessionId&) const = default;
};

// How a chunk's payload is stored: packed by zstd where that helps, or as it is.
enum class ChunkCodec : uint32_t { kDefault = 0, kNone = 1, kZstd = 2 };

// The bytes of one block as the chunk stores them: high and low byte planes of `elem_bytes`-wide elements.
struct ChunkIn {
  BlockKey key, parent;
  std::span<const int32_t> tokens;
  uint32_t layout = 0;  // number of the block's byte layout (architecture.md, "A block's bytes")
  uint32_t elem_bytes = 2;
  std::span<const uint8_t> payload;  // raw block bytes
  ChunkCodec codec = ChunkCodec::kDefault;
};

// A node of the token tree: n tokens after `parent`. A session is the chain of nodes up to its head (the tail is the last node).
struct NodeIn {
  BlockKey key, parent;
  std::span<const int32_t> tokens;
};

struct SessionIn {
  std::string_view domain, name;
  SessionId id;
  uint64_t revision_seen = 0;  // revision this handle last saw; 0: never saved under this name
  bool overwrite = false;
  BlockKey root;              // kv_root: parent of the first node
  std::vector<NodeIn> nodes;  // whole chain in order, full blocks first, then the tail if there is one
  uint64_t token_count = 0;   // of the nodes, and of those that the manifest holds
  uint32_t block_tokens = 0;  // of a full block; 0: those of the first node, if there are two
  Hash256 model_id;
  std::span<const uint8_t> manifest;  // opaque: messages, spans, options, text_id
  Durability durability = Durability::kDefault;
  uint8_t pin = 0;           // its priority from now on; 0: as it is
  uint64_t ttl_seconds = 0;  // it expires so long after this save; 0: never
};

// Who wants room. It may have that of sessions that are not pinned, and of those of its own domain that are pinned less than itself.
using BlockKeys = std::unordered_set<BlockKey, Hash256Hasher>;
struct SavedBy {
  std::string domain, name;
  uint8_t pin = 0;
  BlockKeys needs{};  // chunks of the store that the save counts on
};

struct Saved {
  uint64_t revision = 0;
  SessionId id;  // the one given, or a new one: the session that had it goes on under another name
};

struct SessionOut {
  std::string domain, name;
  SessionId id;
  uint64_t revision = 0;
  BlockKey root;
  Hash256 model_id;
  uint64_t token_count = 0;     // as saved: tokens.size() and what the manifest holds
  std::vector<int32_t> tokens;  // of the nodes
  uint32_t block_tokens = 0;    // as saved; 0: there was only a tail and the saver did not say
  std::vector<BlockKey> keys;   // one per node
  std::vector<uint32_t> node_tokens;
  std::vector<uint8_t> manifest;
};

struct SessionStat {
  std::string domain, name;
  SessionId id;
  uint64_t revision = 0, tokens = 0;
  uint64_t chunks = 0, chunks_missing = 0;  // nodes with and without KV on disk
  uint64_t bytes = 0, bytes_shared = 0;     // frame bytes of its chunks; those another session uses too
  int64_t created_unix_ms = 0, saved_unix_ms = 0;
  uint8_t pinned = 0;           // its priority; 0: not pinned
  int64_t expires_unix_ms = 0;  // 0: never
};

struct GcReport {
  uint64_t sessions_removed = 0, chunks_removed = 0;
  uint64_t segments_removed = 0, bytes_freed = 0;  // files, whole and unfinished ones; their bytes
  uint64_t bytes_rewritten = 0;                    // of chunks that went from sparse segments to new ones
  uint64_t bytes_punched = 0;                      // zeroed, of dead chunks in segments that stay
  uint64_t log_bytes_kept = 0;                     // of the log, which may have what was removed: a reader elsewhere holds it
  double ms = 0;
};

struct StoreInfo {
  std::string path;
  bool read_only = false;
  uint32_t format = 0;
  uint64_t sessions = 0, chunks = 0, segments = 0;
  uint64_t chunk_bytes = 0;      // frames, compressed
  uint64_t chunk_raw_bytes = 0;  // the KV they hold
  uint64_t disk_bytes = 0;       // segments + catalog
  uint64_t chunks_damaged = 0;   // found bad since open
  uint64_t chunks_evicted = 0;   // since open, for want of space
  uint64_t old_bytes = 0;        // of catalog.db.old and damaged-<n>; not in disk_bytes
  uint64_t bytes_free = 0;       // within the quota, and above what must stay free
};

// A model's file: where it is, and what names its bytes without reading them all.
struct ModelFile {
  uint64_t device = 0, inode = 0;
  Hash256 id;
};

struct VerifyFault {
  std::string where;    // "segs/ab/ab12….seg at 4096" or "catalog"
  std::string what;     // "chunk 12ab…: checksum differs"
  std::string session;  // a session that uses it, or ""
};

// What only the engine can say of a session that verify has loaded.
using SessionCheck = std::function<Status(const SessionOut& session)>;

enum class ChunkState { kOk, kAbsent, kDamaged };

}  // namespace kvrt
