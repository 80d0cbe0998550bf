// Speculation: what a generation proposes for its next step, and what it learned from earlier proposals.
#pragma once

#include <optional>
#include <vector>

#include "runtime/engine/speculation/draft.h"
#include "runtime/engine/speculation/token_lookup.h"

namespace kvrt {

// Its Generation owns it. The leader of a step alone uses it, while the session is in the step, or under Engine's lock.
struct Speculation {
  enum class Source : uint8_t { kGrammar, kLookup, kDraft };
  struct Token : Proposed {
    Source source = Source::kGrammar;
  };

  // The chances of looked-up tokens by the match's length, of a draft's by its own probability.
  static constexpr Chances kLookedUp{{0.2f, 0.35f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 0.95f}};
  static constexpr Chances kDrafted{{0.2f, 0.35f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 0.97f}};
  static uint8_t rank_of_match(uint32_t length);

  // What the tokens since the last proposal say of it, up to its first that did not come. True: it was a draft's.
  bool learn(std::span<const int32_t> tokens);

  uint64_t at = 0;              // the position of the first proposed token
  uint32_t most = 0;            // tokens to propose, by what the generation has room for
  std::vector<Token> proposed;  // valid while the session has `at` tokens

  std::optional<TokenLookup> lookup;
  Chances by_match = kLookedUp, by_draft = kDrafted;

  double draft_right = 0;  // the share of drafted tokens that come; 0: not known
  double unsure = 0.5;     // the share of steps for which nothing likely was looked up
  uint32_t rest = 0;       // steps for which the draft is not asked
  uint32_t rests = 0;      // those after the last time that it gave nothing
};

}  // namespace kvrt
