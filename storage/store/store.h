// Store: a directory of sessions. Tokens are the truth (catalog), KV chunks are a cache (segments); the SQLite commit is the
// only commit point. Knows bytes, keys and token ids; never heard of tensors. Format: storage/FORMAT.md.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "storage/chunk_source.h"
#include "storage/store/store_care.h"
#include "storage/store/stored_sessions.h"

namespace kvrt {

// All that a store is. What reads KV of it takes a ChunkSource, what saves and loads takes StoredSessions, what looks after it StoreCare.
// Thread-safe. Several processes, and several handles of one, may have a directory open at once.
class Store : public ChunkSource, public StoredSessions, public StoreCare {
 public:
  static Result<std::unique_ptr<Store>> open(Env* env, Log* log, const std::string& path, const StoreOptions& options);

  // The cache of model_id by file, so that a model is hashed once. False: there is no row, it is for other bytes, or it is wrong.
  virtual bool cached_model_id(const ModelFile& file, Hash256* out) = 0;
  virtual void cache_model_id(const ModelFile& file, const Hash256& id) = 0;
};

}  // namespace kvrt
