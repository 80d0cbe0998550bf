// The plain values that go into a store and come out of it. All its parts share them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace kvrt {

// A store's uuid: it is made with the store, and copied with it.
struct StoreId {
  std::array<uint8_t, 16> bytes{};
  bool operator==(const StoreId&) const = default;
  std::string hex() const { return to_hex(bytes); }
  uint64_t tag() const { return load<uint64_t>(bytes.data()); }  // its first 8 bytes: in segments, and in the checksums of sessions' rows
};

enum class Durability : uint32_t { kDefault = 0, kNone = 1, kProcess = 2, kTokens = 3, kKv = 4 };
inline bool waits_for_disk(Durability d) { return d != Durability::kNone && d != Durability::kProcess; }

struct StoreOptions {
  bool read_only = false;       // true by itself for an unwritable directory; info() tells
  bool must_exist = false;      // NOT_FOUND instead of creating
  uint64_t disk_bytes_max = 0;  // 0: no cap. A save that would pass it takes the KV of other sessions, else it is NO_SPACE
  uint64_t free_bytes_min = 0;  // to stay free on the file system, likewise; 0: a twentieth of it, at most 1 GiB
  uint8_t item_tag_max = 0;     // the last tag of items that the caller knows; 0: none. A chunk with a later one is a hole
};

struct SessionId {
  uint8_t bytes[16] = {};
  bool operator==(const SessionId&) const = default;
};

// A chunk has a block's KV of some layers, which its number tells: 0 is all of them, g + 1 group g of the model. The code calls it group.
inline constexpr uint32_t kChunkGroups = 32;  // ids of groups are below it, so that a bit mask holds them
inline bool has_group(uint32_t groups, uint32_t group) { return (groups >> group & 1) != 0; }

// The name of a chunk.
struct ChunkKey {
  BlockKey node;
  uint32_t group = 0;
  bool operator==(const ChunkKey&) const = default;
  std::string shown() const {
    return "chunk " + node.hex().substr(0, 16) + (group != 0 ? " of number " + std::to_string(group) : std::string());
  }
};
struct ChunkKeyHasher {
  size_t operator()(const ChunkKey& chunk) const { return Hash256Hasher()(chunk.node) + chunk.group; }
};
using ChunkKeys = std::unordered_set<ChunkKey, ChunkKeyHasher>;

// The form of a chunk's stored payload: packed by zstd where that helps, or as it is.
enum class ChunkCodec : uint32_t { kDefault = 0, kNone = 1, kZstd = 2 };

// One block, or a group of its layers, for a chunk: its raw bytes, of elements `elem_bytes` wide, which the codec stores as high and low byte planes.
struct ChunkIn {
  BlockKey key, parent;
  std::span<const int32_t> tokens;
  uint32_t layout = 0;  // number of the payload's byte layout (FORMAT.md, "Frame")
  uint32_t elem_bytes = 2;
  std::span<const uint8_t> payload;  // raw block bytes
  ChunkCodec codec = ChunkCodec::kDefault;
  uint32_t group = 0;
  std::span<const uint8_t> items{};  // as NodeIn's
};

// A chunk's group, and the length of its frame on disk.
struct ChunkSize {
  uint32_t group;
  uint64_t bytes;
};

// A node of the token tree: n tokens after `parent`. A session is the chain of nodes that ends in its head, which may be a tail.
struct NodeIn {
  BlockKey key, parent;
  std::span<const int32_t> tokens;
  std::span<const uint8_t> items{};  // what its bits depend on besides them (runtime/base/block_items.h)
};

// The nodes of these tokens after a root, without items: of `block_tokens` each, and a tail.
inline std::vector<NodeIn> chain_of(const BlockKey& root, std::span<const int32_t> tokens, uint64_t block_tokens) {
  std::vector<NodeIn> nodes;
  BlockKey parent = root;
  for (uint64_t at = 0; at < tokens.size(); at += block_tokens) {
    const auto part = tokens.subspan(at, std::min<uint64_t>(block_tokens, tokens.size() - at));
    nodes.push_back({chain_key(parent, part), parent, part});
    parent = nodes.back().key;
  }
  return nodes;
}

// A group whose chunks a session needs: all of them, or those of the nodes that have one of its last `window` tokens.
struct SessionGroup {
  uint32_t group = 0, window = 0;  // 0: all
  bool operator==(const SessionGroup&) const = default;
};

