// K and V as they are stored, written a second time from NUMERICS.md.
#pragma once

#include <algorithm>
#include <bit>

#include "runtime/compute/step.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {

// All pairs of two formats that differ, f32 among them or not.
inline std::vector<KvFormats> unlike_formats(bool f32) {
  std::vector<KvFormats> pairs;
  for (const KvFormat k : kKvFormats) {
    for (const KvFormat v : kKvFormats) {
      if (k != v && (f32 || (k != KvFormat::kF32 && v != KvFormat::kF32))) pairs.emplace_back(k, v);
    }
  }
  return pairs;
}

// Each format for both, and some pairs of two.
inline std::vector<KvFormats> some_formats() {
  std::vector<KvFormats> all(std::begin(kKvFormats), std::end(kKvFormats));
  const auto [f16, bf16, f32, int8, fp8, int4] = kKvFormats;
  all.insert(all.end(), {{int8, f16}, {f16, fp8}, {bf16, int8}, {fp8, bf16}, {f16, bf16}, {f32, int8}, {int8, int4}, {int4, f16}});
  return all;
}

// The Walsh-Hadamard transform as its recursion has it: of the halves, then their sum and difference.
inline std::vector<float> hadamard(const std::vector<float>& x) {
  if (x.size() == 1) return x;
  const auto middle = x.begin() + static_cast<ptrdiff_t>(x.size() / 2);
  const std::vector<float> a = hadamard({x.begin(), middle}), b = hadamard({middle, x.end()});
  std::vector<float> out(x.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i], out[i + a.size()] = a[i] - b[i];
  return out;
}

inline uint32_t power_of_two_in(uint32_t n) { return n % 2 != 0 ? 1 : 2 * power_of_two_in(n / 2); }

inline double bf16(float f) {  // 8 bits of mantissa, fewer below 2^-126; ties to even
  int exponent = 0;
  std::frexp(double{f}, &exponent);
  const int unit = std::max(exponent - 8, -133);
  return std::ldexp(std::nearbyint(std::ldexp(double{f}, -unit)), unit);
}

// int8 as NUMERICS.md has it: the integers that a head becomes, and their scale.
inline std::vector<int8_t> int8_of(std::vector<float> x, bool key, float* scale) {
  const uint32_t n = power_of_two_in(static_cast<uint32_t>(x.size()));
  const float top = key || x.size() > 64 ? 127 : 63;
  for (uint32_t i = 0; key && i < x.size(); i += n) {
    const std::vector<float> run = hadamard({x.begin() + i, x.begin() + i + n});
    std::copy(run.begin(), run.end(), x.begin() + i);
  }
  float max = 0;
  for (const float f : x) max = std::fmax(max, std::fabs(f));
  *scale = f16_to_f32(f32_to_f16(std::fmin(max / top, 65504.0f)));
  std::vector<int8_t> q;
  for (const float f : x) {
    const float v = *scale > 0 ? f * (1 / *scale) : 0;
    q.push_back(static_cast<int8_t>(std::isnan(v) ? top : std::nearbyint(std::fmax(-top, std::fmin(top, v)))));
  }
  return q;
}

// The numbers of e4m3 in order, by their definition: the one whose code, without the sign, is `code`, up to 0x7e.
inline double e4m3(uint32_t code) {
  const uint32_t exponent = code / 8, mantissa = code % 8;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, static_cast<int>(exponent) - 10);
}

// fp8 as NUMERICS.md has it: the elements that a head becomes, found in the table of all, and their scale.
inline std::vector<uint8_t> fp8_of(const std::vector<float>& x, float* scale) {
  static const std::vector<double> kTable = [] {
    std::vector<double> table;
    for (uint32_t code = 0; code <= 0x7e; ++code) table.push_back(e4m3(code));
    return table;
  }();
  float max = 0;
  for (const float f : x) max = std::fabs(f) > max ? std::fabs(f) : max;  // fmax would take a signaling NaN
  *scale = f16_to_f32(f32_to_f16(std::fmin(max / 1.75f, 65504.0f)));
  std::vector<uint8_t> out;
  for (const float f : x) {
    const float scaled = *scale > 0 ? f * (256 / *scale) : f * 0;
    const double v = std::isnan(f) ? 448 : std::fmin(std::fabs(double{scaled}), 448);
    auto code = static_cast<size_t>(std::upper_bound(kTable.begin(), kTable.end(), v) - kTable.begin() - 1);  // the largest that v reaches
    const double below = v - kTable[code], above = code < 0x7e ? kTable[code + 1] - v : 1e9;
    if (above < below || (above == below && code % 2 != 0)) ++code;
    out.push_back(static_cast<uint8_t>(code | (!std::isnan(f) && std::signbit(f) ? 0x80 : 0)));
  }
  return out;
}

// The transform's inverse, from its matrix.
inline std::vector<double> back_from_hadamard(const std::vector<double>& x) {
  const auto n = static_cast<uint32_t>(x.size()), dim = power_of_two_in(n);
  std::vector<double> out(n);
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t j = 0; j < dim; ++j) out[i] += (std::popcount(i % dim & j) % 2 != 0 ? -1 : 1) * x[i / dim * dim + j] / dim;
  }
  return out;
}

