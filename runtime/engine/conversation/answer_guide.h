// AnswerGuide: which tokens may come next in an answer: by its grammar, and by the number of its reasoning tokens.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/text/grammar/grammar.h"
#include "runtime/text/reply/parser.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

// Counts the tokens of an answer that are within reasoning; its marks are none of them.
class ReasoningCount {
 public:
  ReasoningCount(const ReplyStyle& style, AnswerPlace place);
  void add(std::string_view spelled);  // one token
  uint64_t tokens() const { return tokens_; }
  bool inside() const { return inside_; }

 private:
  std::string begin_, end_;
  bool inside_;
  std::string tail_;  // that may be the begin of the next mark
  uint64_t tokens_ = 0;
};

// Not thread-safe. The tokenizer outlives it.
class AnswerGuide {
 public:
  // `matcher`: null binds nothing. After `reasoning_max` tokens of reasoning, not 0, `over` goes on in its place.
  AnswerGuide(const Tokenizer& tokenizer, std::unique_ptr<GrammarMatcher> matcher);
  AnswerGuide(const Tokenizer& tokenizer, std::unique_ptr<GrammarMatcher> matcher, ReasoningCount count, uint64_t reasoning_max,
              std::unique_ptr<GrammarMatcher> over);

  std::span<const uint64_t> mask();  // GrammarMatcher::mask; empty: any token
  bool accept(int32_t token);        // GrammarMatcher::accept
  Status status() const;             // GrammarMatcher::status

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<GrammarMatcher> matcher_;
  ReasoningCount count_;
  uint64_t reasoning_max_ = 0;
  std::unique_ptr<GrammarMatcher> over_;  // null: not needed any more
};

}  // namespace kvrt
