// LeadingTokens: how many of a vocabulary's first tokens are nearly all that texts use. Vocabularies begin with what is frequent.
#pragma once

#include <array>
#include <cstdint>

namespace kvrt {

// Learned from the texts as they come; a value.
class LeadingTokens {
 public:
  explicit LeadingTokens(uint32_t vocab) : vocab_(vocab) {}
  void add(int32_t token);
  // The least count, of kParts, that kEnough of the tokens seen lie below; all of them while few were seen.
  uint32_t enough() const;

 private:
  static constexpr uint32_t kParts = 32;
  uint32_t vocab_;
  uint64_t total_ = 0;
  std::array<uint64_t, kParts> seen_{};  // by part of the vocabulary
};

}  // namespace kvrt
