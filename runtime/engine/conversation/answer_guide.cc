#include "runtime/engine/conversation/answer_guide.h"

#include <utility>

namespace kvrt {

namespace {

ReplyStyle placed(ReplyStyle style, AnswerPlace place) {
  style.begin = place;
  return style;
}

}  // namespace

ReasoningCount::ReasoningCount(ReplyStyle style, AnswerPlace place) : parser_(placed(style, place)) {
  const bool channel = style.format == ReplyFormat::kHarmony && place == AnswerPlace::kReasoning;
  if (channel) parser_.push("<|channel|>analysis<|message|>", false, &parts_);  // its parser has no such place to begin at
}

void ReasoningCount::add(std::string_view spelled, bool control) {
  const bool was_inside = inside();
  parts_.clear();
  parser_.push(spelled, control, &parts_);
  tokens_ += was_inside && inside();
}

AnswerGuide::AnswerGuide(const Tokenizer& tokenizer, std::unique_ptr<GrammarMatcher> matcher, ReasoningCount count, uint64_t reasoning_max,
                         std::unique_ptr<GrammarMatcher> over)
    : tokenizer_(tokenizer),
      matcher_(std::move(matcher)),
      count_(std::move(count)),
      reasoning_max_(reasoning_max),
      over_(std::move(over)) {}

AnswerGuide::AnswerGuide(const AnswerGuide& other)
    : tokenizer_(other.tokenizer_),
      matcher_(other.matcher_ ? std::make_unique<GrammarMatcher>(*other.matcher_) : nullptr),
      count_(other.count_),
      reasoning_max_(other.reasoning_max_),
      over_(other.over_ ? std::make_unique<GrammarMatcher>(*other.over_) : nullptr) {}

std::span<const uint64_t> AnswerGuide::mask() { return matcher_ ? matcher_->mask() : std::span<const uint64_t>(); }

bool AnswerGuide::accept(int32_t token) {
  if (matcher_ && !matcher_->accept(token)) return false;
  if (!over_) return true;
  count_.add(tokenizer_.piece(token, true), tokenizer_.is_control(token));
  if (count_.inside() && count_.tokens() >= reasoning_max_) matcher_ = std::move(over_);
  return true;
}

Status AnswerGuide::status() const { return matcher_ ? matcher_->status() : Status(); }

}  // namespace kvrt
