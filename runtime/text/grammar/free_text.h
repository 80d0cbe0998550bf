// Text that a grammar leaves free until a mark comes, and the marks themselves: </think>, <tool_call>. A piece of a mark that the vocabulary
// has a control token for is that token; all else is bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  std::string_view token_of(std::string_view text) const;  // the control token that it begins with; "": none
  // The mark, as a part of a rule.
  GrammarBuilder::Part mark(std::string_view text) const;
  // Free text: any bytes and control tokens, but for those that end the answer, until the first mark that is whole. `end`: the node where it
  // may also go on at any place; kNone: only a mark ends it. `by_bytes`: its tokens are read by their bytes, as Text::without and Text::but need,
  // and marks that are control tokens also as text.
  Text text(std::span<const Exit> exits, uint32_t end = kNone, bool by_bytes = false) const;
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
  // The node of a text that begins with `read`, after these bytes, and goes on with none of `bytes`.
  uint32_t without(std::string_view read, std::string_view bytes);

  // Places in it, for what is read beside it: 0 is its begin.
  uint32_t step(uint32_t place, uint8_t byte) const;
  bool whole(uint32_t place) const;     // a mark ends there,
  uint32_t exit(uint32_t place) const;  // and goes on here; kNone: nowhere, or none does
  // Where it goes on from a place, but with none of these bytes, nor by a control token that begins with one and is of no mark.
  uint32_t but(uint32_t place, std::string_view bytes) const;

 private:
  friend class FreeText;
  struct Marks;
  Text(const FreeText& free, std::span<const Exit> exits, uint32_t end, bool by_bytes);
  uint32_t after(uint32_t mark_node) const;
  std::vector<uint32_t> ways(uint32_t mark_node, std::string_view but, bool tokens_too = false) const;

  GrammarBuilder* builder_;
  std::shared_ptr<const Marks> marks_;
  uint32_t end_;
  std::vector<uint32_t> nodes_;  // by the marks' node: how much of a mark has come
  std::map<std::pair<uint32_t, std::string>, uint32_t> without_;
};

}  // namespace kvrt
