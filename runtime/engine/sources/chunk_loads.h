// ChunkLoads: the chunks of a store that fill a session's holes, with blocks for each, and the outcome of each read.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/sources/kv_chunks.h"
#include "runtime/engine/step/supply.h"
#include "storage/store/store.h"

namespace kvrt {

// The chains under which the store may have chunks of a session: its full blocks, these with the tail that was saved, and the chain of
// another arithmetic's snapshot. The session's keys are known. The spans point into its tokens. Under Engine's lock.
std::vector<std::vector<NodeIn>> stored_chains(const Session& session);

// Its destructor gives the cache back the blocks that were not put into the session's tables. Under Engine's lock, but for read().
class ChunkLoads {
 public:
  // `chunks`: of the model, by number.
  ChunkLoads(const KvGroups& kv, std::span<const KvChunk> chunks, KvCache* cache) : kv_(kv), chunks_(chunks), cache_(cache) {}
  ~ChunkLoads();
  ChunkLoads(const ChunkLoads&) = delete;
  ChunkLoads& operator=(const ChunkLoads&) = delete;

  // Finds the chunks that the store has for the session's missing blocks, with blocks for each as long as the supply has them: of
  // groups with windows the last two windows that lead to KV, and of all others everything. A session that takes no part in the prefix
  // cache finds its own chunks alone.
  void plan(Session* session, Supply* supply);
  bool empty() const { return list_.empty(); }
  // Reads on several threads: some wait for the disk while others decode. The caller's thread reports progress. False: progress stopped it.
  // `pool` is the units' memory.
  bool read(const Runtime& runtime, uint8_t* pool, Store* store, const Progress& progress);
  // Puts the blocks that were read into the session's tables. True: the store forgot a damaged chunk.
  bool put_into(Session* session, const Runtime& runtime);

 private:
  // A block that a chunk fills.
  struct Target {
    uint32_t group = 0;
    BlockId block = kNoBlock;
    std::vector<BlockId> units;
  };
  struct Load {
    uint32_t index = 0;   // of the blocks in the tables
    uint32_t number = 0;  // of the chunk
    NodeIn node;          // its tokens are the session's, which do not change while its caller waits
    std::vector<Target> targets;
    ChunkState state = ChunkState::kAbsent;
    std::string damage;
    bool tried = false;
  };
  void plan_own(Session* session, Supply* supply);
  void plan_foreign(Session* session, Supply* supply);
  // Loads of a node's chunks for these groups, as bits. False: there are no blocks for them.
  bool add(uint32_t index, const NodeIn& node, uint32_t chunks, uint32_t groups, const Session& session, Supply* supply);
  bool add_chunk(uint32_t index, const NodeIn& node, uint32_t number, uint32_t groups, const Session& session, Supply* supply);
  uint32_t planned(uint32_t index) const;  // groups
  Status read_one(Load* load, Backend* backend, uint8_t* pool, Store* store, std::vector<uint8_t>* payload);

  const KvGroups& kv_;
  const std::span<const KvChunk> chunks_;
  KvCache* const cache_;
  std::vector<Load> list_;
};

}  // namespace kvrt
