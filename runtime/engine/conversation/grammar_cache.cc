#include "runtime/engine/conversation/grammar_cache.h"

#include <algorithm>
#include <tuple>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {

bool same(const AnswerRules& a, const AnswerRules& b) {
  auto fields = [](const AnswerRules& r) {
    return std::tie(r.style.format, r.style.family, r.place, r.kind, r.source, r.choice, r.tool_name, r.tools, r.calls_max,
                    r.reasoning_over);
  };
  return fields(a) == fields(b);
}

}  // namespace

void GrammarCache::make_room() {
  size_t bytes = 0, first = kept_.size();
  auto size = [](const Kept& kept) { return kept.rules.source.size() + kept.rules.tools.size() + (kept.masks ? kept.masks->bytes() : 0); };
  while (first > 0 && kept_.size() - first + 1 < kGrammarsKept && (bytes += size(kept_[first - 1])) <= kGrammarsKeptBytes) --first;
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(first));
}

const GrammarCache::Kept* GrammarCache::find(const AnswerRules& rules) {
  auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return same(kept.rules, rules); });
  if (found == kept_.end()) return nullptr;
  std::rotate(found, found + 1, kept_.end());
  return &kept_.back();
}

std::shared_ptr<const GrammarVocab> GrammarCache::vocab() {
  Lock lock(mu_);
  if (!vocab_) vocab_ = GrammarVocab::make(tokenizer_);
  return vocab_;
}

Result<std::unique_ptr<GrammarMatcher>> GrammarCache::matcher(const AnswerRules& rules) {
  auto of = [](const Kept& kept) { return kept.masks ? std::make_unique<GrammarMatcher>(kept.masks) : nullptr; };
  {
    Lock lock(mu_);
    if (const Kept* kept = find(rules)) return of(*kept);
  }
  const auto words = vocab();
  KVRT_ASSIGN(auto grammar, answer_grammar(rules, *words));
  Kept made{rules, grammar ? GrammarMasks::make(std::move(grammar), words) : nullptr};
  Lock lock(mu_);
  if (const Kept* kept = find(rules)) return of(*kept);  // another session was first
  make_room();
  kept_.push_back(std::move(made));
  return of(kept_.back());
}

Result<std::unique_ptr<AnswerGuide>> GrammarCache::guide(const AnswerRules& rules) {
  KVRT_ASSIGN(auto now, matcher(rules));
  std::unique_ptr<GrammarMatcher> over;
  const bool reasons = rules.style.format == ReplyFormat::kHarmony || !rules.style.reasoning_end.empty();
  if (rules.reasoning_tokens_max > 0 && reasons && rules.place != AnswerPlace::kClosed) {
    AnswerRules rest = rules;
    rest.reasoning_over = true;
    rest.place = AnswerPlace::kReasoning;
    KVRT_ASSIGN(over, matcher(rest));
  }
  if (!now && !over) return std::unique_ptr<AnswerGuide>();
  ReplyStyle style = rules.style;
  const bool schema = rules.kind == GrammarKind::kJsonSchema || rules.kind == GrammarKind::kJsonSchemaOpen;
  if (schema) style.bound = true, style.calls = rules.choice == ToolChoice::kAuto;
  if (over && !rules.tools.empty()) style.tools = read_reply_tools(rules.tools);
  return std::make_unique<AnswerGuide>(tokenizer_, std::move(now), ReasoningCount(style, rules.place), rules.reasoning_tokens_max,
                                       std::move(over));
}

Status GrammarCache::replay(const Conversation& said, AnswerGuide* guide) const {
  for (uint64_t i = said.grammar.begin; i < said.tokens.size(); ++i) {
    if (tokenizer_.is_end(said.tokens[i])) {
      return error(Code::kInvalid, Detail::kState,
                   "grammar_kind is CONTINUE, the answer came to its end, or a message ended it, at token %llu",
                   static_cast<unsigned long long>(i));
    }
    if (guide && !guide->accept(said.tokens[i])) {
      return error(Code::kInvalid, Detail::kState,
                   "grammar_kind is CONTINUE, token %llu does not fit the grammar of the answer from token %llu on",
                   static_cast<unsigned long long>(i), static_cast<unsigned long long>(said.grammar.begin));
    }
  }
  return {};
}

}  // namespace kvrt
