// Sines and cosines of rotary positions. Computed in double by our own exp, log, sin and cos: the same bits on every machine.
#pragma once

#include <cstdint>

namespace kvrt {

double rope_log(double x);  // x positive and normal
double rope_exp(double x);  // |x| ≤ 700
// |x| ≤ 2^26
void rope_sincos(double x, double* sin, double* cos);

// inv_freq[i] = base^(-2i / dims), i < dims / 2
void rope_frequencies(float base, uint32_t dims, double* inv_freq);

}  // namespace kvrt
