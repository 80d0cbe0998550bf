// Ops that do several things at a time, against those things one after the other; runs of rows against all rows at once.
#include <atomic>

#include "runtime/compute/cpu/cpu_backend.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

constexpr float kEps = 1e-5f;

// The separate ops by the scalar table on one thread: the norm to memory, the product to memory, each row's activation.
struct Unfused {
  std::unique_ptr<Backend> backend = open_backend("scalar", 1);

  std::vector<float> norm(const std::vector<float>& x, const std::vector<float>& weight) const {
    std::vector<float> out(x.size());
    const auto width = static_cast<uint32_t>(weight.size());
    backend->run({}, [&] { backend->rmsnorm(x.data(), weight.data(), kEps, static_cast<uint32_t>(x.size()) / width, width, out.data()); });
    return out;
  }
  std::vector<float> matmul(const std::vector<Tensor>& tensors, const float* bias, const std::vector<float>& x, bool accumulate) const {
    const auto w = make_weight(backend.get(), tensors);
    const auto n = static_cast<uint32_t>(x.size() / w->cols());
    std::vector<float> out(uint64_t{n} * w->rows(), 0.25f);
    backend->run({}, [&] { backend->matmul(*w, bias, {x.data(), n}, accumulate, out.data()); });
    return out;
  }
  std::vector<float> matmul_act(const std::vector<Tensor>& gate_up, Activation act, const std::vector<float>& x) const {
    const std::vector<float> both = matmul(gate_up, nullptr, x, false);
    const size_t n = x.size() / gate_up[0].cols, ff = both.size() / n / 2;
    std::vector<float> out(n * ff);
    const auto row_fn = act == Activation::kSilu ? scalar_kernels()->silu_mul_row : scalar_kernels()->gelu_mul_row;
    for (size_t row = 0; row < n; ++row) {
      const float* gate = both.data() + row * 2 * ff;
      row_fn(gate, gate + ff, static_cast<uint32_t>(ff), out.data() + row * ff);
    }
    return out;
  }
};

// Backends of every instruction set and of 1 to 4 threads.
std::vector<std::unique_ptr<Backend>> all_backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const KernelTableState& table : cpu_kernel_tables()) {
    for (uint32_t threads = 1; threads <= 4 && table.supported; ++threads) backends.push_back(open_backend(table.isa, threads));
  }
  return backends;
}

std::string name_of(const Backend& backend) {
  return std::string(backend.isa()) + ", " + std::to_string(static_cast<const CpuBackend&>(backend).threads()) + " threads";
}

// The weights of each case: types of its tensors and their rows. Mixed types want quantized and f32 activations of one input.
struct Matrix {
  std::vector<std::pair<DType, uint32_t>> tensors;
  uint32_t cols;
  std::vector<Tensor> make(Random* random) const {
    std::vector<Tensor> made;
    for (const auto& [type, rows] : tensors) made.push_back(random_tensor(type, rows, cols, random));
    return made;
  }
};

TEST(MatmulNorm, IsTheNormAndThenTheProduct) {
  const Unfused unfused;
  const auto backends = all_backends();
  Random random(1);
  const Matrix matrices[] = {{{{DType::kQ4_1, 96}}, 64},
                             {{{DType::kF32, 37}}, 50},
                             {{{DType::kQ8_0, 33}, {DType::kF16, 20}, {DType::kQ4_0, 65}}, 96},
                             {{{DType::kQ4_K, 40}, {DType::kQ6_K, 24}}, 256}};
  for (const Matrix& matrix : matrices) {
    const std::vector<Tensor> tensors = matrix.make(&random);
    const std::vector<float> weight = random.floats(matrix.cols);
    for (const uint32_t n : {1u, 2u, 7u, 31u, 33u, 64u, 130u}) {
      const std::vector<float> x = random.floats(uint64_t{n} * matrix.cols, 2.0f);
      const bool accumulate = random.below(2) != 0;
      const std::vector<float> bias = random.floats(200);
      const float* with_bias = random.below(2) != 0 ? bias.data() : nullptr;
      const std::vector<float> want = unfused.matmul(tensors, with_bias, unfused.norm(x, weight), accumulate);
      for (const auto& backend : backends) {
        if (backend->isa() == std::string("scalar") && n > 33) continue;  // for time
        const auto w = make_weight(backend.get(), tensors);
        std::vector<float> got(want.size(), 0.25f);
        backend->run({}, [&] { backend->matmul(*w, with_bias, {x.data(), n, weight.data(), kEps}, accumulate, got.data()); });
        EXPECT_SAME_BITS(want, got) << name_of(*backend) << " n " << n << " cols " << matrix.cols;
      }
    }
  }
}

// ff whole panels or not, as one tensor or two, of one type or two: up's rows begin at a panel or in one.
TEST(MatmulAct, IsTheProductAndThenTheActivation) {
  const Unfused unfused;
  const auto backends = all_backends();
  Random random(2);
  const Matrix matrices[] = {{{{DType::kQ4_1, 192}, {DType::kQ4_1, 192}}, 64},
                             {{{DType::kQ4_1, 37}, {DType::kQ8_0, 37}}, 64},
                             {{{DType::kQ8_0, 2 * 37}}, 32},
                             {{{DType::kF16, 100}, {DType::kQ5_0, 100}}, 32},
                             {{{DType::kF32, 2 * 15}}, 20},
                             {{{DType::kQ4_K, 2 * 88}}, 256},
                             {{{DType::kBF16, 1}, {DType::kF32, 1}}, 7}};
  for (const Matrix& matrix : matrices) {
    const std::vector<Tensor> gate_up = matrix.make(&random);
    const std::vector<float> weight = random.floats(matrix.cols);
    for (const uint32_t n : {1u, 2u, 7u, 31u, 33u, 64u, 130u}) {
      const Activation act = random.below(2) != 0 ? Activation::kSilu : Activation::kGeluTanh;
      const std::vector<float> x = random.floats(uint64_t{n} * matrix.cols, 2.0f);
      const bool norm = random.below(2) != 0;
      const std::vector<float> want = unfused.matmul_act(gate_up, act, norm ? unfused.norm(x, weight) : x);
      for (const auto& backend : backends) {
        if (backend->isa() == std::string("scalar") && n > 33) continue;  // for time
        const auto w = make_weight(backend.get(), gate_up);
        std::vector<float> got(want.size());
        backend->run({}, [&] { backend->matmul_act(*w, act, {x.data(), n, norm ? weight.data() : nullptr, kEps}, got.data()); });
        EXPECT_SAME_BITS(want, got) << name_of(*backend) << " n " << n << " rows " << w->rows();
      }
    }
  }
}

