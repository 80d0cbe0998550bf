// SavePlan: what a save writes of a session: its conversation as it is now, the nodes of its tokens, and where the KV of each is.
#pragma once

#include <functional>
#include <vector>

#include "runtime/engine/loaded_model.h"
#include "runtime/engine/session.h"
#include "storage/values.h"

namespace kvrt {

// The session may change once this is made: tokens, messages and the tail's KV are copies; the bytes of full blocks do not change while the save
// holds them.
struct SavePlan {
  struct Chunk {
    size_t node;  // in `nodes`
    BlockKey key, parent;
    std::span<const int32_t> tokens;
    BlockId block = kNoBlock;  // kNoBlock: its bytes are in SavePlan::tail
  };
  Conversation said;
  std::vector<BlockKey> keys;  // of the full blocks
  std::vector<Chunk> chunks;   // whose KV is in memory
  std::vector<NodeIn> nodes;   // full blocks, then the tail that has KV
  std::vector<uint8_t> tail;
  uint64_t tail_begin = 0, tail_end = 0, pending_begin = 0;  // pending: tokens without KV
  SavedSession::Mark mark;
  uint64_t blocks = 0;  // full ones among the chunks
};

// A tail is written with all of a block, so that saves in short turn would write one block many times. Of it there is what the store has
// (kStored); or, once it has grown by enough, all (kGrown); or all (kWhole).
enum class SaveTail { kStored, kGrown, kWhole };

// `copy` copies a block's bytes out; false: the device did not give them. Under Engine's lock.
SavePlan plan_save(const LoadedModel& model, KvCache* cache, Session* session, SaveTail which,
                   const std::function<bool(BlockId block, std::vector<uint8_t>* to)>& copy);

}  // namespace kvrt
