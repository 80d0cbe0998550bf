// GrammarVocab keeps the tokens that are text as two tries over their bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"

namespace kvrt {

// A trie whose nodes are in preorder: those under n are (n, nodes[n].next). Tokens are in the same order: tokens[nodes[n].first,
// nodes[n + 1].first) end at n, and those up to nodes[nodes[n].next].first end at or under it.
struct TokenTrie {
  struct Node {
    uint32_t next, first;
    uint16_t depth;  // in bytes, from 1
    uint8_t byte;
    uint8_t longest;  // the longest token at or under it, in characters; plain text only
  };
  std::vector<Node> nodes;      // and one more, which only has a `first`
  std::vector<uint64_t> below;  // by node: the kinds of the bytes under it
  std::vector<int32_t> tokens;
  uint32_t depth_max = 0;
};

// The kind of a byte, as one of 64 bits: most states do not tell bytes of one kind apart.
uint64_t byte_kind(uint8_t byte);

struct GrammarVocab::Impl {
  uint32_t tokens = 0;
  size_t words() const { return (tokens + 63) / 64; }
  TokenTrie plain;  // tokens that are whole characters of plain_text, at most kPlainRunMax of them
  TokenTrie other;
  std::vector<std::vector<uint64_t>> plain_masks;  // [n]: the plain tokens of at most n characters
  std::vector<uint32_t> offsets;                   // where each token's bytes begin; a token without bytes is not text
  std::string bytes;
  std::vector<uint64_t> end_mask;
  std::vector<uint64_t> ordinary_mask;                 // tokens that models write, and that end nothing
  std::vector<int32_t> texts;                          // tokens of text by their bytes
  std::map<std::string, int32_t, std::less<>> hidden;  // the other tokens by their spelling
  std::string_view text(int32_t token) const {
    const auto i = static_cast<size_t>(token);
    return std::string_view(bytes).substr(offsets[i], offsets[i + 1] - offsets[i]);
  }
  static bool has(const std::vector<uint64_t>& mask, int32_t token) { return (mask[static_cast<size_t>(token) / 64] >> (token % 64)) & 1; }
  bool is_end(int32_t token) const { return has(end_mask, token); }
};

}  // namespace kvrt
