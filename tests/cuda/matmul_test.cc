// The matmuls of a device: quantized and rounded rows against the CPU's bits, products against float64 within a bound, and a row's bits alone
// against its bits among others. The bounds hold for any order of sums, so for a device's as for the emulation's.
#include "cuda/kernels/kernels.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/matmul_reference.h"

namespace kvrt::test {
namespace {

using cuda::DeviceActivation;
using cuda::DeviceQuantRows;
using cuda::MatvecInput;

constexpr float kEps = 1e-5f;

struct DeviceRows {
  DeviceArray<float> plain, d, s;
  DeviceArray<int8_t> q;
  DeviceArray<int16_t> sums;
  MatvecInput input;
  DeviceRows(const std::vector<float>& x, uint32_t cols) : plain(x) {
    if (cols % 32 == 0) {
      const HostQuantRows rows = as_a_device_has_them(quantize(x, cols), cols);
      q = DeviceArray<int8_t>(rows.q);
      d = DeviceArray<float>(rows.d);
      s = DeviceArray<float>(rows.s);
      sums = DeviceArray<int16_t>(rows.sums);
    }
    input = {plain.get(), {q.get(), d.get(), s.get(), sums.get()}, static_cast<uint32_t>(x.size() / cols)};
  }
};

// Parts of one type and of several, panels full and not, one block and more turns than warps.
std::vector<Matrix> matrices() {
  std::vector<Matrix> out;
  for (const DType type : all_types()) {
    const bool super = dtype_info(static_cast<uint32_t>(type))->block_elems == 256;
    out.push_back({{{type, 5}}, super ? 256u : is_plain(type) ? 7u : 32u});
    out.push_back({{{type, 37}, {type, 16}, {type, 1}}, super ? 512u : is_plain(type) ? 75u : 96u});
    out.push_back({{{type, 3}}, is_plain(type) ? 1100u : 4864u});
  }
  out.push_back({{{DType::kQ8_0, 33}, {DType::kF16, 20}, {DType::kQ8_0, 7}}, 96});
  out.push_back({{{DType::kQ4_K, 40}, {DType::kQ6_K, 24}}, 256});
  out.push_back({{{DType::kF32, 3}, {DType::kBF16, 18}, {DType::kF16, 1}}, 33});
  return out;
}

// ---- quantized and rounded rows

// NaN of any kind are the same.
void expect_same_numbers(const std::vector<float>& want, const std::vector<float>& got) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::memcmp(&want[i], &got[i], sizeof(float)), 0) << i;
  }
}

std::vector<float> normed(const std::vector<float>& x, const std::vector<float>& weight) {
  std::vector<float> out(x.size());
  for (size_t at = 0; at < x.size(); at += weight.size()) {
    scalar_kernels()->rmsnorm_row(&x[at], weight.data(), kEps, static_cast<uint32_t>(weight.size()), &out[at]);
  }
  return out;
}

TEST(CudaQuantizeRows, HasTheCpusBits) {
  Random random(1);
  for (const uint32_t cols : {32u, 96u, 576u, 5120u}) {
    for (const uint32_t n : {1u, 2u, 3u, 10u}) {
      for (const bool norm : {false, true}) {
        std::vector<float> x = norm && n == 1 ? random.floats(cols) : random.extremes(n * cols);
        if (n > 1) {
          x[3] = std::numeric_limits<float>::quiet_NaN();
          x[cols + 30] = std::numeric_limits<float>::infinity();
        }
        const std::vector<float> weight = random.floats(cols);
        const HostQuantRows want = as_a_device_has_them(quantize(norm ? normed(x, weight) : x, cols), cols);
        const DeviceArray<float> device_x(x), device_weight(weight);
        const DeviceArray<int8_t> q(want.q.size());
        const DeviceArray<float> d(want.d.size()), s(want.s.size());
        const DeviceArray<int16_t> sums(want.sums.size());
        TestStream stream;
        cuda::quantize_rows(stream, device_x.get(), norm ? device_weight.get() : nullptr, kEps, n, cols,
                            {q.get(), d.get(), s.get(), sums.get()});
        EXPECT_EQ(q.to_host(), want.q) << cols;
        EXPECT_EQ(sums.to_host(), want.sums) << cols;
        expect_same_numbers(want.d, d.to_host());
        expect_same_numbers(want.s, s.to_host());
      }
    }
  }
}