struct SessionIn {
  std::string_view domain, name;
  SessionId id;
  uint64_t revision_seen = 0;  // revision this handle last saw; 0: never saved under this name
  bool overwrite = false;
  BlockKey root;                     // kv_root: parent of the first node
  std::vector<NodeIn> nodes;         // whole chain in order, full blocks first, then the tail if there is one
  uint64_t token_count = 0;          // in the nodes and in the manifest
  uint32_t block_tokens = 0;         // of a full block; 0: as many as the first node has, if there are two
  std::vector<SessionGroup> groups;  // whose chunks it needs, ascending; none: any one chunk of each node
  Hash256 model_id;
  std::span<const uint8_t> manifest;  // opaque: messages, spans, options, text_id
  Durability durability = Durability::kDefault;
  uint8_t pin = 0;           // its pin's priority from now on; 0: unchanged
  uint64_t ttl_seconds = 0;  // it expires so long after this save; 0: its expiry is unchanged, a new session never expires
  // The KV of the revision that it saw, in another form: its revision and times stay, and so does its place in the order of eviction. CONFLICT if
  // that revision is no longer the session's.
  bool same_revision = false;
};

// The session that needs room. It may take the KV of sessions that are not pinned, and of those in its domain with a lower pin.
struct SavedBy {
  std::string domain, name;
  uint8_t pin = 0;              // as SessionIn's
  uint64_t manifest_bytes = 0;  // KV leaves room for the manifest
  ChunkKeys needs{};            // chunks of the store that the save counts on
  bool spares_others = false;   // it takes no KV of others: NO_SPACE instead
};

struct Saved {
  uint64_t revision = 0;
  SessionId id;  // the given one, or a new one if the session that has it was renamed
};

struct SessionOut {
  std::string domain, name;
  SessionId id;
  uint64_t revision = 0;
  BlockKey root;
  Hash256 model_id;
  uint64_t token_count = 0;     // as saved: tokens.size() and those in the manifest
  std::vector<int32_t> tokens;  // of the nodes
  uint32_t block_tokens = 0;    // as saved; 0: there was only a tail, and the saver did not give it
  std::vector<BlockKey> keys;   // one per node
  std::vector<uint32_t> node_tokens;
  std::vector<std::vector<uint8_t>> node_items;  // as NodeIn's, whether or not this kvrt knows their tags
  std::vector<uint8_t> manifest;
};

struct SessionStat {
  std::string domain, name;
  SessionId id;
  uint64_t revision = 0, tokens = 0;
  uint64_t chunks = 0, chunks_missing = 0;  // its nodes' chunks, of all numbers; those that it needs and that are not there
  uint64_t bytes = 0, bytes_shared = 0;     // frame bytes of its chunks; of those that another session uses too
  int64_t created_unix_ms = 0, saved_unix_ms = 0;
  uint8_t pinned = 0;           // its priority; 0: not pinned
  int64_t expires_unix_ms = 0;  // 0: never
};

struct GcReport {
  uint64_t sessions_removed = 0, chunks_removed = 0;
  uint64_t segments_removed = 0, bytes_freed = 0;  // files, whole and unfinished ones; their bytes
  uint64_t bytes_rewritten = 0;                    // of new segments that took the chunks of sparse ones
  uint64_t bytes_punched = 0;                      // zeroed, of dead chunks in segments that stay
  uint64_t log_bytes_kept = 0;                     // of the log, if it may have removed content: a reader elsewhere holds it
  double ms = 0;
};

struct StoreInfo {
  std::string path;
  bool read_only = false;
  bool waits_for_room = false;  // read_only for want of room alone: calls that write try again
  uint32_t format = 0;
  uint64_t sessions = 0, chunks = 0, segments = 0;
  uint64_t chunk_bytes = 0;      // frames, compressed
  uint64_t chunk_raw_bytes = 0;  // the KV they hold
  uint64_t disk_bytes = 0;       // segments + catalog
  uint64_t chunks_damaged = 0;   // found bad since open
  uint64_t chunks_evicted = 0;   // since open, to make room
  uint64_t loads_evicted = 0;    // ever: loads of sessions of which KV was evicted since they were saved
  uint64_t old_bytes = 0;        // of catalog.db.old and damaged-<n>; not in disk_bytes
  uint64_t bytes_free = 0;       // within the quota, and above what must stay free
};

// A model's file: its place, and a hash that names its bytes without reading them all.
struct ModelFile {
  uint64_t device = 0, inode = 0;
  Hash256 id;
};

struct VerifyFault {
  std::string where;    // "segs/ab/ab12….seg at 4096" or "catalog"
  std::string what;     // "chunk 12ab…: checksum differs"
  std::string session;  // a session that uses it, or ""
};

// The engine's check of a session that verify has loaded: the store cannot read its manifest.
using SessionCheck = std::function<Status(const SessionOut& session)>;

enum class ChunkState { kOk, kAbsent, kDamaged };

}  // namespace kvrt
