// The arithmetic of results: exp and log of our own, since the C library's differ by machine and version; means, intervals, divergences.
// Everything is a sum in a fixed order, in doubles, without fused operations: the same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cli::eval {

double exp_of(double x);  // within 2 units in the last place; x of at most 700. Less than -700: 0
double log_of(double x);  // x > 0 and normal

// The log of the sum of exp of a row of logits.
double log_sum_exp(std::span<const float> row);

// KL(base || other) of two rows of logits, in nats; never below 0.
double divergence(std::span<const float> base, std::span<const float> other);

size_t best_of(std::span<const float> row);  // the first of the largest

struct Mean {
  double value = 0, half_width = 0;  // of the 95 % interval, by Student's distribution
  uint64_t n = 0;
};
// clusters: by value, ascending: values of one cluster depend on each other, and only clusters do not. Empty: each value is one.
Mean mean_of(std::span<const double> values, std::span<const uint32_t> clusters = {});
// The value that so many of 1,000 do not pass, by the nearest rank.
double per_mille(std::vector<double> values, uint32_t rank);

}  // namespace cli::eval
