// GrammarCache: what binds answers, compiled once for all generations that ask for the same: agents send the same schema, or the same tools,
// with every call. A Driver owns it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/engine/conversation/answer_guide.h"
#include "runtime/engine/conversation/conversation.h"

namespace kvrt {

// Thread-safe. Under its lock only those of masks are taken. Grammars are compiled without it: two sessions that ask for the same new one
// at the same time each compile it.
class GrammarCache {
 public:
  // The tokenizer outlives it.
  explicit GrammarCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // The guide of an answer from its begin on; null: nothing binds it.
  Result<std::unique_ptr<AnswerGuide>> guide(const AnswerRules& rules);
  // Takes the answer's tokens again; `guide` may be null. INVALID: one does not fit, or ends it.
  Status replay(const Conversation& said, AnswerGuide* guide) const;

 private:
  struct Kept {
    AnswerRules rules;
    std::shared_ptr<GrammarMasks> masks;  // null: they bind nothing
  };
  // For one more: the last used that are not too many, nor too large together.
  void make_room() KVRT_REQUIRES(mu_);
  // Before the first token; null: nothing is bound.
  Result<std::unique_ptr<GrammarMatcher>> matcher(const AnswerRules& rules);
  // The last used from now on; null: it is not kept.
  const Kept* find(const AnswerRules& rules) KVRT_REQUIRES(mu_);
  std::shared_ptr<const GrammarVocab> vocab();

  const Tokenizer& tokenizer_;
  Mutex mu_;
  std::shared_ptr<const GrammarVocab> vocab_ KVRT_GUARDED_BY(mu_);  // made for the first grammar
  std::vector<Kept> kept_ KVRT_GUARDED_BY(mu_);                     // the last used at the end
};

}  // namespace kvrt
