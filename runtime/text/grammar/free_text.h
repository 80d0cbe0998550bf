// FreeText makes the parts of a grammar that leave text free until a mark comes, such as </think> or <tool_call>, and those that read a mark.
// If the vocabulary has a control token for a piece of a mark, the grammar reads that token there; all else it reads as bytes.
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

  // The vocabulary and the builder must outlive this object.
  FreeText(const GrammarVocab& vocab, GrammarBuilder* builder) : vocab_(vocab), builder_(*builder) {}

  bool begins_with_token(std::string_view mark) const { return !mark.empty() && symbols(mark).front() >= kToken; }
  std::string_view token_of(std::string_view text) const;  // the control token that `text` begins with; "": it begins with none
  // The part of a rule that reads the mark.
  GrammarBuilder::Part mark(std::string_view text) const;
  // Free text has any bytes, and any control tokens except those that end the answer, up to the first mark that is whole. The text may also
  // end anywhere and go on at the node `end`; kNone: only a mark ends it. With `by_bytes` its tokens are read by their bytes, as Text::without
  // and Text::but need, and a mark that is a control token is also read as text.
  Text text(std::span<const Exit> exits, uint32_t end = kNone, bool by_bytes = false) const;
  uint32_t until(std::span<const Exit> exits, uint32_t end = kNone) const;  // the node where such a text begins

 private:
  // A byte, or a control token as 256 and its id.
  using Symbol = uint32_t;
  static constexpr Symbol kToken = 256;
  std::vector<Symbol> symbols(std::string_view text) const;
  GrammarBuilder::Part read(Symbol symbol) const;

  const GrammarVocab& vocab_;
  GrammarBuilder& builder_;
};

// A free text whose nodes have been made.
class FreeText::Text {
 public:
  uint32_t begin() const { return nodes_[0]; }
  // The node after the bytes `read` of the text's beginning, from which the text does not go on with one of `bytes`.
  uint32_t without(std::string_view read, std::string_view bytes);

  // A place in the text is for those who read it beside the grammar: 0 is its beginning.
  uint32_t step(uint32_t place, uint8_t byte) const;
  bool whole(uint32_t place) const;     // whether a mark ends there
  uint32_t exit(uint32_t place) const;  // the node after that mark; kNone: no mark ends there, or the answer cannot go on after it
  // The node from which the text goes on at a place, but not with one of these bytes, nor with a control token that begins with one of them and
  // is not a piece of a mark.
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
  std::vector<uint32_t> nodes_;  // by node of the marks' trie, which says how much of a mark has come
  std::map<std::pair<uint32_t, std::string>, uint32_t> without_;
};

}  // namespace kvrt
