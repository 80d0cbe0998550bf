#include "runtime/text/grammar/free_text.h"

#include <algorithm>
#include <map>

#include "runtime/text/grammar/vocab.h"

namespace kvrt {

namespace {

// The marks as a trie, each node with the longest of its suffixes that begins a mark too (Aho and Corasick, 1975).
struct MarkTrie {
  struct Node {
    std::map<uint32_t, uint32_t> next;
    uint32_t suffix = 0;
    const FreeText::Exit* exit = nullptr;
  };
  std::vector<Node> nodes{1};

  void add(std::span<const uint32_t> symbols, const FreeText::Exit& exit) {
    uint32_t at = 0;
    for (uint32_t symbol : symbols) {
      const auto [next, fresh] = nodes[at].next.try_emplace(symbol, static_cast<uint32_t>(nodes.size()));
      at = next->second;
      if (fresh) nodes.emplace_back();
    }
    if (!nodes[at].exit) nodes[at].exit = &exit;
  }

  uint32_t step(uint32_t at, uint32_t symbol) const {
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
        nodes[to].suffix = open[i] == 0 ? 0 : step(nodes[open[i]].suffix, symbol);
        if (!nodes[to].exit) nodes[to].exit = nodes[nodes[to].suffix].exit;
        open.push_back(to);
      }
    }
  }
};

}  // namespace

std::vector<FreeText::Symbol> FreeText::symbols(std::string_view text) const {
  const auto& hidden = vocab_.impl().hidden;
  std::vector<Symbol> out;
  while (!text.empty()) {
    size_t size = text.size();  // of the longest control token that the text begins with
    while (size > 0 && hidden.find(text.substr(0, size)) == hidden.end()) --size;
    out.push_back(size == 0 ? static_cast<uint8_t>(text[0]) : kToken + static_cast<Symbol>(hidden.find(text.substr(0, size))->second));
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
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

uint32_t FreeText::until(std::span<const Exit> exits, uint32_t end) const {
  MarkTrie trie;
  std::vector<int32_t> tokens;  // that a mark has
  bool bytes = false;           // some mark has one
  for (const Exit& exit : exits) {
    const std::vector<Symbol> mark = symbols(exit.mark);
    for (Symbol symbol : mark) {
      bytes = bytes || symbol < kToken;
      if (symbol >= kToken) tokens.push_back(static_cast<int32_t>(symbol - kToken));
    }
    if (!mark.empty()) trie.add(mark, exit);
  }
  trie.find_suffixes();
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  TokenSet rest{tokens, true};  // where no mark has bytes, tokens of text are read whole
  if (bytes) {
    rest = {};
    for (const auto& [text, id] : vocab_.impl().hidden) {
      if (!vocab_.impl().is_end(id) && !std::binary_search(tokens.begin(), tokens.end(), id)) rest.ids.push_back(id);
    }
    std::sort(rest.ids.begin(), rest.ids.end());
  }

  std::vector<uint32_t> joins;
  for (const MarkTrie::Node& node : trie.nodes) joins.push_back(node.exit ? kNone : builder_.join());
  // The node after a symbol; kNone: a mark that may not come is whole.
  auto after = [&](uint32_t node) { return trie.nodes[node].exit ? trie.nodes[node].exit->to : joins[node]; };
  for (uint32_t node = 0; node < trie.nodes.size() && builder_.status().is_ok(); ++node) {
    if (trie.nodes[node].exit) continue;
    std::vector<uint32_t> ways;
    auto way = [&](GrammarBuilder::Part part, uint32_t to) {
      builder_.link(part.out, to);
      ways.push_back(part.in);
    };
    for (uint32_t lo = 0, hi; bytes && lo < kToken; lo = hi) {
      const uint32_t to = trie.step(node, lo);
      for (hi = lo + 1; hi < kToken && trie.step(node, hi) == to;) ++hi;
      if (after(to) != kNone) way(builder_.bytes(static_cast<uint8_t>(lo), static_cast<uint8_t>(hi - 1)), after(to));
    }
    for (int32_t token : tokens) {
      const uint32_t to = trie.step(node, kToken + static_cast<Symbol>(token));
      const bool ends = to == 0 && vocab_.impl().is_end(token);
      if (!ends && after(to) != kNone) way(builder_.token({{token}, false}), after(to));
    }
    if (rest.others || !rest.ids.empty()) way(builder_.token(rest), joins[0]);
    if (end != kNone) ways.push_back(end);
    builder_.link(joins[node], ways);
  }
  return joins[0];
}

}  // namespace kvrt
