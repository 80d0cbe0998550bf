// Drafting: a model that proposes tokens for sessions of other models, in sessions of its own.
#pragma once

#include "runtime/engine/driver.h"
#include "runtime/engine/session/conversations.h"
#include "runtime/engine/sessions.h"
#include "runtime/engine/speculation/leading_tokens.h"

namespace kvrt {

// Thread-safe; a draft belongs to one thread at a time. A draft's session has a pool's blocks as any other, is never saved, and gives its blocks
// first. Its calls are those of a host.
class Drafting final : public DraftModel {
 public:
  // `self` keeps the model, with all that this uses, as long as a draft is open.
  Drafting(std::weak_ptr<Drafting> self, Env* env, const LoadedModel* model, Sessions* sessions, Conversations* conversations,
           Driver* driver)
      : self_(std::move(self)),
        env_(env),
        model_(*model),
        sessions_(sessions),
        conversations_(conversations),
        driver_(driver),
        leading_(model->tokenizer().vocab_size()) {}

  std::unique_ptr<Draft> open(const std::string& domain, bool share) override;
  uint64_t run(std::span<Draft* const> drafts, uint64_t deadline_ns, const std::function<bool()>& enough) override;
  uint64_t weight_bytes() const override { return model_.weights() ? model_.weights()->weight_bytes : 1; }

  // INCOMPATIBLE where an id that both vocabularies have is another token in the target's.
  Status check_vocabulary(const Tokenizer& target);

 private:
  class Own;

  // The leading tokens of the vocabulary that are nearly all that may come, when these came, too.
  uint32_t vocab_wanted(std::span<const int32_t> more);

  const std::weak_ptr<Drafting> self_;
  Env* const env_;
  const LoadedModel& model_;
  Sessions* const sessions_;
  Conversations* const conversations_;
  Driver* const driver_;
  Mutex mu_;
  LeadingTokens leading_ KVRT_GUARDED_BY(mu_);     // of what the sessions have
  std::vector<Hash256> fit_ KVRT_GUARDED_BY(mu_);  // vocabularies that were compared, and fit
};

}  // namespace kvrt
