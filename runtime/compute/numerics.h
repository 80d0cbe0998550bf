// The arithmetics that this version's KV may come from: what Backend::numerics() may say, here or on another machine.
#pragma once

#include <span>

namespace kvrt {

inline constexpr const char* kKnownNumerics[] = {"cpu-3",        "cuda-1-sm75",  "cuda-1-sm80",  "cuda-1-sm86",
                                                 "cuda-1-sm87",  "cuda-1-sm89",  "cuda-1-sm90",  "cuda-1-sm100",
                                                 "cuda-1-sm103", "cuda-1-sm110", "cuda-1-sm120", "cuda-1-sm121"};

}  // namespace kvrt
