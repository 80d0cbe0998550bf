// TokenLookup: where in a text the last tokens came before, and what followed them there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvrt {

// Not thread-safe. It has the text's tokens and, by chains of equal pairs, the places of each pair: 12 to 24 bytes a token.
class TokenLookup {
 public:
  // `before`: tokens that the text does not have, and that it may repeat.
  explicit TokenLookup(std::span<const int32_t> before);

  // The text grew: `tokens` are all of it.
  void add(std::span<const int32_t> tokens);

  struct Match {
    std::span<const int32_t> next;  // what followed; empty: the last tokens came nowhere
    uint32_t length = 0;            // equal tokens before it, at most kLengthMax
  };
  // The longest match of the text, and of `ahead` after it, with an earlier place. Of equally long ones the one that the last match leads to,
  // else the latest.
  Match find(std::span<const int32_t> ahead = {});

  static constexpr uint32_t kLengthMax = 32;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  void index(uint32_t at);
  uint32_t& chain_of(int32_t first, int32_t second);
  void grow();

  size_t before_ = 0;            // of `all_`, tokens that are not the text's
  std::vector<int32_t> all_;     // `before`, a token that equals none, the text
  std::vector<uint32_t> older_;  // by the place of a pair's second token: that of an earlier pair with the same hash
  std::vector<uint32_t> heads_;  // by hash: the latest
  uint32_t follows_ = kNone;     // the place after the last match's
};

}  // namespace kvrt