TEST(CudaF16Rows, HasTheCpusBits) {
  Random random(2);
  for (const uint32_t cols : {1u, 7u, 96u, 1500u}) {
    for (const bool norm : {false, true}) {
      const uint32_t n = 3, padded = 5;
      const std::vector<float> x = random.extremes(n * cols), weight = random.floats(cols, 100.0f), rows = norm ? normed(x, weight) : x;
      std::vector<uint16_t> want(padded * cols, 0);
      for (size_t i = 0; i < rows.size(); ++i) want[i] = f32_to_f16(std::clamp(rows[i], -65504.0f, 65504.0f));
      for (size_t i = 0; i < rows.size(); ++i) {
        if (std::isnan(rows[i])) want[i] = f32_to_f16(-65504.0f);  // fmaxf(NaN, -65504)
      }
      const DeviceArray<float> device_x(x), device_weight(weight);
      const DeviceArray<uint16_t> out(want.size());
      TestStream stream;
      cuda::f16_rows(stream, device_x.get(), norm ? device_weight.get() : nullptr, kEps, n, padded, cols, out.get());
      EXPECT_EQ(out.to_host(), want) << cols;
    }
  }
}

TEST(CudaDequantize, HasTheCpusBits) {
  Random random(3);
  for (const Matrix& matrix : matrices()) {
    const UploadedWeight w = upload_weight(matrix.make(&random));
    const uint32_t rows = w.device.rows, cols = w.device.cols;
    std::vector<float> all(uint64_t{rows} * cols), want;
    std::vector<uint16_t> halves;
    for (uint32_t row = 0; row < rows; ++row) w.panels().dequantize(row, &all[uint64_t{row} * cols]);
    for (const float f : all) halves.push_back(f32_to_f16(std::clamp(f, -65504.0f, 65504.0f)));
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i < 9; ++i) {
      tokens.push_back(static_cast<int32_t>(i == 0 ? rows - 1 : random.below(rows)));
      want.insert(want.end(), &all[uint64_t(tokens[i]) * cols], &all[uint64_t(tokens[i]) * cols] + cols);
    }
    const DeviceArray<int32_t> device_tokens(tokens);
    const DeviceArray<float> embedded(want.size());
    const DeviceArray<uint16_t> dequantized(all.size());
    TestStream stream;
    cuda::embed(stream, w.device, device_tokens.get(), 9, embedded.get());
    EXPECT_SAME_BITS(want, embedded.to_host()) << matrix.name();
    if (cols % 8 != 0) continue;  // it takes no others
    cuda::dequantize_f16(stream, w.device, dequantized.get());
    EXPECT_EQ(halves, dequantized.to_host()) << matrix.name();
  }
}

// ---- matvec

constexpr float kBefore = 0.25f;  // the content of an output before

std::vector<float> run_matvec(const UploadedWeight& w, const std::vector<float>& x, const DeviceArray<float>* bias, bool accumulate) {
  const DeviceRows rows(x, w.device.cols);
  DeviceArray<float> out(uint64_t{rows.input.n} * w.device.rows);  // NaN
  if (accumulate) out.upload(std::vector<float>(out.size(), kBefore));
  TestStream stream;
  cuda::matvec(stream, w.device, bias ? bias->get() : nullptr, rows.input, accumulate, out.get());
  return out.to_host();
}

// The CPU's result; both are within a bound of the truth, and so within two of each other.
std::vector<float> run_scalar(const std::vector<Tensor>& tensors, const std::vector<float>& x, const float* bias, bool accumulate) {
  const auto backend = open_backend("scalar");
  const auto weight = make_weight(backend.get(), tensors);
  const auto n = static_cast<uint32_t>(x.size() / weight->cols());
  std::vector<float> out(uint64_t{n} * weight->rows(), kBefore);
  backend->run({}, [&] { backend->matmul(*weight, bias, {x.data(), n}, accumulate, out.data()); });
  return out;
}

