// Store: a directory of sessions. Tokens are the truth (catalog), KV chunks are a cache (segments); the SQLite commit is the
// only commit point. Knows bytes, keys and token ids; never heard of tensors. Format: storage/FORMAT.md.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "storage/chunk_source.h"
#include "storage/values.h"

namespace kvrt {

// Thread-safe. Several processes, and several handles of one, may have a directory open at once.
class Store : public ChunkSource {
 public:
  static Result<std::unique_ptr<Store>> open(Env* env, Log* log, const std::string& path, const StoreOptions& options);

  // Forgets a chain's chunks, of all groups, as if they were damaged: their frames are as they were written, but the KV is no good. The
  // count.
  virtual uint64_t discard(std::span<const NodeIn> chain, const std::string& why) = 0;
  // Each key's chunks on disk, by group, ascending.
  virtual std::vector<std::vector<ChunkSize>> chunk_sizes(std::span<const BlockKey> keys) = 0;

  // One save: begin, put every chunk that the store lacks, commit. A save that is destroyed without commit changes nothing. put may be called while other saves run.
  class Save {
   public:
    virtual ~Save() = default;
    virtual std::vector<uint32_t> has(std::span<const NodeIn> chain) = 0;  // the groups that need not be put
    virtual Status put(const ChunkIn& chunk) = 0;                          // compresses and appends; no-op if the store has it
    // CONFLICT names the current revision. BUSY (kConcurrent): a chunk that has() or put() found in the store was removed since. Nothing
    // changed; a save that begins with reuse_chunks = false cannot meet this.
    virtual Result<Saved> commit(const SessionIn& session) = 0;
    virtual uint64_t bytes_written() const = 0;
    virtual uint64_t chunks_written() const = 0;
  };
  virtual Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks = true, const SavedBy& by = {}) = 0;

  // An expired session is NOT_FOUND to all of these, and its name is free.
  // `used`: it is to go on, so its KV is evicted last, and it counts where an eviction has taken KV of it.
  virtual Result<SessionOut> load(std::string_view domain, std::string_view name, bool used = true) = 0;
  virtual Result<std::vector<SessionStat>> list(std::string_view domain, bool all_domains) = 0;
  virtual Result<SessionStat> stat(std::string_view domain, std::string_view name) = 0;
  virtual Status remove(std::string_view domain, std::string_view name) = 0;                       // frees chunks that no session needs
  virtual Status rename(std::string_view domain, std::string_view from, std::string_view to) = 0;  // CONFLICT when `to` exists
  virtual Status pin(std::string_view domain, std::string_view name, uint8_t priority) = 0;        // a pinned session never expires
  virtual Status set_ttl(std::string_view domain, std::string_view name, uint64_t seconds) = 0;    // from now; 0: for ever
  // A name that a session has open for saving, until this is destroyed, which is before the store is. Null: nobody else can be told.
  class OpenName {
   public:
    virtual ~OpenName() = default;
  };
  virtual std::unique_ptr<OpenName> open_name(std::string_view domain, std::string_view name) = 0;
  // Another process that has the name open for saving: its id, or kUnseenProcess; 0: none is known.
  virtual int32_t other_process(std::string_view domain, std::string_view name) = 0;
  // Removes expired sessions, chunks that no session needs, and files that no row names. Writes a segment anew if less than half of it is
  // live; zeroes the dead chunks in the others and the rests of removed rows in the catalog, and empties the log. In slices: progress
  // returns false to stop after one (CANCELLED), and the next gc does the rest.
  virtual Result<GcReport> gc(const std::function<bool(uint64_t done, uint64_t total)>& progress) = 0;
  // Reads every frame and row; a session that `check`, where it is given, finds wrong is a fault. progress returns false to stop (CANCELLED).
  virtual Result<std::vector<VerifyFault>> verify(const std::function<bool(uint64_t done, uint64_t total)>& progress,
                                                  const SessionCheck& check = nullptr) = 0;
  virtual Result<StoreInfo> info() = 0;
  // kGone: the path leads to another catalog now, or to none. What is open reads what it can, and writes nothing. kLogLeft: so it is, but the
  // log or its index is still the open one's, so that nobody may open that other catalog beside it.
  enum class Place { kThere, kGone, kLogLeft };
  virtual Place place() = 0;
  // A store that is read for want of room for the catalog's log writes from now on, if there is room. Every call that writes tries it first.
  virtual void retry_writing() = 0;
  // Removes catalog.db.old and damaged-<n>. Gives the bytes that were in them.
  virtual Result<uint64_t> remove_old() = 0;

  // The cache of model_id by file, so that a model is hashed once. False: there is no row, it is for other bytes, or it is wrong.
  virtual bool cached_model_id(const ModelFile& file, Hash256* out) = 0;
  virtual void cache_model_id(const ModelFile& file, const Hash256& id) = 0;
};

}  // namespace kvrt
