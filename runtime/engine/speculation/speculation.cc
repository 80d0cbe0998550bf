#include "runtime/engine/speculation/speculation.h"

#include <algorithm>

namespace kvrt {

uint8_t Draft::rank_of(float probability) {
  constexpr float kEnds[] = {0.3f, 0.5f, 0.65f, 0.8f, 0.9f, 0.96f, 0.99f};
  return static_cast<uint8_t>(std::upper_bound(std::begin(kEnds), std::end(kEnds), probability) - std::begin(kEnds));
}

uint8_t Speculation::rank_of_match(uint32_t length) {
  constexpr uint32_t kEnds[] = {3, 4, 5, 7, 10, 16, 32};
  return static_cast<uint8_t>(std::upper_bound(std::begin(kEnds), std::end(kEnds), length) - std::begin(kEnds));
}

bool Speculation::learn(std::span<const int32_t> tokens) {
  constexpr double kLearn = 0.07;
  bool drafted = false;
  for (size_t i = 0; i < proposed.size() && at + i < tokens.size(); ++i) {
    const Token& token = proposed[i];
    const bool right = tokens[at + i] == token.token;
    if (token.source == Source::kLookup) by_match.came(token.rank, right);
    if (token.source == Source::kDraft) {
      by_draft.came(token.rank, right);
      draft_right += (right - draft_right) * kLearn;
      drafted = true;
    }
    if (!right) break;
  }
  proposed.clear();
  return drafted;
}

}  // namespace kvrt
