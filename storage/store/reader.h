// Reader and Lister: the connections by which a store reads its catalog.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/base/mutex.h"
#include "storage/catalog/catalog.h"
#include "storage/store/store_context.h"

namespace kvrt {

// For look-ups: they take its mutex only, and so do not wait for the disk when a writer does. No other mutex of the store is taken under it.
class Reader {
 public:
  explicit Reader(StoreContext* store) : store_(store) {}

  bool has(const ChunkKey& chunk);
  std::vector<uint32_t> find(std::span<const NodeIn> chain);  // as ChunkSource
  // Where the chunk lies. None: the store lacks it, or it is known to be bad.
  Result<std::optional<ChunkLocation>> locate(const ChunkKey& chunk);
  std::vector<std::vector<ChunkSize>> chunk_sizes(std::span<const BlockKey> keys);

  // Chunks that were found bad while the catalog could not be told: they count as absent until a save brings them.
  std::optional<ChunkState> note_bad(const ChunkKey& chunk, const ChunkLocation& at);  // none: it lies elsewhere by now
  ChunkKeys bad_of(std::span<const ChunkPlace> chunks);
  void forget_bad(const ChunkKeys& chunks);

  Mutex mutex;
  Catalog catalog KVRT_GUARDED_BY(mutex);  // its connection sees committed rows only

 private:
  StoreContext* const store_;
  ChunkKeys bad_ KVRT_GUARDED_BY(mutex);
};

// For lists, which may walk every chain: no look-up waits for one. No other mutex of the store is taken under its own.
struct Lister {
  Mutex mutex;
  Catalog catalog KVRT_GUARDED_BY(mutex);
};

}  // namespace kvrt
