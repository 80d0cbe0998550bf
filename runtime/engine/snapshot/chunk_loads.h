// ChunkLoads: the chunks of a store that fill a session's holes: which ones, the blocks they go to, and how reading them went.
#pragma once

#include <string>
#include <vector>

#include "runtime/compute/step.h"
#include "runtime/engine/loaded_model.h"
#include "runtime/engine/loop/scheduler.h"
#include "storage/store/store.h"

namespace kvrt {

// The chains under which the store may have chunks of a session: of its full blocks, these with the tail that was saved, and those of another
// arithmetic's snapshot. Its chain is known; the spans are of its tokens. Under Engine's lock.
std::vector<std::vector<NodeIn>> stored_chains(const Session& session);

// Blocks that were not put into the session's table go back to the cache with it. Under Engine's lock but for read().
class ChunkLoads {
 public:
  explicit ChunkLoads(KvCache* cache) : cache_(cache) {}
  ~ChunkLoads();
  ChunkLoads(const ChunkLoads&) = delete;
  ChunkLoads& operator=(const ChunkLoads&) = delete;

  // What the store has for the session's missing blocks, with a block each as far as the scheduler gives some. A session that takes no part in
  // the prefix cache finds its own chunks alone.
  void plan(Session* session, Scheduler* scheduler);
  bool empty() const { return list_.empty(); }
  // Reads on several threads, of which some wait for the disk while the others decode; the caller's reports progress. False when that stopped
  // it. `pool` is the blocks' memory.
  bool read(const Runtime& runtime, const KvGeometry& kv, uint8_t* pool, Store* store, const Progress& progress);
  // Puts what was read into the session's table. True: the store forgot a chunk that was damaged.
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
