#include <map>

#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

std::vector<float> run_matmul(Backend* backend, const Weight& w, const std::vector<float>& x, const float* bias, bool accumulate) {
  const uint32_t n = static_cast<uint32_t>(x.size() / w.cols());
  std::vector<float> out(uint64_t{n} * w.rows(), 0.25f);
  backend->run({}, [&] { backend->matmul(w, bias, {x.data(), n}, accumulate, out.data()); });
  return out;
}

TEST(Matmul, EveryTableHasScalarsBits) {
  const auto scalar = open_backend("scalar");
  const auto backends = vector_backends(2);
  Random random(1);
  for (const DType type : all_types()) {
    for (const uint32_t cols : widths(type, {32, 64, 576, 1568}, {256, 512, 1792})) {
      const uint32_t rows = 1 + random.below(70);
      const Tensor tensor = random_tensor(type, rows, cols, &random);
      const auto weight = make_weight(scalar.get(), {tensor});
      const std::vector<float> bias = random.floats(rows);
      for (const uint32_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 11u, 17u, 18u, 19u, 40u}) {
        if (cols > 600 && n > 5) continue;  // scalar is slow, and the columns' tails are the same
        const std::vector<float> x = random.extremes(uint64_t{n} * cols);
        const bool accumulate = random.below(2) != 0, with_bias = random.below(2) != 0;
        const std::vector<float> want = run_matmul(scalar.get(), *weight, x, with_bias ? bias.data() : nullptr, accumulate);
        for (const auto& backend : backends) {
          EXPECT_SAME_BITS(want, run_matmul(backend.get(), *weight, x, with_bias ? bias.data() : nullptr, accumulate))
              << backend->isa() << " " << name_of(type) << " rows " << rows << " cols " << cols << " n " << n;
        }
      }
    }
  }
}

// More columns than one group of the prefill kernels, K in several pieces.
TEST(Matmul, ManyColumnsAndPieces) {
  const auto scalar = open_backend("scalar", 2);
  const auto backends = vector_backends(2);
  Random random(2);
  for (const DType type : all_types()) {
    for (const auto& [cols, n] : {std::pair{256u, 261u}, std::pair{3328u, 5u}}) {
      const Tensor tensor = random_tensor(type, 20, cols, &random);
      const auto weight = make_weight(scalar.get(), {tensor});
      const std::vector<float> x = random.floats(uint64_t{n} * cols);
      const std::vector<float> want = run_matmul(scalar.get(), *weight, x, nullptr, false);
      for (const auto& backend : backends) {
        EXPECT_SAME_BITS(want, run_matmul(backend.get(), *weight, x, nullptr, false)) << backend->isa() << " " << name_of(type);
      }
    }
  }
}

// A column's bits do not depend on its neighbours, on the number of threads or on the stacking of the rows.
TEST(Matmul, ColumnsAndRowsAreIndependent) {
  Random random(3);
  for (const std::string& isa : all_isas()) {
    const auto one = open_backend(isa, 1), two = open_backend(isa, 2);
    if (one == nullptr) continue;
    const Tensor a = random_tensor(DType::kQ4_1, 37, 96, &random), b = random_tensor(DType::kQ8_0, 50, 96, &random),
                 c = random_tensor(DType::kF16, 7, 96, &random);
    const auto stacked = make_weight(two.get(), {a, b, c});
    ASSERT_EQ(stacked->rows(), 94u);
    const std::vector<float> x = random.floats(13 * 96);
    const std::vector<float> all = run_matmul(two.get(), *stacked, x, nullptr, false);
    uint32_t first = 0;
    for (const Tensor& part : {a, b, c}) {
      const auto alone = make_weight(one.get(), {part});
      for (uint32_t column = 0; column < 13; ++column) {
        const std::vector<float> row(x.begin() + column * 96, x.begin() + (column + 1) * 96);
        const auto* from = all.data() + column * 94 + first;
        EXPECT_SAME_BITS(run_matmul(one.get(), *alone, row, nullptr, false), std::vector<float>(from, from + part.rows)) << isa;
      }
      first += part.rows;
    }
  }
}

