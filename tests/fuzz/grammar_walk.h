// Rules for any grammar that compiles: for the fuzz targets of its two notations.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "runtime/base/limits.h"
#include "tests/fuzz/require.h"
#include "tests/support/grammar_rig.h"

namespace kvrt::fuzz {

struct Vocabulary {
  std::unique_ptr<Tokenizer> tokenizer = std::move(rig::open_tokenizer("bytes")).value();
  std::shared_ptr<const GrammarVocab> tries = GrammarVocab::make(*tokenizer);
};

inline const Vocabulary& vocabulary() {
  static const Vocabulary one;
  return one;
}

// Tokens of the mask, drawn by the seed, are accepted, lead on or to an end, and no other token is accepted; a replay agrees.
inline void walk(const std::shared_ptr<const Grammar>& grammar, uint64_t seed) {
  const Tokenizer& tokenizer = *vocabulary().tokenizer;
  GrammarMatcher matcher(grammar, vocabulary().tries), replay(grammar, vocabulary().tries);
  const bool text_alone = grammar->automaton().token_sets.empty();
  std::mt19937_64 random(seed);
  rig::MaskSampler sampler(tokenizer, seed);
  for (int n = 0; n < 40; ++n) {
    const auto mask = matcher.mask();
    const auto other = static_cast<int32_t>(random() % tokenizer.vocab_size());
    const bool other_may = (mask[static_cast<size_t>(other) / 64] >> (other % 64)) & 1;
    const int32_t token = sampler.draw(mask);
    require(token >= 0 || !matcher.status().is_ok(), "something may come");
    if (token < 0) return;
    const bool ends = tokenizer.is_end(token), may_end = matcher.may_end();
    require(!matcher.complete() || ends, "nothing but the end comes after a complete answer");
    if (!matcher.status().is_ok()) {  // readings were left out: sound, but mask and accept may leave out different ones
      if (!matcher.accept(token)) return;
      if (ends) return;
      continue;
    }
    if (!other_may) require(!matcher.accept(other), "a token outside of the mask is refused");
    require(matcher.accept(token) || !matcher.status().is_ok(), "a token of the mask is accepted");
    if (ends) {
      require(may_end || !text_alone, "an end comes where it may, or where it is named");
      return;
    }
    if (!matcher.status().is_ok()) continue;
    require(replay.accept(token) && replay.may_end() == matcher.may_end() && replay.complete() == matcher.complete(), "a replay agrees");
  }
}

}  // namespace kvrt::fuzz