TEST(ByRows, CoversEveryRowOnce) {
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    const auto backend = open_backend("scalar", threads);
    for (uint32_t rows = 1; rows <= 600; rows += rows < 140 ? 1 : 37) {
      std::vector<std::atomic<uint32_t>> seen(rows);
      std::atomic<uint32_t> runs = 0;
      backend->run({}, [&] {
        backend->by_rows(rows, [&](uint32_t first, uint32_t n) {
          EXPECT_GT(n, 0u);
          ++runs;
          for (uint32_t i = first; i < first + n; ++i) ++seen.at(i);
        });
      });
      for (uint32_t i = 0; i < rows; ++i) ASSERT_EQ(seen[i].load(), 1u) << i << " of " << rows;
      EXPECT_EQ(runs % (rows >= 32 * threads ? threads : 1), 0u) << rows;  // as many for each thread
      EXPECT_TRUE(rows > 8 || runs == 1) << rows;
    }
  }
}

// A block of a model, row by row through all its ops: each thread works with scratch of its own.
TEST(ByRows, OpsInsideGiveTheBitsOfAllRowsAtOnce) {
  const Unfused unfused;
  Random random(3);
  constexpr uint32_t kWidth = 64, kFf = 88;
  const std::vector<Tensor> gate_up = {random_tensor(DType::kQ4_1, kFf, kWidth, &random), random_tensor(DType::kF16, kFf, kWidth, &random)};
  const Tensor square = random_tensor(DType::kQ4_0, kWidth, kWidth, &random), narrow = random_tensor(DType::kF32, kWidth, kFf, &random);
  const std::vector<float> norm = random.floats(kWidth);
  for (const uint32_t rows : {5u, 33u, 64u, 70u, 130u}) {
    const std::vector<float> x = random.floats(rows * kWidth);
    const std::vector<float> a = unfused.matmul({square}, nullptr, unfused.norm(x, norm), false);
    const std::vector<float> b = unfused.matmul_act(gate_up, Activation::kSilu, unfused.norm(a, norm));
    const std::vector<float> want = unfused.matmul({narrow}, nullptr, b, false);
    for (const auto& backend : all_backends()) {
      const auto w_square = make_weight(backend.get(), {square}), w_gate_up = make_weight(backend.get(), gate_up),
                 w_narrow = make_weight(backend.get(), {narrow});
      std::vector<float> first(rows * kWidth), second(rows * kFf), got(rows * kWidth);
      backend->run({}, [&] {
        backend->by_rows(rows, [&](uint32_t at, uint32_t n) {
          float *to = first.data() + at * kWidth, *wide = second.data() + at * kFf;
          backend->matmul(*w_square, nullptr, {x.data() + at * kWidth, n, norm.data(), kEps}, false, to);
          backend->matmul_act(*w_gate_up, Activation::kSilu, {to, n, norm.data(), kEps}, wide);
          backend->matmul(*w_narrow, nullptr, {wide, n}, false, got.data() + at * kWidth);
        });
      });
      EXPECT_SAME_BITS(want, got) << name_of(*backend) << " rows " << rows;
    }
  }
}

// Several sequences, one of which stores nothing, in runs of rows that begin and end anywhere.
TEST(KvStore, RunsOfRowsStoreWhatAllRowsDo) {
  const auto backend = open_backend("scalar", 2);
  constexpr uint32_t kRows = 60, kStride = 3 * 32;
  const KvGeometry kv{2, 2, 16, 16};
  const std::vector<float> x = Random(4).floats(kRows * kStride);
  const int32_t blocks[] = {4, 1, 0, 3, 2, 5};
  const StepSeq seqs[] = {{0, 25, 3, blocks, 2}, {25, 5, 0, blocks + 2, 1, 0}, {30, 30, 10, blocks + 3, 3}};
  const std::vector<int32_t> tokens(kRows), positions(kRows);
  const Step step{seqs, tokens, positions, {}};
  const auto store = [&](uint32_t at_a_time) {
    std::vector<uint8_t> pool(6 * kv.block_bytes(), 0xff);
    for (uint32_t first = 0; first < kRows; first += at_a_time) {
      const float* k = x.data() + first * kStride;
      backend->kv_store(kv, pool.data(), {1}, step, first, std::min(at_a_time, kRows - first), k, k + 32, kStride);
    }
    return pool;
  };
  const std::vector<uint8_t> want = store(kRows);
  for (const uint32_t at_a_time : {1u, 7u, 32u, 59u}) EXPECT_EQ(want, store(at_a_time)) << at_a_time;
  EXPECT_EQ(std::count(want.begin(), want.begin() + static_cast<int64_t>(kv.block_bytes()), 0xff), static_cast<int64_t>(kv.block_bytes()));
}

}  // namespace
}  // namespace kvrt::test