TEST(Matmul, LeadingOutputsAreThoseOfAll) {
  Random random(6);
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    for (const DType type : {DType::kQ8_0, DType::kQ4_1, DType::kF16}) {
      const auto weight = make_weight(backend.get(), {random_tensor(type, 150, 96, &random)});
      const std::vector<float> x = random.floats(3 * 96), all = run_matmul(backend.get(), *weight, x, nullptr, false);
      for (const uint32_t wanted : {1u, 15u, 16u, 17u, 90u, 150u, 151u}) {
        std::vector<float> out(all.size(), 0.25f);
        backend->run({}, [&] { backend->matmul(*weight, nullptr, {.x = x.data(), .n = 3, .outputs_wanted = wanted}, false, out.data()); });
        for (uint32_t row = 0; row < 3; ++row) {
          const auto leading = [&](const std::vector<float>& of) {
            return std::vector<float>(&of[row * 150], &of[row * 150] + std::min(wanted, 150u));
          };
          EXPECT_SAME_BITS(leading(all), leading(out)) << isa << " " << name_of(type) << " wanted " << wanted;
          if (wanted + 16 < 150) {
            EXPECT_EQ(out[row * 150 + 149], 0.25f) << "it was computed";
          }
        }
      }
    }
  }
}

// Against float64 on the dequantized weights. The cost of int8 activations is known: half a step of their block per element.
TEST(Matmul, ScalarIsWithinBoundOfFloat64) {
  const auto scalar = open_backend("scalar");
  Random random(4);
  for (const DType type : all_types()) {
    const bool quantized = type != DType::kF32 && type != DType::kF16 && type != DType::kBF16;
    constexpr uint32_t kRows = 21, kCols = 512, kN = 3;
    const Tensor tensor = random_tensor(type, kRows, kCols, &random);
    const auto weight = make_weight(scalar.get(), {tensor});
    const std::vector<float> w = tensor.dequantized(), x = random.floats(kN * kCols), bias = random.floats(kRows);
    const std::vector<float> out = run_matmul(scalar.get(), *weight, x, bias.data(), true);
    for (uint32_t n = 0; n < kN; ++n) {
      for (uint32_t r = 0; r < kRows; ++r) {
        double sum = 0.25 + bias[r], bound = 0, magnitude = std::fabs(sum);
        for (uint32_t b = 0; b < kCols; b += 32) {
          double amax = 0;
          for (uint32_t i = b; i < b + 32; ++i) amax = std::max(amax, std::fabs(double{x[n * kCols + i]}));
          for (uint32_t i = b; i < b + 32; ++i) {
            const double wi = w[r * kCols + i], xi = x[n * kCols + i];
            sum += wi * xi;
            magnitude += std::fabs(wi * xi) + std::fabs(wi) * (quantized ? amax : 0);
            if (quantized) bound += std::fabs(wi) * amax / 254;
          }
        }
        EXPECT_NEAR(out[n * kRows + r], sum, bound + magnitude * kCols * 6e-8) << name_of(type);
      }
    }
  }
}

TEST(Embed, GivesDequantizedRows) {
  Random random(5);
  for (const std::string& isa : all_isas()) {
    const auto backend = open_backend(isa, 2);
    if (backend == nullptr) continue;
    for (const DType type : all_types()) {
      const uint32_t cols = widths(type, {96}, {512})[0];
      const Tensor tensor = random_tensor(type, 53, cols, &random);
      const auto weight = make_weight(backend.get(), {tensor});
      std::vector<int32_t> tokens = {52, 0, 17, 17, 31, 16, 15, 48};
      std::vector<float> out(tokens.size() * cols), want, all = tensor.dequantized();
      backend->run({}, [&] { backend->embed(*weight, Step{{}, tokens, {}, {}}, 0, static_cast<uint32_t>(tokens.size()), out.data()); });
      for (const int32_t t : tokens) want.insert(want.end(), all.begin() + t * cols, all.begin() + (t + 1) * cols);
      EXPECT_SAME_BITS(want, out) << isa << " " << name_of(type);
    }
  }
}

