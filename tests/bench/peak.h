// The most that a core can do, measured now: the ceilings that the benchmarks' shares refer to.
#pragma once

#include <cstdint>

namespace kvrt_bench {

// 10^9 multiply-accumulates a second; 0 where the machine lacks the instruction.
struct Peak {
  double fma_256, fma_512;  // f32
  double maddubs_256;       // 8-bit products: vpmaddubsw and the vpaddw that it needs
  double dot_512;           // 8-bit products: vpdpbusd
  double fma_256_median;    // not the best pass but the middle one: where it lags behind, something else runs on the machine
};

// `threads` pinned threads together, each by the best of several short runs.
Peak measure_peak(uint32_t threads);

}  // namespace kvrt_bench
