// Chances: how often proposals came true, by a rank that its owner gives them. Learned as it goes; a value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvrt {

class Chances {
 public:
  static constexpr size_t kRanks = 8;
  // What is believed of each rank before anything came, as if kBelief proposals had shown it.
  explicit constexpr Chances(const std::array<float, kRanks>& believed) : of_(believed) {}

  float of(size_t rank) const { return of_[rank]; }
  void came(size_t rank, bool right) {
    if (seen_[rank] < kMemory) ++seen_[rank];
    of_[rank] += ((right ? 1.0f : 0.0f) - of_[rank]) / (kBelief + static_cast<float>(seen_[rank]));
  }

 private:
  static constexpr float kBelief = 4;
  static constexpr uint32_t kMemory = 40;  // proposals; older ones fade
  std::array<float, kRanks> of_;
  std::array<uint32_t, kRanks> seen_{};
};

}  // namespace kvrt