TEST(CudaMatvec, IsWithinBoundAndRowsAreIndependent) {
  Random random(4);
  for (const Matrix& matrix : matrices()) {
    const std::vector<Tensor> tensors = matrix.make(&random);
    const UploadedWeight w = upload_weight(tensors);
    const uint32_t rows = w.device.rows, cols = w.device.cols, n = cuda::kFewRows;
    const std::vector<float> x = random.extremes(uint64_t{n} * cols), bias = random.floats(rows);
    const DeviceArray<float> device_bias(bias);
    const bool accumulate = random.below(2) != 0, with_bias = random.below(2) != 0;
    const std::vector<float> out = run_matvec(w, x, with_bias ? &device_bias : nullptr, accumulate);
    const std::vector<float> scalar = run_scalar(tensors, x, with_bias ? bias.data() : nullptr, accumulate);
    std::vector<Product> want = products(tensors, x);
    for (size_t i = 0; i < want.size(); ++i) {
      if (with_bias) want[i].add(bias[i % rows]);
      if (accumulate) want[i].add(kBefore);
      ASSERT_NEAR(out[i], want[i].value, want[i].bound()) << matrix.name() << " output " << i;
      ASSERT_NEAR(out[i], scalar[i], 2 * want[i].bound()) << matrix.name() << " output " << i;
    }
    const auto run = [&](const std::vector<float>& some) { return run_matvec(w, some, with_bias ? &device_bias : nullptr, accumulate); };
    for (const uint32_t some : {1u, 2u, 5u, 8u, 13u}) {
      EXPECT_SAME_BITS(run(rows_of(x, cols, 0, some)), rows_of(out, rows, 0, some)) << matrix.name() << " n " << some;
    }
    EXPECT_SAME_BITS(run(rows_of(x, cols, 15, 1)), rows_of(out, rows, 15, 1)) << matrix.name();
    EXPECT_SAME_BITS(run(rows_of(x, cols, 9, 3)), rows_of(out, rows, 9, 3)) << matrix.name();
    EXPECT_SAME_BITS(run(backwards(x, cols)), backwards(out, rows)) << matrix.name();
  }
}

// ---- gate and up

double activated(DeviceActivation act, double gate) {
  const double t = act == DeviceActivation::kSilu ? gate : 2 * std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
  return gate / (1 + std::exp(-t));
}

std::vector<float> run_act(const UploadedWeight& w, DeviceActivation act, const std::vector<float>& x) {
  const DeviceRows rows(x, w.device.cols);
  const DeviceArray<float> out(uint64_t{rows.input.n} * w.device.rows / 2);
  TestStream stream;
  cuda::matvec_act(stream, w.device, act, rows.input, out.get());
  return out.to_host();
}

// ff whole panels or not, as one tensor or two, of one type or two: up's rows begin at a panel or in one.
TEST(CudaMatvecAct, IsWithinBoundAndRowsAreIndependent) {
  Random random(5);
  const Matrix all[] = {{{{DType::kQ4_1, 192}, {DType::kQ4_1, 192}}, 64},
                        {{{DType::kQ4_1, 37}, {DType::kQ8_0, 37}}, 64},
                        {{{DType::kQ8_0, 2 * 37}}, 32},
                        {{{DType::kF16, 100}, {DType::kQ5_0, 100}}, 32},
                        {{{DType::kF32, 2 * 15}}, 20},
                        {{{DType::kQ4_K, 2 * 88}}, 256},
                        {{{DType::kBF16, 1}, {DType::kF32, 1}}, 7},
                        {{{DType::kQ6_K, 2 * 16}}, 4864},
                        {{{DType::kIQ4_NL, 40}, {DType::kIQ4_NL, 40}}, 96}};
  for (const Matrix& matrix : all) {
    const std::vector<Tensor> tensors = matrix.make(&random);
    const UploadedWeight w = upload_weight(tensors);
    const uint32_t ff = w.device.rows / 2, cols = w.device.cols, n = cuda::kFewRows;
    const DeviceActivation act = random.below(2) != 0 ? DeviceActivation::kSilu : DeviceActivation::kGeluTanh;
    const std::vector<float> x = random.floats(uint64_t{n} * cols, 0.5f), out = run_act(w, act, x);
    const std::vector<Product> both = products(tensors, x);
    for (uint32_t i = 0; i < n * ff; ++i) {
      const Product &gate = both[i / ff * 2 * ff + i % ff], &up = both[i / ff * 2 * ff + ff + i % ff];
      const double f = activated(act, gate.value);
      // Neither activation is steeper than 1.13. Its own error is relative, 2^-16 where exp's argument is -64: below that, e is zero.
      const double off = 1.13 * gate.bound(), own = 0x1p-16 * std::fabs(f) + 0x1p-90 * std::fabs(gate.value);
      const double bound = (off + own) * (std::fabs(up.value) + up.bound()) + std::fabs(f) * up.bound();
      ASSERT_NEAR(out[i], f * up.value, bound) << matrix.name() << " output " << i << " gate " << gate.value << " up " << up.value;
    }
    for (const uint32_t some : {1u, 3u, 8u, 13u}) {
      EXPECT_SAME_BITS(run_act(w, act, rows_of(x, cols, n - some, some)), rows_of(out, ff, n - some, some)) << matrix.name() << " " << some;
    }
    EXPECT_SAME_BITS(run_act(w, act, backwards(x, cols)), backwards(out, ff)) << matrix.name();
  }
}

