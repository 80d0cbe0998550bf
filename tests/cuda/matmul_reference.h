// The right product of a device, and its bound: float64, of the same integers and scales.
#pragma once

#include "runtime/compute/quant/block.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {

inline constexpr double kUnit = 0x1p-24;  // relative error of one rounding

// Rows as matvec reads them: the scalar kernel's, which is the definition.
struct HostQuantRows {
  std::vector<int8_t> q;
  std::vector<float> d, s;
  std::vector<int16_t> sums;
  HostQuantRows(size_t n, size_t cols) : q(n * cols), d(n * cols / 32), s(n * cols / 32), sums(n * cols / 16) {}
};

inline HostQuantRows quantize(const std::vector<float>& x, uint32_t cols) {
  HostQuantRows out(x.size() / cols, cols);
  for (size_t row = 0; row < x.size() / cols; ++row) {
    const size_t at = row * cols;
    scalar_kernels()->quantize_row(x.data() + at, cols, {&out.q[at], &out.d[at / 32], &out.s[at / 32], &out.sums[at / 16], 1});
  }
  return out;
}

// The same in the places that DeviceQuantRows has: of each block of 32, what 8 rows have of it. Places without a row are as DeviceArray
// begins; of an odd number of rows the last is there twice.
inline HostQuantRows as_a_device_has_them(const HostQuantRows& rows, uint32_t cols) {
  const size_t blocks = cols / 32, n = rows.d.size() / blocks;
  if (n <= 2) return rows;
  HostQuantRows out((n + 7) / 8 * 8, cols);
  const auto begin = [](auto* array) { std::memset(array->data(), 0xff, array->size() * sizeof(*array->data())); };
  begin(&out.q), begin(&out.d), begin(&out.s), begin(&out.sums);
  for (size_t row = 0; row < n + n % 2; ++row) {
    for (size_t block = 0; block < blocks; ++block) {
      const size_t from = std::min(row, n - 1) * blocks + block, to = (row / 8 * blocks + block) * 8 + row % 8;
      std::copy_n(&rows.q[32 * from], 32, &out.q[32 * to]);
      std::copy_n(&rows.sums[2 * from], 2, &out.sums[2 * to]);
      out.d[to] = rows.d[from];
      out.s[to] = rows.s[from];
    }
  }
  return out;
}

struct Product {
  double value = 0, magnitude = 0;  // the latter of absolute values of the terms
  double terms = 0, denormal = 0;
  double largest = 0;  // of the terms and the sums up to each
  // `factor`: the multiplier of a rounded product of scales in the term.
  void add(double term, double factor = 1) {
    value += term;
    magnitude += std::fabs(term);
    largest = std::max({largest, std::fabs(term), std::fabs(value)});
    terms += 1;
    denormal += 0x1p-149 * (1 + std::fabs(factor));
  }
  // Every term is rounded once where two scales are multiplied (D * d) and takes part in at most as many sums as there are terms. Where a
  // rounding gives a denormal, its error is absolute.
  double bound() const { return (terms + 2) * kUnit * magnitude + denormal; }
};

// The product of a row of a tensor with a row of x: the terms of NUMERICS.md §3, of integers taken from the file's bytes.
inline Product product_of(const Tensor& tensor, uint32_t row, const std::vector<float>& x, const HostQuantRows* rows, uint32_t i) {
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(tensor.type));
  const uint8_t* bytes = tensor.bytes.data() + tensor.bytes.size() / tensor.rows * row;
  Product out;
  if (is_plain(tensor.type)) {
    std::vector<float> w(tensor.cols);
    dequantize_row(tensor.type, bytes, tensor.cols, w.data());
    for (uint32_t k = 0; k < tensor.cols; ++k) out.add(double{w[k]} * x[uint64_t{i} * tensor.cols + k]);
    return out;
  }
  const QuantFormat& format = *quant_format(tensor.type);
  for (uint32_t block = 0; block < tensor.cols / 32; ++block) {
    RawBlock raw[8];
    decode_unit(tensor.type, bytes + block / format.unit_blocks * info.block_bytes, raw);
    const QuantBlock w = to_numbers(format, raw[block % format.unit_blocks]);
    const uint64_t at = uint64_t{i} * tensor.cols / 32 + block;
    double sum = 0, minimums = 0;
    for (uint32_t e = 0; e < 32; ++e) sum += double(w.half_scale[e / 16]) * w.w[e] * rows->q[at * 32 + e];
    for (uint32_t h = 0; h < 2; ++h) minimums += double(w.half_minimum[h]) * rows->sums[2 * at + h];
    out.add(sum * w.scale * rows->d[at], sum);
    if (format.min_bytes) out.add(format.halves() ? minimums * w.minimum * rows->d[at] : double{w.minimum} * rows->s[at], minimums);
  }
  return out;
}

// The products of all rows of x with all rows of the tensors: [n][rows].
inline std::vector<Product> products(const std::vector<Tensor>& tensors, const std::vector<float>& x) {
  const uint32_t cols = tensors[0].cols;
  std::unique_ptr<HostQuantRows> rows;
  if (cols % 32 == 0) rows = std::make_unique<HostQuantRows>(quantize(x, cols));
  std::vector<Product> out;
  for (uint32_t i = 0; i < x.size() / cols; ++i) {
    for (const Tensor& tensor : tensors) {
      for (uint32_t row = 0; row < tensor.rows; ++row) out.push_back(product_of(tensor, row, x, rows.get(), i));
    }
  }
  return out;
}

inline std::vector<float> rows_of(const std::vector<float>& all, size_t width, size_t first, size_t n) {
  return {all.begin() + static_cast<int64_t>(first * width), all.begin() + static_cast<int64_t>((first + n) * width)};
}
inline std::vector<float> backwards(const std::vector<float>& all, size_t width) {
  std::vector<float> out;
  for (size_t row = all.size() / width; row-- > 0;) out.insert(out.end(), &all[row * width], &all[row * width] + width);
  return out;
}

struct Matrix {
  std::vector<std::pair<DType, uint32_t>> tensors;  // their rows
  uint32_t cols;
  std::vector<Tensor> make(Random* random) const {
    std::vector<Tensor> made;
    for (const auto& [type, rows] : tensors) made.push_back(random_tensor(type, rows, cols, random));
    return made;
  }
  std::string name() const {
    std::string text = std::to_string(cols) + " columns";
    for (const auto& [type, rows] : tensors) text += ", " + std::to_string(rows) + " rows of " + name_of(type);
    return text;
  }
};

}  // namespace kvrt::test
