// ChunkLoads: the chunks of a store that fill a session's holes, with a block for each, and the outcome of each read.
#pragma once

#include <string>
#include <vector>

#include "runtime/compute/step.h"
#include "runtime/engine/loaded_model.h"
#include "runtime/engine/loop/scheduler.h"
#include "storage/store/store.h"

namespace kvrt {

// The chains under which the store may have chunks of a session: its full blocks, these with the tail that was saved, and the chain of
// another arithmetic's snapshot. The session's keys are known. The spans point into its tokens. Under Engine's lock.
std::vector<std::vector<NodeIn>> stored_chains(const Session& session);

// Its destructor gives the cache back the blocks that were not put into the session's table. Under Engine's lock, but for read().
class ChunkLoads {
 public:
  explicit ChunkLoads(KvCache* cache) : cache_(cache) {}
  ~ChunkLoads();
  ChunkLoads(const ChunkLoads&) = delete;
  ChunkLoads& operator=(const ChunkLoads&) = delete;

  // Finds the chunks that the store has for the session's missing blocks, with a block for each as long as the scheduler gives one. A
  // session that takes no part in the prefix cache finds its own chunks alone.
  void plan(Session* session, Scheduler* scheduler);
  bool empty() const { return list_.empty(); }
  // Reads on several threads: some wait for the disk while others decode. The caller's thread reports progress. False: progress stopped it.
  // `pool` is the blocks' memory.
  bool read(const Runtime& runtime, const KvGeometry& kv, uint8_t* pool, Store* store, const Progress& progress);
  // Puts the blocks that were read into the session's table. True: the store forgot a damaged chunk.
  bool put_into(Session* session, const Runtime& runtime);

 private:
  struct Load {
    uint32_t index = 0;  // of the block in the table
    NodeIn node;         // its tokens are the session's, which do not change while its caller waits
    BlockId block = kNoBlock;
    ChunkState state = ChunkState::kAbsent;
    std::string damage;
    bool tried = false;
  };
  void plan_own(Session* session, Scheduler* scheduler);
  void plan_foreign(Session* session, Scheduler* scheduler);
  bool add(uint32_t index, const NodeIn& node, const Session& session, Scheduler* scheduler);  // false: there is no block for it
  bool has(uint32_t index) const;

  KvCache* const cache_;
  std::vector<Load> list_;
};

}  // namespace kvrt
