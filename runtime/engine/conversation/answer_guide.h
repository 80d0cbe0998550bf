// AnswerGuide: which tokens may come next in an answer: by its grammar, and by the number of its reasoning tokens.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "runtime/text/reply/reply_parser.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

// Counts the tokens of an answer that are within reasoning; its marks are none of them, nor is a call that begins there.
class ReasoningCount {
 public:
  ReasoningCount(ReplyStyle style, AnswerPlace place);
  void add(std::string_view spelled, bool control = false);  // one token
  uint64_t tokens() const { return tokens_; }
  bool inside() const { return parser_.reasons(); }

 private:
  ReplyParser parser_;
  std::vector<ReplyPart> parts_;
  uint64_t tokens_ = 0;
};

// Not thread-safe. The tokenizer outlives it.
class AnswerGuide {
 public:
  // `matcher`: null binds nothing. After `reasoning_max` tokens of reasoning `over`, if it is not null, goes on in its place.
  AnswerGuide(const Tokenizer& tokenizer, std::unique_ptr<GrammarMatcher> matcher, ReasoningCount count, uint64_t reasoning_max,
              std::unique_ptr<GrammarMatcher> over);

  AnswerGuide(const AnswerGuide& other);  // goes on from the state of `other`

  std::span<const uint64_t> mask();  // GrammarMatcher::mask; empty: any token
  bool accept(int32_t token);        // GrammarMatcher::accept
  Status status() const;             // GrammarMatcher::status

 private:
  const Tokenizer& tokenizer_;
  std::unique_ptr<GrammarMatcher> matcher_;
  ReasoningCount count_;
  uint64_t reasoning_max_ = 0;
  std::unique_ptr<GrammarMatcher> over_;  // null: it has, or never will
};

}  // namespace kvrt
