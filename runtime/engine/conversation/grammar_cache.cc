#include "runtime/engine/conversation/grammar_cache.h"

#include <algorithm>

#include "runtime/base/limits.h"

namespace kvrt {

void GrammarCache::make_room() {
  size_t bytes = 0, first = kept_.size();
  while (first > 0 && kept_.size() - first + 1 < kGrammarsKept && (bytes += kept_[first - 1].masks->bytes()) <= kGrammarsKeptBytes) --first;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(first));
}

Result<std::unique_ptr<GrammarMatcher>> GrammarCache::fresh(GrammarKind kind, const std::string& source) {
  Lock lock(mu_);
  auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& g) { return g.kind == kind && g.source == source; });
  if (found == kept_.end()) {
    if (!vocab_) vocab_ = GrammarVocab::make(tokenizer_);
    const auto members = kind == GrammarKind::kJsonSchemaOpen ? SchemaMembers::kOpen : SchemaMembers::kClosed;
    KVRT_ASSIGN(auto grammar,
                kind == GrammarKind::kGbnf ? Grammar::from_gbnf(source, vocab_.get()) : Grammar::from_json_schema(source, members));
    make_room();
    kept_.push_back({kind, source, GrammarMasks::make(std::move(grammar), vocab_)});
  } else {
    std::rotate(found, found + 1, kept_.end());  // the last used at the end
  }
  return std::make_unique<GrammarMatcher>(kept_.back().masks);
}

Result<std::unique_ptr<GrammarMatcher>> GrammarCache::matcher(const Conversation& said, const GenerateOptions& options) {
  std::unique_ptr<GrammarMatcher> matcher;
  if (options.grammar_kind == GrammarKind::kNone) return matcher;
  const bool goes_on = options.grammar_kind == GrammarKind::kContinue;
  const AnswerGrammar& last = said.grammar;
  if (goes_on && last.kind == GrammarKind::kNone) {
    return error(Code::kInvalid, Detail::kState,
                 "grammar_kind is CONTINUE, the session's last generation had no grammar or was truncated away");
  }
  KVRT_ASSIGN(matcher, goes_on ? fresh(last.kind, last.source) : fresh(options.grammar_kind, options.grammar));
  for (uint64_t i = last.begin; goes_on && i < said.tokens.size(); ++i) {
    if (tokenizer_.is_end(said.tokens[i])) {
      return error(Code::kInvalid, Detail::kState, "grammar_kind is CONTINUE, the answer came to its end at token %llu",
                   static_cast<unsigned long long>(i));
    }
    if (!matcher->accept(said.tokens[i])) {
      return error(Code::kInvalid, Detail::kState,
                   "grammar_kind is CONTINUE, token %llu does not fit the grammar of the answer from token %llu on",
                   static_cast<unsigned long long>(i), static_cast<unsigned long long>(last.begin));
    }
  }
  return matcher;
}

}  // namespace kvrt