// int4 as NUMERICS.md has it: the numbers of the entries that a row becomes, and the scales of its groups of 32.
struct Int4Row {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};
inline Int4Row int4_of(const std::vector<float>& x) {
  constexpr int kEntries[] = {-123, -93, -72, -55, -41, -28, -15, -3, 9, 21, 34, 48, 63, 80, 101, 127};
  Int4Row out;
  for (size_t first = 0; first < x.size(); first += 32) {
    const std::vector<float> group(x.begin() + static_cast<ptrdiff_t>(first),
                                   x.begin() + static_cast<ptrdiff_t>(std::min(x.size(), first + 32)));
    float most = 0, least = 0;
    for (const float f : group) most = std::fmax(most, f), least = std::fmin(least, f);
    const auto sum = [](std::vector<float> lanes) {
      for (size_t half = 8; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
      }
      return lanes[0];
    };
    const auto add = [](std::vector<float>* lanes, size_t i, float a, float b) {
      (*lanes)[i % 16] = i < 16 ? a * b : std::fmaf(a, b, (*lanes)[i % 16]);
    };
    float scale = 0, least_error = 0;
    std::vector<uint8_t> codes;
    for (const float times : {1.0f, -1.0f, 0.93f, -0.93f, 1.07f, -1.07f}) {
      const float wanted = (most >= -least ? most : least) / 127.0f * times;
      const float tried = f16_to_f32(f32_to_f16(std::fmax(-65504.0f, std::fmin(65504.0f, wanted)))), inverse = tried == 0 ? 0 : 1 / tried;
      std::vector<float> errors(16);
      std::vector<uint8_t> found;
      for (size_t i = 0; i < group.size(); ++i) {
        const float scaled = group[i] * inverse;
        const double v = scaled > 1e3f ? 1e3 : scaled < -1e3f ? -1e3 : double{scaled};
        uint8_t code = 0;  // the nearest; of two the lower one
        for (uint8_t c = 1; c < 16; ++c) {
          if (std::fabs(v - kEntries[c]) < std::fabs(v - kEntries[code])) code = c;
        }
        found.push_back(code);
        const float off = std::fmaf(static_cast<float>(kEntries[code]), -tried, group[i]);
        add(&errors, i, off, off);
      }
      if (times == 1 || sum(errors) < least_error) scale = tried, least_error = sum(errors), codes = found;
    }
    std::vector<float> lanes(16);
    float own = 0;
    for (size_t i = 0; i < group.size(); ++i) {
      const auto entry = static_cast<float>(kEntries[codes[i]]);
      add(&lanes, i, group[i], entry);
      own += entry * entry;
    }
    out.codes.insert(out.codes.end(), codes.begin(), codes.end());
    const float fit = sum(lanes) / own;
    out.scales.push_back(scale != 0 && std::fabs(fit) < 65504 ? f16_to_f32(f32_to_f16(fit)) : scale);
  }
  return out;
}
inline std::vector<double> int4_numbers(const Int4Row& row) {
  constexpr int kEntries[] = {-123, -93, -72, -55, -41, -28, -15, -3, 9, 21, 34, 48, 63, 80, 101, 127};
  std::vector<double> out;
  for (size_t i = 0; i < row.codes.size(); ++i) out.push_back(kEntries[row.codes[i]] * double{row.scales[i / 32]});
  return out;
}
inline std::vector<float> transformed(const std::vector<float>& x) {
  const uint32_t n = power_of_two_in(static_cast<uint32_t>(x.size()));
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); i += n) {
    const std::vector<float> run = hadamard({x.begin() + static_cast<ptrdiff_t>(i), x.begin() + static_cast<ptrdiff_t>(i + n)});
    out.insert(out.end(), run.begin(), run.end());
  }
  return out;
}

// A head of K or V as attention has to see it. plain: of a latent.
inline std::vector<double> as_stored(KvFormat format, const float* x, uint32_t n, bool key, bool plain = false) {
  std::vector<double> out(n);
  if (format == KvFormat::kI4) {
    if (plain) return int4_numbers(int4_of({x, x + n}));
    return back_from_hadamard(int4_numbers(int4_of(transformed({x, x + n}))));
  }
  if (format == KvFormat::kI8) {
    float scale;
    const std::vector<int8_t> q = int8_of({x, x + n}, key, &scale);
    const uint32_t dim = power_of_two_in(n);
    for (uint32_t i = 0; i < n; ++i) {
      if (!key) out[i] = q[i] * double{scale};
      for (uint32_t j = 0; key && j < dim; ++j) {  // the transform's inverse, from its matrix
        const int sign = std::popcount(i % dim & j) % 2 != 0 ? -1 : 1;
        out[i] += sign * q[i / dim * dim + j] * double{scale} / dim;
      }
    }
    return out;
  }
  if (format == KvFormat::kF8) {
    float scale;
    const std::vector<uint8_t> codes = fp8_of({x, x + n}, &scale);
    for (uint32_t i = 0; i < n; ++i) out[i] = (codes[i] < 0x80 ? 1 : -1) * e4m3(codes[i] & 0x7f) / 256 * double{scale};
    return out;
  }
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = format == KvFormat::kF16 ? double{f16_to_f32(f32_to_f16(x[i]))} : format == KvFormat::kBF16 ? bf16(x[i]) : double{x[i]};
  }
  return out;
}

}  // namespace kvrt::test
