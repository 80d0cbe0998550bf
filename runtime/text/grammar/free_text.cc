#include "runtime/text/grammar/free_text.h"

#include <algorithm>
#include <map>

#include "runtime/text/grammar/vocab.h"

namespace kvrt {

// The marks as a trie, each node with the longest of its suffixes that begins a mark too (Aho and Corasick, 1975).
struct FreeText::Text::Marks {
  struct Node {
    std::map<Symbol, uint32_t> next;
    uint32_t suffix = 0;
    bool whole = false;  // a mark, which goes on at `to`
    uint32_t to = kNone;
  };
  std::vector<Node> nodes{1};
  std::vector<std::pair<int32_t, bool>> tokens;  // of the marks, sorted; and whether they end the answer
  bool bytes = false;                            // some mark has one, or they are read anyway
  TokenSet rest;                                 // the other tokens that are read whole
  std::vector<char> rest_first;                  // of each of its ids the first byte

  void add(std::span<const Symbol> symbols, uint32_t to) {
    uint32_t at = 0;
    for (Symbol symbol : symbols) {
      const auto [next, fresh] = nodes[at].next.try_emplace(symbol, static_cast<uint32_t>(nodes.size()));
      at = next->second;
      if (fresh) nodes.emplace_back();
    }
    if (!nodes[at].whole) nodes[at].to = to;
    nodes[at].whole = at != 0;
  }

  uint32_t step(uint32_t at, Symbol symbol) const {
    for (;; at = nodes[at].suffix) {
      const auto next = nodes[at].next.find(symbol);
      if (next != nodes[at].next.end()) return next->second;
      if (at == 0) return 0;
    }
  }

  void find_suffixes() {
    std::vector<uint32_t> open{0};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const auto& [symbol, to] : nodes[open[i]].next) {
        Node& node = nodes[to];
        node.suffix = open[i] == 0 ? 0 : step(nodes[open[i]].suffix, symbol);
        const Node& suffix = nodes[node.suffix];
        if (!node.whole && suffix.whole) node.whole = true, node.to = suffix.to;
        open.push_back(to);
      }
    }
  }

  // Where no mark has bytes, tokens of text are read whole, too: then no state depends on their bytes.
  void find_tokens(const GrammarVocab::Impl& vocab) {
    for (const Node& node : nodes) {
      for (const auto& [symbol, to] : node.next) {
        bytes = bytes || symbol < kToken;
        const auto token = static_cast<int32_t>(symbol - kToken);
        if (symbol >= kToken) tokens.emplace_back(token, vocab.is_end(token));
      }
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    auto is_mark = [&](int32_t id) { return std::ranges::binary_search(tokens, id, {}, [](const auto& t) { return t.first; }); };
    rest.others = !bytes;
    for (const auto& [token, ends] : tokens) {
      if (!bytes) rest.ids.push_back(token);
    }
    for (const auto& [text, id] : vocab.hidden) {
      if (bytes && !vocab.is_end(id) && !is_mark(id)) rest.ids.push_back(id);
    }
    std::sort(rest.ids.begin(), rest.ids.end());
    std::map<int32_t, char> first;
    for (const auto& [text, id] : vocab.hidden) first.emplace(id, text.empty() ? '\0' : text[0]);
    for (int32_t id : rest.ids) rest_first.push_back(first[id]);
  }

  // Without those that begin with one of these bytes.
  TokenSet rest_but(std::string_view first) const {
    TokenSet out;
    for (size_t i = 0; i < rest.ids.size(); ++i)
      if (first.find(rest_first[i]) == std::string_view::npos) out.ids.push_back(rest.ids[i]);
    return out;
  }
};

std::vector<FreeText::Symbol> FreeText::symbols(std::string_view text) const {
  const auto& hidden = vocab_.impl().hidden;
  std::vector<Symbol> out;
  while (!text.empty()) {
    const std::string_view token = token_of(text);
    out.push_back(token.empty() ? static_cast<uint8_t>(text[0]) : kToken + static_cast<Symbol>(hidden.find(token)->second));
    text.remove_prefix(std::max<size_t>(token.size(), 1));
  }
  return out;
}

std::string_view FreeText::token_of(std::string_view text) const {
  const auto& hidden = vocab_.impl().hidden;
  while (!text.empty() && hidden.find(text) == hidden.end()) text.remove_suffix(1);
  return text;
}

