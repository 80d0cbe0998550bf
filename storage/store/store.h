// Store: a directory of sessions. Tokens are the truth (catalog), KV chunks are a cache (segments); the SQLite commit is the
// only commit point. Knows bytes, keys and token ids; never heard of tensors. Format: storage/FORMAT.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace kvrt {

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
  uint64_t gen_seen = 0;  // generation this handle last saw; 0: never saved under this name
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
  uint64_t gen = 0;
  SessionId id;  // the one given, or a new one: the session that had it goes on under another name
};

struct SessionOut {
  std::string domain, name;
  SessionId id;
  uint64_t gen = 0;
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
  uint64_t gen = 0, tokens = 0;
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

// Thread-safe. Several processes, and several handles of one, may have a directory open at once.
class Store {
 public:
  static Result<std::unique_ptr<Store>> open(Env* env, Log* log, const std::string& path, const StoreOptions& options);
  virtual ~Store() = default;

  // Chunks. has: one flag per node of a chain that begins at its root; one that collides with another chain's key is not there, nor is what
  // comes after it. read: decodes, verifies checksum, key, parent and token ids, into exactly out.size() bytes;
  // kAbsent / kDamaged is a hole for the caller to recompute (a damaged chunk is forgotten, so the next save writes it again).
  virtual std::vector<bool> has(std::span<const NodeIn> chain) = 0;
  virtual ChunkState read(const NodeIn& node, uint32_t layout, std::span<uint8_t> out, std::string* damage) = 0;
  // Forgets chunks of a chain, whose frames are as they were written and yet no good, as damage is. The count.
  virtual uint64_t discard(std::span<const NodeIn> chain, const std::string& why) = 0;
  // Of the frame of each key on disk; 0: it is not there.
  virtual std::vector<uint64_t> chunk_bytes(std::span<const BlockKey> keys) = 0;

  // One save: begin, put every chunk that the store lacks, commit. Dropped without commit: nothing happened but garbage,
  // which is removed. put may be called while other saves run.
  class Save {
   public:
    virtual ~Save() = default;
    virtual std::vector<bool> has(std::span<const NodeIn> chain) = 0;  // what need not be put
    virtual Status put(const ChunkIn& chunk) = 0;                      // compresses and appends; no-op if the store has it
    // CONFLICT names the current generation. BUSY (kConcurrent): a chunk that has() or put() counted on was removed since; nothing
    // happened, and a save that begins with reuse_chunks = false cannot meet it.
    virtual Result<Saved> commit(const SessionIn& session) = 0;
    virtual uint64_t bytes_written() const = 0;
    virtual uint64_t chunks_written() const = 0;
  };
  virtual Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks = true, const SavedBy& by = {}) = 0;

  // An expired session is NOT_FOUND to all of these, and its name is free.
  virtual Result<SessionOut> load(std::string_view domain, std::string_view name) = 0;
  virtual Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains) = 0;
  virtual Result<SessionStat> stat(std::string_view domain, std::string_view name) = 0;
  virtual Status remove(std::string_view domain, std::string_view name) = 0;                       // frees chunks that no session needs
  virtual Status rename(std::string_view domain, std::string_view from, std::string_view to) = 0;  // CONFLICT when `to` exists
  virtual Status pin(std::string_view domain, std::string_view name, uint8_t priority) = 0;        // a pinned session never expires
  virtual Status set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) = 0;    // from now; 0: for ever
  // Removes expired sessions, chunks that no session needs, and files that no row names; writes segments anew of which less than half is
  // live, and zeroes dead chunks in the others, what removed rows left in the catalog, and its log. In slices; progress returns false to stop after one (CANCELLED), and what is left is for the next gc.
  virtual Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) = 0;
  // Reads every frame and row; a session that `check`, where it is given, finds wrong is a fault. progress returns false to stop (CANCELLED).
  virtual Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                                  const SessionCheck& check = nullptr) = 0;
  virtual Result<StoreInfo> info() = 0;
  // Removes catalog.db.old and damaged-<n>; the bytes that were in them.
  virtual Result<uint64_t> remove_old() = 0;

  // The cache of model_id by file, so that a model is hashed once. False: not there, of other bytes, or a row that is wrong.
  virtual bool cached_model_id(const ModelFile& file, Hash256* out) = 0;
  virtual void cache_model_id(const ModelFile& file, const Hash256& id) = 0;
};

}  // namespace kvrt
