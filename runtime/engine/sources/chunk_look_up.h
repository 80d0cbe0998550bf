// ChunkLookUp: the chains under which a source may have chunks of a session, and which chunks it has of them.
#pragma once

#include <vector>

#include "runtime/engine/session/session.h"
#include "runtime/engine/sources/kv_chunks.h"
#include "storage/chunk_source.h"

namespace kvrt {

// The chains under which a store may have chunks of a session: its full blocks, these with the tail that was saved, and the chain of
// another arithmetic's snapshot. The session's keys are known. The spans point into its tokens. Under Engine's lock.
std::vector<std::vector<NodeIn>> stored_chains(const Session& session);

// 1 if the last row has to run, and goes on from the state before it.
inline uint64_t last_runs(const Session& s) { return s.kv.shape.has_states() && s.generation && !s.tokens.empty(); }

// Made under Engine's lock, then asked without it: the session's tokens do not change meanwhile, for it is in a step or pinned. The answer may
// be old by the time that the lock is there again, and so may be what the session lacked.
class ChunkLookUp {
 public:
  // Of what the session lacks; its keys are known.
  explicit ChunkLookUp(const Session& session);
  bool empty() const { return !own_ && foreign_tokens_ == 0; }
  void ask(ChunkSource* source);
  // Under the lock again: of the answer what is of use to the session, which may have got KV since, and by groups.
  void take(const Session& session, const KvGroups& groups);

  bool own() const { return own_; }  // some full block, or the tail, is of use
  uint64_t tail_begin() const { return tail_begin_; }
  uint64_t tail_end() const { return tail_end_; }

  std::vector<NodeIn> blocks;              // the full ones; this and the next ones: asked
  std::vector<NodeIn> branch;              // those before the tail that was saved, and that tail; empty: it is not wanted
  std::vector<NodeIn> foreign;             // the snapshot that another arithmetic made
  std::vector<uint32_t> has, foreign_has;  // by node of `blocks` and `foreign`: the source's mask of its chunks
  uint32_t tail_has = 0;                   // likewise of the tail; 0: it is of no use
  std::vector<uint32_t> stored, foreign_stored;  // taken: what `has` and `foreign_has` are as masks of groups
  bool tail_whole = false;                       // the tail's chunks have all groups

 private:
  bool wants_blocks(const Session& session) const;
  bool wants_tail(const Session& session) const;  // a tail that was saved, and that the session lacks

  bool own_ = false;  // blocks or branch are asked
  uint64_t tail_begin_, tail_end_;
  const BlockKey foreign_root_;
  const uint64_t foreign_tokens_;
  const std::span<const int32_t> tokens_;
  const uint32_t block_tokens_;
};

}  // namespace kvrt