GrammarBuilder::Part FreeText::read(Symbol symbol) const {
  if (symbol >= kToken) return builder_.token({{static_cast<int32_t>(symbol - kToken)}, false});
  return builder_.bytes(static_cast<uint8_t>(symbol), static_cast<uint8_t>(symbol));
}

GrammarBuilder::Part FreeText::mark(std::string_view text) const {
  GrammarBuilder::Part part = builder_.empty();
  for (Symbol symbol : symbols(text)) part = builder_.sequence(part, read(symbol));
  return part;
}

FreeText::Text FreeText::text(std::span<const Exit> exits, uint32_t end, bool by_bytes) const { return {*this, exits, end, by_bytes}; }
uint32_t FreeText::until(std::span<const Exit> exits, uint32_t end) const { return text(exits, end).begin(); }

FreeText::Text::Text(const FreeText& free, std::span<const Exit> exits, uint32_t end, bool by_bytes) : builder_(&free.builder_), end_(end) {
  auto marks = std::make_shared<Marks>();
  marks->bytes = by_bytes;
  for (const Exit& exit : exits) {
    marks->add(free.symbols(exit.mark), exit.to);
    std::vector<Symbol> spelled;
    for (char c : exit.mark) spelled.push_back(static_cast<uint8_t>(c));
    if (by_bytes) marks->add(spelled, exit.to);
  }
  marks->find_suffixes();
  marks->find_tokens(free.vocab_.impl());
  marks_ = std::move(marks);
  for (const Marks::Node& node : marks_->nodes) nodes_.push_back(node.whole ? kNone : builder_->join());
  for (uint32_t i = 0; i < nodes_.size() && builder_->status().is_ok(); ++i) {
    if (!marks_->nodes[i].whole) builder_->link(nodes_[i], ways(i, {}));
  }
}

uint32_t FreeText::Text::after(uint32_t mark_node) const {
  return marks_->nodes[mark_node].whole ? marks_->nodes[mark_node].to : nodes_[mark_node];
}

std::vector<uint32_t> FreeText::Text::ways(uint32_t mark_node, std::string_view but, bool tokens_too) const {
  std::vector<uint32_t> out;
  auto way = [&](GrammarBuilder::Part part, uint32_t to) {
    builder_->link(part.out, to);
    out.push_back(part.in);
  };
  auto to_of = [&](Symbol byte) {
    return but.find(static_cast<char>(byte)) == std::string_view::npos ? after(marks_->step(mark_node, byte)) : kNone;
  };
  for (Symbol lo = 0, hi; marks_->bytes && lo < kToken; lo = hi) {
    const uint32_t to = to_of(lo);
    for (hi = lo + 1; hi < kToken && to_of(hi) == to;) ++hi;
    if (to != kNone) way(builder_->bytes(static_cast<uint8_t>(lo), static_cast<uint8_t>(hi - 1)), to);
  }
  for (const auto& [token, ends] : marks_->tokens) {
    const uint32_t node = marks_->step(mark_node, kToken + static_cast<Symbol>(token));
    if (after(node) != kNone && !(ends && node == 0)) way(builder_->token({{token}, false}), after(node));
  }
  const TokenSet rest = tokens_too && !marks_->rest.others ? marks_->rest_but(but) : marks_->rest;
  if (rest.others || !rest.ids.empty()) way(builder_->token(rest), nodes_[0]);
  if (end_ != kNone) out.push_back(end_);
  return out;
}

uint32_t FreeText::Text::without(std::string_view read, std::string_view bytes) {
  uint32_t at = 0;
  for (char c : read) at = marks_->step(at, static_cast<uint8_t>(c));
  if (marks_->nodes[at].whole) at = 0;
  const auto [made, fresh] = without_.try_emplace({at, std::string(bytes)}, kNone);
  if (!fresh) return made->second;
  made->second = builder_->join();
  builder_->link(made->second, ways(at, bytes));
  return made->second;
}

uint32_t FreeText::Text::step(uint32_t place, uint8_t byte) const { return marks_->step(place, byte); }
bool FreeText::Text::whole(uint32_t place) const { return marks_->nodes[place].whole; }
uint32_t FreeText::Text::exit(uint32_t place) const { return whole(place) ? marks_->nodes[place].to : kNone; }

uint32_t FreeText::Text::but(uint32_t place, std::string_view bytes) const {
  const uint32_t node = builder_->join();
  builder_->link(node, ways(place, bytes, true));
  return node;
}

}  // namespace kvrt