TEST(CudaElementwise, HasTheCpusBits) {
  Random random(6);
  constexpr uint32_t kN = 3, kFf = 300;
  const std::vector<float> both = random.extremes(2 * kN * kFf), bias = random.floats(kFf);
  const CpuKernels& cpu = *scalar_kernels();
  for (const auto& [act, row_fn] : {std::pair{DeviceActivation::kSilu, cpu.silu_mul_row},
                                    {DeviceActivation::kGeluTanh, cpu.gelu_mul_row},
                                    {DeviceActivation::kClampedSwiglu, cpu.clamped_swiglu_row}}) {
    std::vector<float> want(kN * kFf);
    for (uint32_t row = 0; row < kN; ++row) row_fn(&both[2 * row * kFf], &both[(2 * row + 1) * kFf], kFf, &want[row * kFf]);
    const DeviceArray<float> device_both(both), out(want.size()), device_bias(bias);
    TestStream stream;
    cuda::act_mul(stream, device_both.get(), act, kN, kFf, out.get());
    expect_same_numbers(want, out.to_host());
    cuda::add_bias(stream, nullptr, kN, kFf, out.get());
    cuda::add_bias(stream, device_bias.get(), kN, kFf, out.get());
    for (uint32_t i = 0; i < kN * kFf; ++i) want[i] = want[i] + bias[i % kFf];
    expect_same_numbers(want, out.to_host());
  }
}

// ---- gemm

std::vector<float> run_gemm(const UploadedWeight& w, const std::vector<uint16_t>& x, const DeviceArray<float>* bias, bool accumulate) {
  const DeviceArray<uint16_t> device_x(x);
  const auto n = static_cast<uint32_t>(x.size() / w.device.cols);
  DeviceArray<float> out(uint64_t{n} * w.device.rows);
  if (accumulate) out.upload(std::vector<float>(out.size(), kBefore));
  TestStream stream;
  cuda::gemm(stream, w.device, bias ? bias->get() : nullptr, device_x.get(), n, accumulate, out.get());
  return out.to_host();
}

TEST(CudaGemm, IsWithinBoundAndRowsAreIndependent) {
  Random random(7);
  for (const Matrix& matrix : matrices()) {
    const std::vector<Tensor> tensors = matrix.make(&random);
    const UploadedWeight w = upload_weight(tensors);
    const uint32_t rows = w.device.rows, cols = w.device.cols, n = cols > 1000 ? 17 : 100;
    const std::vector<float> x = random.floats(uint64_t{n} * cols), bias = random.floats(rows);
    std::vector<uint16_t> half_x;
    for (const float f : x) half_x.push_back(f32_to_f16(f));
    const DeviceArray<float> device_bias(bias);
    const bool accumulate = random.below(2) != 0, with_bias = random.below(2) != 0;
    const auto run = [&](const std::vector<uint16_t>& some) { return run_gemm(w, some, with_bias ? &device_bias : nullptr, accumulate); };
    const std::vector<float> out = run(half_x);
    for (uint32_t row = 0; row < rows; ++row) {
      std::vector<float> weights(cols);
      w.panels().dequantize(row, weights.data());
      for (uint32_t i = 0; i < n; ++i) {
        // Operands as they are: a product of two f16 is exact; a tensor core's sums may be cut off rather than rounded: two units.
        // Operands before they were rounded: 2^-11 of each, or 2^-25 where an f16 is denormal.
        Product as_is, before;
        double rounded = 0;
        for (uint32_t k = 0; k < cols; ++k) {
          const double xk = x[uint64_t{i} * cols + k], wk = weights[k];
          as_is.add(double{f16_to_f32(half_x[uint64_t{i} * cols + k])} * f16_to_f32(f32_to_f16(weights[k])));
          before.add(xk * wk);
          rounded += 0x1p-10 * std::fabs(xk * wk) + 0x1p-24 * (std::fabs(xk) + std::fabs(wk));
        }
        for (Product* product : {&as_is, &before}) {
          if (with_bias) product->add(bias[row]);
          if (accumulate) product->add(kBefore);
        }
        const float got = out[uint64_t{i} * rows + row];
        ASSERT_NEAR(got, as_is.value, 2 * as_is.bound()) << matrix.name() << " row " << row << " of " << i;
        ASSERT_NEAR(got, before.value, 2 * as_is.bound() + rounded) << matrix.name() << " row " << row << " of " << i;
      }
    }
    for (const uint32_t some : {1u, 17u, 64u}) {
      if (some > n) continue;
      const std::vector<uint16_t> last(half_x.end() - some * cols, half_x.end());
      EXPECT_SAME_BITS(run(last), rows_of(out, rows, n - some, some)) << matrix.name() << " n " << some;
    }
  }
}

}  // namespace
}  // namespace kvrt::test
