// A vocabulary of the 256 bytes and of what a test adds, grammars over it, and what a mask has.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/grammar_states.h"
#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "runtime/text/unicode/code_points.h"

namespace kvrt {

// `more`: tokens with their types.
inline std::unique_ptr<Tokenizer> byte_tokenizer(const std::vector<std::pair<std::string, int64_t>>& more = {}) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &tokens.emplace_back());
  VocabSource s;
  s.model = "gpt2";
  s.pre = "gpt-2";
  s.types.assign(256, 1);
  for (const auto& [text, type] : more) tokens.push_back(text), s.types.push_back(type);
  s.tokens.assign(tokens.begin(), tokens.end());
  auto made = Tokenizer::create(s);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return std::move(made).value();
}

inline std::vector<int32_t> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  EXPECT_TRUE(tokenizer.encode(text, false, &ids).is_ok());
  return ids;
}

inline std::shared_ptr<const Grammar> gbnf(std::string_view source, const GrammarVocab* vocab = nullptr) {
  auto grammar = Grammar::from_gbnf(source, vocab);
  EXPECT_TRUE(grammar.is_ok()) << grammar.status().message();
  return grammar.is_ok() ? grammar.value() : nullptr;
}

// Whether the text is an answer, by its bytes.
inline bool fits(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar.automaton());
  auto at = states.begin();
  for (char c : text) {
    at = states.step(at, static_cast<uint8_t>(c));
    if (at == GrammarStates::kDead) return false;
  }
  return states.may_end(at);
}

inline bool has(std::span<const uint64_t> mask, int32_t token) { return (mask[static_cast<size_t>(token) / 64] >> (token % 64)) & 1; }

}  // namespace kvrt
