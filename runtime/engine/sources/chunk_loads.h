// ChunkLoads: the chunks of a source that fill a session's holes, with blocks for each, and the outcome of each read.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/resources/runtime.h"
#include "runtime/engine/sources/chunk_look_up.h"
#include "runtime/engine/sources/cold_chunks.h"
#include "runtime/engine/sources/kv_memory.h"
#include "runtime/engine/step/supply.h"

namespace kvrt {

// Its destructor gives the cache back the blocks that were not put into the session's tables. Under Engine's lock, but for read().
class ChunkLoads {
 public:
  ChunkLoads(const KvMemory& memory, KvCache* cache) : memory_(memory), cache_(cache) {}
  ~ChunkLoads();
  ChunkLoads(const ChunkLoads&) = delete;
  ChunkLoads& operator=(const ChunkLoads&) = delete;

  // Of the chunks that were found those that the session lacks, with blocks for each as long as the supply has them: of groups with windows
  // the last two windows that lead to KV, and of all others everything. A session that takes no part in the prefix cache gets its own chunks
  // alone.
  void plan(Session* session, const ChunkLookUp& found, Supply* supply);
  bool empty() const { return list_.empty(); }
  // Reads on several threads: some wait for the disk while others decode. The caller's thread reports progress. False: progress stopped it.
  bool read(const Runtime& runtime, ChunkSource* source, const Progress& progress);
  // Puts the blocks that were read into the session's tables. True: the source forgot a damaged chunk.
  bool put_into(Session* session, Log* log);

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
  void plan_own(Session* session, const ChunkLookUp& found);
  void plan_foreign(const Session& session, const ChunkLookUp& found);
  // Loads of a node's chunks for these groups, as bits.
  void add(uint32_t index, const NodeIn& node, uint32_t chunks, uint32_t groups);
  void add_chunk(uint32_t index, const NodeIn& node, uint32_t number, uint32_t groups);
  void take_blocks(const Session& session, Supply* supply);
  uint32_t planned(uint32_t index) const;  // groups
  Status read_one(Load* load, ChunkSource* source, std::vector<uint8_t>* payload);

  ChunkState read_block(const Load& load, ChunkSource* source, std::span<uint8_t> to, std::string* damage) const;

  const KvMemory& memory_;
  KvCache* const cache_;
  std::vector<Load> list_;
  std::shared_ptr<const ColdChunks> cold_;  // null: there are none of the session's
};

}  // namespace kvrt
