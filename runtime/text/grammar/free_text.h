// Text that a grammar leaves free until a mark comes, and the marks themselves: </think>, <tool_call>. A piece of a mark that the vocabulary
// has a control token for is that token; all else is bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"

namespace kvrt {

class FreeText {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Exit {
    std::string_view mark;
    uint32_t to = kNone;  // the node where the text goes on after the mark; kNone: the mark may not come
  };

  // Both outlive it.
  FreeText(const GrammarVocab& vocab, GrammarBuilder* builder) : vocab_(vocab), builder_(*builder) {}

  // The mark, as a part of a rule.
  GrammarBuilder::Part mark(std::string_view text) const;
  // The node where free text begins: any bytes and control tokens, but for those that end the answer, until the first mark that is whole.
  // `end`: the node where it may also go on at any place; kNone: only a mark ends it.
  uint32_t until(std::span<const Exit> exits, uint32_t end = kNone) const;

 private:
  // A byte, or a control token as 256 and its id.
  using Symbol = uint32_t;
  static constexpr Symbol kToken = 256;
  std::vector<Symbol> symbols(std::string_view text) const;
  GrammarBuilder::Part read(Symbol symbol) const;

  const GrammarVocab& vocab_;
  GrammarBuilder& builder_;
};

}  // namespace kvrt
