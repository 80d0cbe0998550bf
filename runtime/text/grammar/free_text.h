// Text that a grammar leaves free until a mark comes, and the marks themselves: </think>, <tool_call>. A piece of a mark that the vocabulary
// has a control token for is that token; all else is bytes.
#pragma once

#include <cstdint>
#include <memory>
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
  class Text;

  // Both outlive it.
  FreeText(const GrammarVocab& vocab, GrammarBuilder* builder) : vocab_(vocab), builder_(*builder) {}

  bool begins_with_token(std::string_view mark) const { return !mark.empty() && symbols(mark).front() >= kToken; }
  // The mark, as a part of a rule.
  GrammarBuilder::Part mark(std::string_view text) const;
  // Free text: any bytes and control tokens, but for those that end the answer, until the first mark that is whole. `end`: the node where it
  // may also go on at any place; kNone: only a mark ends it.
  Text text(std::span<const Exit> exits, uint32_t end = kNone) const;
  uint32_t until(std::span<const Exit> exits, uint32_t end = kNone) const;  // where such a text begins

 private:
  // A byte, or a control token as 256 and its id.
  using Symbol = uint32_t;
  static constexpr Symbol kToken = 256;
  std::vector<Symbol> symbols(std::string_view text) const;
  GrammarBuilder::Part read(Symbol symbol) const;

  const GrammarVocab& vocab_;
  GrammarBuilder& builder_;
};

// A free text whose nodes are there.
class FreeText::Text {
 public:
  uint32_t begin() const { return nodes_[0]; }
  // The node of a text that begins with none of these bytes. `others`: where the text goes on after a control token of no mark, as it would
  // at its begin.
  uint32_t begin_but(std::string_view bytes, uint32_t others) const;
  uint32_t begin_but(std::string_view bytes) const { return begin_but(bytes, begin()); }

 private:
  friend class FreeText;
  struct Marks;
  Text(const FreeText& free, std::span<const Exit> exits, uint32_t end);
  uint32_t after(uint32_t mark_node) const;
  std::vector<uint32_t> ways(uint32_t mark_node, std::string_view but, uint32_t others) const;

  GrammarBuilder* builder_;
  std::shared_ptr<const Marks> marks_;
  uint32_t end_;
  std::vector<uint32_t> nodes_;  // by the marks' node: how much of a mark has come
};

}  // namespace kvrt
