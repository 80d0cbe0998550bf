// StoredSessions: saves sessions under names, and gives them back. A store does.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "storage/values.h"

namespace kvrt {

// Thread-safe. Names and domains are values, never paths.
class StoredSessions {
 public:
  virtual ~StoredSessions() = default;

  // One save: begin, put every chunk that the store lacks, commit. A save that is destroyed without commit changes nothing. put may be called
  // while other saves run.
  class Save {
   public:
    virtual ~Save() = default;
    virtual std::vector<uint32_t> has(std::span<const NodeIn> chain) = 0;  // by node the numbers of chunks that need not be put, as bits
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
  // The chunks that a session's nodes have on disk: of each key by group, ascending.
  virtual std::vector<std::vector<ChunkSize>> chunk_sizes(std::span<const BlockKey> keys) = 0;
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
  // Whether a session of this process has it open so, or another process, as far as is known.
  virtual bool has_open(std::string_view domain, std::string_view name) = 0;
};

}  // namespace kvrt
