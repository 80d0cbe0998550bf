// Scheduler: plan() -> Step, commit(). Continuous batching: a step serves every session that generates, prefill chunks and decodes together.
#pragma once

#include <optional>
#include <vector>

#include "runtime/compute/step.h"
#include "runtime/engine/session.h"
#include "runtime/kv/block_pool.h"
#include "runtime/kv/prefix_index.h"
#include "runtime/text/tokenizer.h"

namespace kvrt {

struct SchedulerLimits {
  uint32_t context = 0;
  uint32_t prefill_chunk = 0;  // prompt rows of one session per step
  uint32_t rows_max = 0;       // rows per step
  uint32_t logits_max = 0;     // rows per step that want logits
};

// One session's part of a plan.
struct PlannedSeq {
  Session* session = nullptr;
  uint64_t begin = 0, end = 0;  // positions that run
  bool store_kv = true;
  uint32_t first_logit = 0;  // index of its first row of logits
  uint32_t logit_rows = 0;
};

struct BlockCopy {
  BlockId from, to;
};

// Owns the arrays that Step borrows; refilled by every plan().
struct StepPlan {
  std::vector<PlannedSeq> seqs;
  std::vector<BlockCopy> copies;  // shared or sealed blocks that must become private before they are written
  std::vector<int32_t> tokens, positions;
  std::vector<uint32_t> logits_rows;
  std::vector<StepSeq> step_seqs;
  std::vector<std::vector<int32_t>> tables;
  Step step;
  std::vector<Sample> samples;  // by logits row; filled between plan and commit
  void clear();
};

// All methods under ModelHost's lock; plan and commit by the leader. Bookkeeping only: never touches the bytes of a block.
class Scheduler {
 public:
  Scheduler(uint32_t blocks, uint32_t block_tokens, const SchedulerLimits& limits);

  void add(Session* session);
  void remove(Session* session);  // gives its blocks back
  const std::vector<Session*>& sessions() const { return sessions_; }

  // Sessions that can run now. A session is served while it generates, is not cancelled, and has room in its mailbox.
  bool runnable(const Session& session) const;
  // A runnable session whose prefix was not looked up yet; null when there is none.
  Session* next_cold() const;
  // Fills `plan` from all runnable, warmed sessions. Sessions that the pool cannot serve at all end with LIMIT.
  void plan(StepPlan* plan, uint64_t now_ns);
  // Takes the samples in: tokens, seals, stop rules, events. `logits` are the rows of the step.
  void commit(StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns);

  void touch(Session* session) { session->last_used = ++clock_; }
  // Adopts resident blocks for the leading tokens. Fills keys.
  void adopt_resident(Session* session);
  // Counts reuse into the generation's report, once per generation.
  void count_reuse(Session* session);
  // Why nothing is reused from *at on; moves *at to the first differing token where a resident block has one.
  ReuseStop why_stopped(const Session& session, uint64_t* at) const;
  // Makes full block i, whose bytes are complete, known to others; takes an equal resident block instead when there is one.
  void seal(Session* session, uint32_t i);
  // One free block, after evictions; kNoBlock if there is none.
  BlockId alloc(const Session* for_session);
  void release_blocks(Session* session, uint32_t from_block);  // drops references from this block on
  void finish(Session* session, Reason reason, uint64_t now_ns);
  void fail(Session* session, Status status);
  void extend_keys(Session* session);
  std::span<const int32_t> block_tokens_of(const Session& session, uint32_t i) const;

  BlockPool& pool() { return pool_; }
  const PrefixIndex& index() const { return index_; }
  uint32_t block_tokens() const { return block_tokens_; }
  uint64_t block_bytes = 0;  // for reports

 private:
  struct Run {
    uint64_t begin = 0, end = 0;
    bool store_kv = true;
  };
  Run next_run(const Session& session) const;
  bool plan_session(Session* session, StepPlan* plan);
  uint64_t make_writable(Session* session, const Run& run, StepPlan* plan);
  void mark_filled(const PlannedSeq& seq);
  void commit_prompt(const PlannedSeq& seq, const float* logits, uint32_t vocab);
  void commit_token(Session* session, const Sample& sample, const float* row, const Tokenizer& tokenizer, uint64_t now_ns);
  void drop(BlockId block);

  BlockPool pool_;
  PrefixIndex index_;
  uint32_t block_tokens_;
  SchedulerLimits limits_;
  std::vector<Session*> sessions_;
  size_t turn_ = 0;     // who is planned first
  uint64_t clock_ = 0;  // for Session::last_used
};

}  // namespace kvrt
