// Committer: takes a finished step's results to its sessions: KV that is there now, tokens, stop rules, events.
#pragma once

#include "runtime/engine/step/boundary_marker.h"
#include "runtime/engine/step/generations.h"
#include "runtime/engine/step/mailboxes.h"
#include "runtime/engine/step/pace.h"
#include "runtime/engine/step/reports.h"
#include "runtime/engine/step/speculator.h"
#include "runtime/engine/step/step_plan.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

// Guarded by Engine's lock. Bookkeeping only: it never touches the bytes of a block.
class Committer {
 public:
  Committer(KvCache* cache, Reports* reports, Generations* generations, Mailboxes* mailboxes, Pace* pace, Speculator* speculator,
            BoundaryMarker* marker)
      : cache_(cache),
        block_tokens_(cache->block_tokens()),
        reports_(reports),
        generations_(generations),
        mailboxes_(mailboxes),
        pace_(pace),
        speculator_(speculator),
        marker_(marker) {}

  // `logits` are the rows of the step.
  void commit(StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns);
  // Instead of commit, if compute did not come to its end: takes the plan back. Its blocks were not written.
  void abandon(StepPlan* plan) noexcept;
  // Likewise if the device failed: the step's generations end with `status`; their sessions keep tokens and earlier KV.
  void fail_step(StepPlan* plan, const Status& status);
  // Takes the host's token for the row that the session awaits it for.
  void accept(Session* session, const Sample& sample, const Tokenizer& tokenizer, uint64_t now_ns);

 private:
  void give_back_ahead(Session* session) noexcept;
  void finish(Session* session, Reason reason, uint64_t now_ns);
  void take_rows(const PlannedSeq& seq, uint64_t begin, uint64_t end);
  void commit_seq(const PlannedSeq& seq, StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns);
  void commit_prompt(const PlannedSeq& seq, const float* logits, uint32_t vocab);
  bool commit_row(Session* session, Sample sample, const float* row, const Tokenizer& tokenizer, uint64_t now_ns);
  void commit_rows(const PlannedSeq& seq, StepPlan* plan, const float* logits, const Tokenizer& tokenizer, uint64_t now_ns);
  bool compute_again(Session* session);
  void commit_token(Session* session, const Sample& sample, const Tokenizer& tokenizer, uint64_t now_ns);

  KvCache* const cache_;
  const uint32_t block_tokens_;
  Reports* const reports_;
  Generations* const generations_;
  Mailboxes* const mailboxes_;
  Pace* const pace_;
  Speculator* const speculator_;
  BoundaryMarker* const marker_;
};

}  // namespace kvrt
