#include "bindings/cli/eval/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cli::eval {

namespace {

constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;  // their sum is ln 2, to 86 bits

// What Student's distribution of so many degrees of freedom has 97.5 % below. Past the table: within 0.5 % of it.
double student_975(size_t freedom) {
  constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                               2.120,  2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  return freedom <= std::size(kTable) ? kTable[freedom - 1] : 1.96 + 2.4 / static_cast<double>(freedom);
}

double power_of_two(int64_t k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }

}  // namespace

// x = k ln 2 + r, |r| <= 0.35: exp x is 2^k times the series of exp r.
double exp_of(double x) {
  if (x < -700) return 0;
  const double k = std::floor(x * 0x1.71547652b82fep0 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0 / 6227020800.0;  // 1 / 13!
  for (const double inverse : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0,
                               1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0})
    sum = sum * r + inverse;
  return sum * power_of_two(static_cast<int64_t>(k));
}

// x = 2^k m, m within sqrt(1/2) and sqrt(2): log m is 2 artanh of (m - 1) / (m + 1).
double log_of(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int64_t k = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xf'ffff'ffff'ffffu) | 0x3ff0'0000'0000'0000u);
  if (m > 0x1.6a09e667f3bcdp0) m *= 0.5, ++k;
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int n = 25; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  const auto exponent = static_cast<double>(k);
  return exponent * kLn2High + (2 * s * sum + exponent * kLn2Low);
}

double log_sum_exp(std::span<const float> row) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += exp_of(static_cast<double>(x) - most);
  return most + log_of(sum);
}

double divergence(std::span<const float> base, std::span<const float> other) {
  const double of_base = log_sum_exp(base), of_other = log_sum_exp(other);
  double sum = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double p = static_cast<double>(base[i]) - of_base;
    sum += exp_of(p) * (p - (static_cast<double>(other[i]) - of_other));
  }
  return std::max(sum, 0.0);
}

size_t best_of(std::span<const float> row) { return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin()); }

Mean mean_of(std::span<const double> values, std::span<const uint32_t> clusters) {
  Mean out;
  out.n = values.size();
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0, off = 0;  // off: of a cluster, the sum of what its values are above the mean
  for (const double v : values) sum += v;
  out.value = sum / n;
  size_t count = 0;  // clusters
  for (size_t i = 0; i < values.size(); ++i) {
    off += values[i] - out.value;
    if (i + 1 < values.size() && !clusters.empty() && clusters[i + 1] == clusters[i]) continue;
    squares += off * off;
    off = 0;
    ++count;
  }
  const auto groups = static_cast<double>(count);
  if (count > 1) out.half_width = student_975(count - 1) * std::sqrt(squares * groups / (groups - 1)) / n;
  return out;
}

double per_mille(std::vector<double> values, uint32_t rank) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t at = (values.size() * rank + 999) / 1000;
  return values[at == 0 ? 0 : at - 1];
}

}  // namespace cli::eval
