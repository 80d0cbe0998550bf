#include <immintrin.h>

#include <atomic>

#include "runtime/compute/cpu/kernels_scalar.h"
#include "runtime/compute/cpu/self_check.h"
#include "tests/ops/ops_support.h"

namespace kvrt::test {
namespace {

TEST(OpenCpu, ChoosesAndRefuses) {
  const auto best = open_backend("");
  ASSERT_NE(best, nullptr);
  EXPECT_STREQ(best->name(), "cpu");
  EXPECT_STREQ(best->numerics(), "cpu-3");
  const std::vector<KernelTableState> tables = cpu_kernel_tables();
  ASSERT_FALSE(tables.empty());
  EXPECT_STREQ(tables.back().isa, "scalar");
  for (const KernelTableState& table : tables) {
    EXPECT_EQ(table.supported, table.self_check_passed) << table.isa;
    EXPECT_EQ(open_backend(table.isa) != nullptr, table.supported);
  }
  const auto first = std::find_if(tables.begin(), tables.end(), [](const KernelTableState& t) { return t.supported; });
  EXPECT_STREQ(best->isa(), first->isa);
  auto unknown = open_cpu({1, "mmx"}, nullptr);
  EXPECT_EQ(unknown.status().code(), Code::kUnsupported);
  EXPECT_NE(unknown.status().message().find("mmx"), std::string::npos);
}

// A table with one wrong kernel, each in turn, does not pass.
TEST(SelfCheck, FindsEveryWrongKernel) {
  std::string mismatch;
  EXPECT_TRUE(check_kernels(*scalar_kernels(), &mismatch));
  CpuKernels wrong[16];
  std::fill_n(wrong, std::size(wrong), *scalar_kernels());
  wrong[0].quantize_row = [](const float* x, uint32_t k, const QuantRow& out) {
    scalar::quantize_row(x, k, out);
    out.s[k / kQuantBlock - 1] += 1.0f;
  };
  wrong[1].quantize_row = [](const float* x, uint32_t k, const QuantRow& out) {
    scalar::quantize_row(x, k, out);
    std::swap(out.sums[0], out.sums[1]);
  };
  wrong[2].rmsnorm_row = [](const float* x, const float* w, float, uint32_t width, float* out) {
    scalar::rmsnorm_row(x, w, 1.0f, width, out);
  };
  wrong[3].silu_mul_row = [](const float* gate, const float* up, uint32_t width, float* out) {
    for (uint32_t i = 0; i < width; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
  };
  wrong[4].rope_head = [](const float* cos, const float* sin, uint32_t pairs, bool, float* x) {
    scalar::rope_head(cos, sin, pairs, false, x);
  };
  wrong[5].kv_row = [](KvFormat format, float top, const float* x, uint32_t n, uint8_t* out, uint16_t* scale) {
    scalar::kv_row(format, top, x, n - 1, out, scale);
  };
  wrong[6].merge_span = [](uint32_t, float*, float*, float*, float, float, const float*) {};
  wrong[7].gelu_mul_row = wrong[7].silu_mul_row;
  wrong[8].softcap_row = [](float cap, uint32_t n, float* x) {
    for (uint32_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
  };
  wrong[9].add_scaled_row = [](float factor, const float* y, uint32_t n, float* x) {
    for (uint32_t i = 0; i < n; ++i) x[i] = x[i] + factor * y[i];
  };
  wrong[10].attend_span = [](const AttentionTile& tile) {
    AttentionTile all = tile;
    all.window = INT64_MAX / 2;
    scalar::attend_span(all);
  };
  wrong[11].layernorm_row = [](const float* x, const float* w, const float*, float eps, uint32_t width, float* out) {
    scalar::layernorm_row(x, w, nullptr, eps, width, out);
  };
  wrong[12].clamped_swiglu_row = wrong[3].silu_mul_row;
  wrong[13].gelu_row = [](uint32_t n, float* x) { scalar::gelu_row(n - 1, x); };
  wrong[14].attend_span = [](const AttentionTile& tile) {
    AttentionTile whole = tile;
    whole.bias.pairs = 0;
    scalar::attend_span(whole);
  };
  wrong[15].attend_span = [](const AttentionTile& tile) {  // as if the cells' high elements were not there
    if (tile.k_format != KvFormat::kI4) return scalar::attend_span(tile);
    std::vector<uint8_t> low(tile.k, tile.k + 3 * tile.block_bytes);
    for (size_t i = 0; i < low.size(); ++i) low[i] &= 0x0f;
    AttentionTile half = tile;
    half.k = low.data();
    scalar::attend_span(half);
  };
  for (size_t i = 0; i < std::size(wrong); ++i) {
    EXPECT_FALSE(check_kernels(wrong[i], &mismatch)) << i;
    EXPECT_FALSE(mismatch.empty());
    mismatch.clear();
  }
}

// A table with one wrong matmul does not pass either: each type's in turn, wrong in four ways.
TEST(SelfCheck, FindsEveryWrongMatmul) {
  static MatmulFn right;
  const MatmulFn wrong_in[] = {
      [](const MatmulArgs& args, uint32_t begin, uint32_t end, uint32_t c0, uint32_t c1) {
        MatmulArgs rounded_twice = args;
        rounded_twice.bias = nullptr;
        right(rounded_twice, begin, end, c0, c1);
        for (uint32_t r = 0; args.bias && r < args.rows; ++r) args.out[r] += args.bias[r];  // accumulated before the bias, not after
      },
      [](const MatmulArgs& args, uint32_t begin, uint32_t end, uint32_t c0, uint32_t c1) {
        right(args, begin, end, c0, c1);
        args.out[1] = std::nextafter(args.out[1], 1e38f);
      },
      [](const MatmulArgs& args, uint32_t begin, uint32_t end, uint32_t c0, uint32_t c1) { right(args, begin, end - 1, c0, c1); },
      [](const MatmulArgs& args, uint32_t begin, uint32_t end, uint32_t c0, uint32_t c1) {
        right(args, begin, end, c0, c1 > 1 ? c1 - 1 : c1);
      },
  };
  for (const DType type : all_types()) {
    for (const MatmulFn fn : wrong_in) {
      MatmulTable table = *scalar_kernels()->matmul;
      right = table.by_type[static_cast<uint32_t>(type)];
      table.by_type[static_cast<uint32_t>(type)] = fn;
      CpuKernels wrong = *scalar_kernels();
      wrong.matmul = &table;
      std::string mismatch;
      EXPECT_FALSE(check_kernels(wrong, &mismatch));
      EXPECT_EQ(mismatch, name_of(type));
    }
  }
}

// A host that flushes denormals: the step does not, on any thread, and the host gets its mode back.
TEST(Run, KeepsTheHostsFloatingPointModeOut) {
  constexpr unsigned kFlush = 0x8040;
  const unsigned before = _mm_getcsr();
  for (const std::string& isa : all_isas()) {
    Random random(1);
    const Tensor tensor = random_tensor(DType::kF32, 256, 64, &random);
    std::vector<float> x(64, 1e-39f), want(256), got(256);  // products are denormals
    {
      const auto backend = open_backend(isa, 2);
      if (backend == nullptr) continue;
      const auto weight = make_weight(backend.get(), {tensor});
      backend->run({}, [&] { backend->matmul(*weight, nullptr, {x.data(), 1}, false, want.data()); });
      EXPECT_NE(want[0], 0.0f);
    }
    _mm_setcsr(before | kFlush);
    const auto backend = open_backend(isa, 2);  // its threads are born in this mode
    ASSERT_NE(backend, nullptr);
    const auto weight = make_weight(backend.get(), {tensor});
    backend->run({}, [&] { backend->matmul(*weight, nullptr, {x.data(), 1}, false, got.data()); });
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & kFlush, kFlush);
    EXPECT_SAME_BITS(want, got) << isa;
  }
}

TEST(Memory, AllocIsZeroedAndUsable) {
  const auto backend = open_backend("scalar");
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{5000}, uint64_t{5} << 20}) {
    for (const bool populate : {false, true}) {
      auto buffer = backend->alloc(bytes, populate);
      ASSERT_TRUE(buffer.is_ok()) << buffer.status().message();
      uint8_t* data = (*buffer)->data();
      EXPECT_EQ((*buffer)->bytes(), bytes);
      EXPECT_EQ(data[0] | data[bytes - 1], 0);
      const std::vector<uint8_t> host(bytes, 7);
      EXPECT_TRUE(backend->upload(data, bytes, [&](std::span<uint8_t> to) { std::copy(host.begin(), host.end(), to.begin()); }).is_ok());
      std::vector<uint8_t> back(bytes);
      EXPECT_TRUE(backend->download(back, data).is_ok());
      EXPECT_EQ(host, back);
    }
  }
}

TEST(Memory, TooMuchIsAStatus) {
  const auto backend = open_backend("scalar");
  for (const uint64_t bytes : {uint64_t{1} << 60, UINT64_MAX}) {
    const auto buffer = backend->alloc(bytes, false);
    ASSERT_FALSE(buffer.is_ok());
    EXPECT_EQ(buffer.status().code(), Code::kNoMemory);
  }
}

}  // namespace
}  // namespace kvrt::test
