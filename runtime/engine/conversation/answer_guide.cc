#include "runtime/engine/conversation/answer_guide.h"

#include <algorithm>

namespace kvrt {

ReasoningCount::ReasoningCount(const ReplyStyle& style, AnswerPlace place)
    : begin_(style.reasoning_begin), end_(style.reasoning_end), inside_(place == AnswerPlace::kReasoning) {
  if (style.format == ReplyFormat::kHarmony) begin_ = "<|channel|>analysis<|message|>", end_ = "<|end|>";
}

void ReasoningCount::add(std::string_view spelled) {
  const bool was_inside = inside_;
  tail_.append(spelled);
  for (;;) {
    const std::string& mark = inside_ ? end_ : begin_;
    const size_t at = mark.empty() ? std::string::npos : tail_.find(mark);
    if (at == std::string::npos) break;
    tail_.erase(0, at + mark.size());
    inside_ = !inside_;
  }
  tail_.erase(0, tail_.size() - std::min(tail_.size(), std::max(begin_.size(), end_.size())));
  tokens_ += was_inside && inside_;
}

AnswerGuide::AnswerGuide(const Tokenizer& tokenizer, std::unique_ptr<GrammarMatcher> matcher)
    : AnswerGuide(tokenizer, std::move(matcher), {{}, AnswerPlace::kContent}, 0, nullptr) {}

AnswerGuide::AnswerGuide(const Tokenizer& tokenizer, std::unique_ptr<GrammarMatcher> matcher, ReasoningCount count, uint64_t reasoning_max,
                         std::unique_ptr<GrammarMatcher> over)
    : tokenizer_(tokenizer),
      matcher_(std::move(matcher)),
      count_(std::move(count)),
      reasoning_max_(reasoning_max),
      over_(std::move(over)) {}

std::span<const uint64_t> AnswerGuide::mask() { return matcher_ ? matcher_->mask() : std::span<const uint64_t>(); }

bool AnswerGuide::accept(int32_t token) {
  if (matcher_ && !matcher_->accept(token)) return false;
  if (!over_) return true;
  count_.add(tokenizer_.piece(token, true));
  if (count_.inside() && count_.tokens() >= reasoning_max_) matcher_ = std::move(over_);
  return true;
}

Status AnswerGuide::status() const { return matcher_ ? matcher_->status() : Status(); }

}  // namespace kvrt
