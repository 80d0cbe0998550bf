// SavePlan: the content of a save: the session's conversation as it is now, the nodes of its tokens, and the place of each node's KV.
#pragma once

#include <vector>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/session/session.h"
#include "storage/values.h"

namespace kvrt {

// The session may change once the plan is made: tokens and messages are copies; the bytes of blocks do not change while the save holds them.
struct SavePlan {
  struct Chunk {
    size_t node;  // in `nodes`
    uint32_t group;
    BlockId block = kNoBlock;    // kNoBlock: its bytes are in SavePlan::tails
    std::vector<BlockId> units;  // of the block
  };
  struct Tail {
    BlockId block;
    std::vector<BlockId> units;
  };
  // Without the tail, which the device did not give.
  void leave_tail(const KvShape& shape);

  Conversation said;
  BlockKey root;                                             // before the first node
  uint32_t block_tokens = 0;                                 // of a full node
  std::vector<BlockKey> keys;                                // of the full blocks
  std::vector<Chunk> chunks;                                 // those with KV in memory
  std::vector<NodeIn> nodes;                                 // full blocks, then the part of the tail that has KV
  std::vector<uint32_t> needs;                               // by node: bit g, a resume needs its KV in group g, as SessionGroup says
  std::vector<Tail> tail_blocks;                             // by group; none: the tail is not copied
  std::vector<std::vector<uint8_t>> tails;                   // likewise their bytes, once the save has its copy
  uint64_t tail_begin = 0, tail_end = 0, pending_begin = 0;  // pending: tokens without KV
  SavedSession::Mark mark;
  uint64_t blocks = 0;  // full blocks among the chunks
};

// A tail is written with the space of a whole block, so saves in quick succession would write one block many times. A plan has the tail
// that the store has (kStored); or, once the tail has grown by enough, all of it (kGrown); or always all of it (kWhole).
enum class SaveTail { kStored, kGrown, kWhole };

// Under Engine's lock.
SavePlan plan_save(const LoadedModel& model, KvCache* cache, Session* session, SaveTail which);

}  // namespace kvrt
