// The oracle: the right results, computed from the token list alone. Nothing is kept, nothing is shared.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/sampling/sampler.h"
#include "runtime/engine/session/session.h"
#include "tests/sim/toy.h"

namespace kvrt::test {

// The KV of the next position in each group; `state` then has seen it.
inline std::vector<uint64_t> oracle_kv(ToyState* state, size_t groups, int32_t token, uint64_t position) {
  std::vector<uint64_t> values;
  for (uint32_t g = 0; g < groups; ++g) values.push_back(state->kv(g, token, position));
  for (uint32_t g = 0; g < groups; ++g) state->see(g, values[g]);
  return values;
}

// The logits after all of `tokens`. windows: by group of layers.
inline std::vector<float> oracle_row(std::span<const int32_t> tokens, uint32_t vocab, std::span<const uint32_t> windows) {
  ToyState state(windows);
  for (size_t p = 0; p < tokens.size(); ++p) oracle_kv(&state, windows.size(), tokens[p], p);
  std::vector<float> row(vocab);
  toy_logits(state.state(), row);
  return row;
}

// mask: of the grammar; empty: none.
inline Sample oracle_sample(std::span<const float> row, const GenerateOptions& o, std::span<const int32_t> tokens, size_t prompt,
                            std::span<const uint64_t> mask = {}) {
  return sample(row, o.sampling, tokens, prompt, tokens.size(), mask);
}

// The next tokens of an answer that begins after `tokens`, up to the first that there is none of.
inline std::vector<int32_t> oracle_tokens(std::span<const int32_t> tokens, std::span<const uint32_t> windows, uint32_t vocab,
                                          const SamplingOptions& sampling, uint64_t count) {
  std::vector<int32_t> all(tokens.begin(), tokens.end());
  ToyState state(windows);
  for (size_t p = 0; p < all.size(); ++p) oracle_kv(&state, windows.size(), all[p], p);
  std::vector<float> row(vocab);
  while (all.size() < tokens.size() + count) {
    toy_logits(state.state(), row);
    const Sample next = sample(row, sampling, all, tokens.size(), all.size());
    if (!next.finite || next.empty) break;
    all.push_back(next.token);
    oracle_kv(&state, windows.size(), next.token, all.size() - 1);
  }
  return {all.begin() + static_cast<ptrdiff_t>(tokens.size()), all.end()};
}

// Whether tokens[prompt..] end a generation, why, and how many of them hold bytes of the stop string.
inline Reason oracle_end(const Tokenizer& t, const GenerateOptions& o, std::span<const int32_t> tokens, size_t prompt, size_t room,
                         uint32_t* stop_tokens) {
  std::string text;
  std::vector<size_t> ends;
  for (size_t i = prompt; i < tokens.size(); ++i) {
    text += t.piece_after(i ? tokens[i - 1] : -1, tokens[i], false);
    ends.push_back(text.size());
  }
  size_t stop = std::string::npos;
  for (const std::string& s : o.stop_strings) stop = std::min(stop, text.find(s));
  *stop_tokens = 0;
  if (stop != std::string::npos)
    *stop_tokens = static_cast<uint32_t>(std::count_if(ends.begin(), ends.end(), [&](size_t e) { return e > stop; }));
  int32_t last = tokens.back();
  if (t.is_end(last) && !o.ignore_eos) return *stop_tokens = 0, Reason::kEos;
  if (stop != std::string::npos || std::count(o.stop_tokens.begin(), o.stop_tokens.end(), last)) return Reason::kStop;
  if (o.max_tokens && tokens.size() - prompt >= o.max_tokens) return Reason::kMaxTokens;
  return tokens.size() >= room ? Reason::kContextFull : Reason::kNone;
}

// tokens[from..to) as text: bytes that are no UTF-8 become U+FFFD.
inline std::string oracle_text(const Tokenizer& t, std::span<const int32_t> tokens, size_t from, size_t to, bool special) {
  Utf8Stream utf8;
  std::string text(utf8.push(t.decode(tokens.subspan(from, to - from), special, from ? tokens[from - 1] : -1)));
  text += utf8.finish();
  return text;
}

// The text that a host is shown of tokens[prompt..]: whole code points up to the stop string.
inline std::string oracle_shown(const Tokenizer& t, const GenerateOptions& o, std::span<const int32_t> tokens, size_t prompt) {
  std::string text = oracle_text(t, tokens, prompt, tokens.size(), false);
  size_t stop = std::string::npos;
  for (const std::string& s : o.stop_strings) stop = std::min(stop, text.find(s));
  return text.substr(0, stop);
}

// What an answer that began at `begin` says, of which the last generation made the tokens from `prompt` on: without what its stop string cut off.
inline std::string oracle_answer(const Tokenizer& t, const GenerateOptions& o, std::span<const int32_t> tokens, size_t begin,
                                 size_t prompt) {
  Utf8Stream before;
  const size_t from = before.push(t.decode(tokens.subspan(begin, prompt - begin), false, begin ? tokens[begin - 1] : -1)).size();
  std::string text = oracle_text(t, tokens, begin, tokens.size(), false);
  size_t stop = std::string::npos;
  for (const std::string& s : o.stop_strings) stop = std::min(stop, text.find(s, from));
  return text.substr(0, stop);
}

struct Said {
  std::string role, content;
  uint64_t begin = 0, end = 0;
  bool generated = false;
};

// The toy's template by hand.
inline std::string oracle_render(const std::vector<Said>& messages, bool generation_prompt) {
  std::string text;
  for (const Said& m : messages) text += "<|im_start|>" + m.role + "\n" + m.content + "<|im_end|>\n";
  return generation_prompt ? text + "<|im_start|>assistant\n" : text;
}

}  // namespace kvrt::test
