// Vocabularies to test grammars with, and a sampler that knows nothing but the mask.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/model/gguf.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/grammar_states.h"
#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt::rig {

// A GGUF's tokenizer; or for "bytes" one of all bytes, some pairs of them, two control tokens, a user-defined one and an end token.
inline Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path) {
  VocabSource v;
  std::unique_ptr<GgufFile> file;
  std::vector<std::string> tokens;
  if (path == "bytes") {
    for (int b = 0; b < 256; ++b) append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &tokens.emplace_back());
    for (const char* pair : {"\" :", "\" }", "} }", "{ \"", "a b", "1 2", ", \"", "t r", "tr ue", "\xC4\x80 \xC4\x81"}) {
      const std::string merge = pair;
      tokens.push_back(merge.substr(0, merge.find(' ')) + merge.substr(merge.find(' ') + 1));
    }
    tokens.insert(tokens.end(), {"<think>", "</think>", "<call>", "<|end|>"});
    v.model = "gpt2";
    v.pre = "gpt-2";
    v.tokens.assign(tokens.begin(), tokens.end());
    v.types.assign(tokens.size(), 1);
    for (size_t i = 1; i <= 4; ++i) v.types[tokens.size() - i] = i == 2 ? 4 : 3;
    v.eos = static_cast<int64_t>(tokens.size()) - 1;
  } else {
    KVRT_ASSIGN(file, GgufFile::open(path));
    KVRT_ASSIGN(v.model, file->require_string("tokenizer.ggml.model"));
    v.pre = file->get_string("tokenizer.ggml.pre").value_or("");
    v.tokens = file->get_strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>());
    v.types = file->get_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>());
    v.merges = file->get_strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>());
    v.eos = static_cast<int64_t>(file->get_uint("tokenizer.ggml.eos_token_id").value_or(0));
  }
  return Tokenizer::create(v);
}

// Draws a token of the mask; all alike, but for one draw in five, which prefers tokens that close something.
class MaskSampler {
 public:
  MaskSampler(const Tokenizer& tokenizer, uint64_t seed) : tokenizer_(tokenizer), random_(seed) {}

  // -1: the mask is empty.
  int32_t draw(std::span<const uint64_t> mask) {
    allowed_.clear();
    closing_.clear();
    const bool close = random_() % 5 == 0;
    for (size_t word = 0; word < mask.size(); ++word) {
      for (uint64_t bits = mask[word]; bits; bits &= bits - 1) {
        const auto token = static_cast<int32_t>(word * 64 + static_cast<size_t>(__builtin_ctzll(bits)));
        allowed_.push_back(token);
        if (close && closes(token)) closing_.push_back(token);
      }
    }
    const std::vector<int32_t>& from = closing_.empty() ? allowed_ : closing_;
    return from.empty() ? -1 : from[random_() % from.size()];
  }

 private:
  bool closes(int32_t token) const {
    if (tokenizer_.is_end(token)) return true;
    const char first = tokenizer_.piece(token, true)[0];
    return first == '"' || first == '}' || first == ']';
  }

  const Tokenizer& tokenizer_;
  std::mt19937_64 random_;
  std::vector<int32_t> allowed_, closing_;
};

// The token of each byte, or -1.
inline std::vector<int32_t> byte_tokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens(256, -1);
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocab_size()); ++id) {
    const std::string_view piece = tokenizer.piece(id, false);
    if (piece.size() == 1 && !tokenizer.is_control(id)) tokens[static_cast<uint8_t>(piece[0])] = id;
  }
  return tokens;
}

// The shortest bytes that make an answer of a text, of bytes that have a token; none where a search of so many steps finds none.
inline std::optional<std::string> way_out(const Grammar& grammar, std::string_view text, const std::vector<int32_t>& tokens,
                                          size_t steps_max = 1'000'000) {
  GrammarStates states(grammar.automaton());
  GrammarStates::State at = states.begin();
  for (char c : text) at = states.step(at, static_cast<uint8_t>(c));
  struct Step {
    GrammarStates::State state;
    size_t from;
    char byte;
  };
  std::vector<Step> steps{{at, 0, 0}};
  std::unordered_set<GrammarStates::State> seen{at, GrammarStates::kDead};
  for (size_t i = 0; i < steps.size() && i < steps_max; ++i) {
    if (states.may_end(steps[i].state)) {
      std::string way;
      for (size_t s = i; s != 0; s = steps[s].from) way.insert(way.begin(), steps[s].byte);
      return way;
    }
    for (int b = 0; b < 256; ++b) {
      if (tokens[static_cast<size_t>(b)] < 0) continue;
      const auto to = states.step(steps[i].state, static_cast<uint8_t>(b));
      if (seen.insert(to).second) steps.push_back({to, i, static_cast<char>(b)});
    }
  }
  return std::nullopt;
}

}  // namespace kvrt::rig
