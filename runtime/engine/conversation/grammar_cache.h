// GrammarCache: grammars by their source, compiled once for all generations that use them: agents send the same schema with every call.
// An Engine owns it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/engine/generation.h"

namespace kvrt {

// Thread-safe; its lock is held while a grammar is compiled, and over those of masks alone.
class GrammarCache {
 public:
  // The tokenizer outlives it.
  explicit GrammarCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // A matcher for a generation with these options, at its place before the first token; null: there is no grammar.
  Result<std::unique_ptr<GrammarMatcher>> matcher(const Conversation& said, const GenerateOptions& options);

 private:
  struct Kept {
    GrammarKind kind;
    std::string source;
    std::shared_ptr<GrammarMasks> masks;
  };
  // For one more: the last used that are not too many, nor too large together.
  void make_room() KVRT_REQUIRES(mu_);
  // Before the first token.
  Result<std::unique_ptr<GrammarMatcher>> fresh(GrammarKind kind, const std::string& source);

  const Tokenizer& tokenizer_;
  Mutex mu_;
  std::shared_ptr<const GrammarVocab> vocab_ KVRT_GUARDED_BY(mu_);  // made for the first grammar
  std::vector<Kept> kept_ KVRT_GUARDED_BY(mu_);                     // the last used at the end
};

}  // namespace kvrt