// The sizes of NUMERICS.md §9: bytes of 16 rows x 256 elements.
TEST(MakeWeight, TakesTheBytesWrittenDown) {
  const std::map<std::string, uint64_t> panel_bytes = {{"F32", 16384},    {"F16", 8192},       {"BF16", 8192},    {"Q4_0", 8 * 288},
                                                       {"Q4_1", 8 * 320}, {"Q5_0", 8 * 352},   {"Q5_1", 8 * 384}, {"Q8_0", 8 * 544},
                                                       {"Q2_K", 1344},    {"Q3_K", 1824},      {"Q4_K", 2368},    {"Q5_K", 2880},
                                                       {"Q6_K", 3360},    {"IQ4_NL", 8 * 288}, {"IQ4_XS", 2208},  {"MXFP4", 8 * 272}};
  const auto backend = open_backend("scalar");
  Random random(7);
  for (const DType type : all_types()) {
    const Tensor tensor = random_tensor(type, 33, 512, &random);
    const TensorView view = tensor.view();
    const uint64_t want = (3 * 2 * panel_bytes.at(name_of(type)) + 63) / 64 * 64;
    EXPECT_EQ(make_weight(backend.get(), {tensor})->bytes(), want) << name_of(type);
    EXPECT_EQ(*backend->weight_bytes({&view, 1}), want) << name_of(type);
  }
}

TEST(MakeWeight, RefusesWhatDoesNotFit) {
  const auto backend = open_backend("scalar");
  Random random(6);
  Tensor a = random_tensor(DType::kQ4_1, 4, 64, &random), b = random_tensor(DType::kF32, 4, 32, &random);
  const TensorView stacked[] = {a.view(), b.view()};
  EXPECT_EQ(backend->make_weight(stacked).status().code(), Code::kInvalid);
  EXPECT_EQ(backend->make_weight({}).status().code(), Code::kInvalid);
  TensorView odd = a.view();
  odd.ne[0] = 48;
  EXPECT_EQ(backend->make_weight({&odd, 1}).status().code(), Code::kInvalid);
  TensorView cut = a.view();
  cut.data = cut.data.first(cut.data.size() - 1);
  EXPECT_EQ(backend->make_weight({&cut, 1}).status().code(), Code::kInvalid);
  TensorView huge = a.view();
  huge.ne = {64, uint64_t{1} << 62, 4, 1};
  EXPECT_EQ(backend->make_weight({&huge, 1}).status().code(), Code::kInvalid);
  TensorView foreign = a.view();
  foreign.type = static_cast<DType>(16);  // IQ2_XXS
  EXPECT_EQ(backend->make_weight({&foreign, 1}).status().code(), Code::kUnsupported);
}

// A matrix for each head gives what a matmul of that head's columns alone gives, wherever they lie.
TEST(MatmulHeads, EachHeadIsAMatmulOfItsOwn) {
  Random random(21);
  const auto scalar = open_backend("scalar");
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_K}) {
    const uint32_t cols = type == DType::kQ4_K ? 256 : 64, rows = 24, heads = 5;
    std::vector<std::unique_ptr<Weight>> weights;
    for (uint32_t h = 0; h < heads; ++h) weights.push_back(make_weight(scalar.get(), {random_tensor(type, rows, cols, &random)}));
    for (const uint32_t n : {1u, 3u, 7u, 50u}) {
      const uint32_t in_apart = cols + 8, in_stride = heads * in_apart + 3, out_apart = rows + 2, out_stride = heads * out_apart + 1;
      std::vector<float> x = random.floats(uint64_t{n} * in_stride), want(uint64_t{n} * out_stride, -7.0f);
      for (uint32_t h = 0; h < heads; ++h) {
        std::vector<float> own;
        for (uint32_t i = 0; i < n; ++i) own.insert(own.end(), &x[i * in_stride + h * in_apart], &x[i * in_stride + h * in_apart] + cols);
        const std::vector<float> out = run_matmul(scalar.get(), *weights[h], own, nullptr, false);
        for (uint32_t i = 0; i < n; ++i) std::copy_n(&out[uint64_t{i} * rows], rows, &want[i * out_stride + h * out_apart]);
      }
      for (const std::string& isa : all_isas()) {
        for (const uint32_t threads : {1u, 2u}) {
          const auto backend = open_backend(isa, threads);
          std::vector<float> got(want.size(), -7.0f);
          backend->run({}, [&] {
            backend->matmul_heads(weights, n, {x.data(), in_stride, in_apart}, {got.data(), out_stride, out_apart});
          });
          EXPECT_SAME_BITS(want, got) << isa << " " << name_of(type) << " n " << n << " threads " << threads;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvrt::test
