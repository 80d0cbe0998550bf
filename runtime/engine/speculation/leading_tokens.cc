#include "runtime/engine/speculation/leading_tokens.h"

namespace kvrt {

namespace {
constexpr uint64_t kFewSeen = 64, kForgetFrom = 1 << 16;  // tokens; from so many on the older half counts half
constexpr double kEnough = 0.97;
}  // namespace

void LeadingTokens::add(int32_t token) {
  ++seen_[uint64_t{static_cast<uint32_t>(token)} * kParts / vocab_];
  if (++total_ < kForgetFrom) return;
  total_ = 0;
  for (uint64_t& count : seen_) total_ += count /= 2;
}

uint32_t LeadingTokens::enough() const {
  if (total_ < kFewSeen) return vocab_;
  uint64_t below = 0;
  for (uint64_t part = 0; part < kParts; ++part) {
    below += seen_[part];
    if (static_cast<double>(below) >= kEnough * static_cast<double>(total_)) {
      return static_cast<uint32_t>(((part + 1) * vocab_ + kParts - 1) / kParts);
    }
  }
  return vocab_;
}

}  // namespace kvrt
