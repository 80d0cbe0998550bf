// The liberties of a device (emulator.h: Modes, and copies that come late): for each, a kernel with the mistake that it
// is there to catch, and the same kernel without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/emulation/emulator.h"
#include "cuda/kernels/device.h"
#include "cuda/kernels/launch.h"
#include "tests/cuda/emulation/fixture.h"

namespace kvrt::cuda {
namespace {

using emulation::Modes;
using emulation::Order;

// ---- the order of threads

// Every thread reads the number of the writers, which write the same.
__global__ void tell(uint32_t writer, uint32_t other_writer, bool barrier, float* out) {
  KVRT_DYNAMIC_SHARED(bytes);
  auto* const shared = reinterpret_cast<float*>(bytes);
  if (threadIdx.x == writer || threadIdx.x == other_writer) shared[0] = 5.0f;
  if (barrier) __syncthreads();
  out[threadIdx.x] = shared[0];
}
// Every lane reads the number of its neighbour within a warp.
__global__ void tell_neighbour(bool barrier, float* out) {
  KVRT_DYNAMIC_SHARED(bytes);
  auto* const shared = reinterpret_cast<float*>(bytes);
  const uint32_t t = threadIdx.x;
  shared[t] = static_cast<float>(t);
  if (barrier) __syncwarp();
  out[t] = shared[t ^ 1];
}
__global__ void arrive(unsigned* counter, unsigned* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1u); }

class Orders : public Emulation {
 protected:
  static bool all_told(const std::vector<float>& values) {
    return std::none_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
  }
  bool tells(Modes modes, uint32_t writer, uint32_t other_writer, bool barrier) {
    emulation::configure({.modes = modes});
    float* const out = device<float>(64);
    launch(tell, 1, 64, 16, &stream_, writer, other_writer, barrier, out);
    return all_told(host(out, 64));
  }
  bool tells_neighbour(Modes modes, bool barrier) {
    emulation::configure({.modes = modes});
    float* const out = device<float>(64);
    launch(tell_neighbour, 1, 64, 256, &stream_, barrier, out);
    return all_told(host(out, 64));
  }
  std::vector<unsigned> arrivals(Modes modes) {
    emulation::configure({.modes = modes});
    auto* const out = device<unsigned>(3 * 96);
    launch(arrive, 3, 96, 0, &stream_, device(std::vector<unsigned>{0}), out);
    return host(out, 3 * 96);
  }
};

TEST_F(Orders, OneShowsTheMissingBarrierThatAnotherHides) {
  constexpr Modes kForwards{.order = Order::kForwards}, kBackwards{.order = Order::kBackwards};
  EXPECT_TRUE(tells(kForwards, 0, 0, false));
  EXPECT_FALSE(tells(kBackwards, 0, 0, false));
  EXPECT_FALSE(tells(kForwards, 63, 63, false));
  EXPECT_TRUE(tells(kBackwards, 63, 63, false));
  EXPECT_TRUE(tells(kForwards, 0, 63, false));  // hidden in both
  EXPECT_TRUE(tells(kBackwards, 0, 63, false));
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Modes random{.order = Order::kRandom, .seed = seed};
    EXPECT_FALSE(tells(random, 0, 63, false)) << seed;
    EXPECT_FALSE(tells_neighbour(random, false)) << seed;
  }
}

TEST_F(Orders, NoneBreaksAKernelThatIsRight) {
  for (const Order order : {Order::kForwards, Order::kBackwards, Order::kRandom}) {
    EXPECT_TRUE(tells({.order = order}, 0, 0, true));
    EXPECT_TRUE(tells({.order = order}, 63, 63, true));
    EXPECT_TRUE(tells_neighbour({.order = order}, true));
  }
}

TEST_F(Orders, TheSeedIsTheOrder) {
  const std::vector<unsigned> forwards = arrivals({}), backwards = arrivals({.order = Order::kBackwards}),
                              random = arrivals({.order = Order::kRandom, .seed = 7});
  for (uint32_t i = 0; i < 3 * 96; ++i) {
    EXPECT_EQ(forwards[i], i);
    EXPECT_EQ(backwards[i], 3 * 96 - 1 - i);
  }
  EXPECT_EQ(random, arrivals({.order = Order::kRandom, .seed = 7}));
  EXPECT_NE(random, arrivals({.order = Order::kRandom, .seed = 8}));
  EXPECT_FALSE(std::is_sorted(random.begin(), random.begin() + 96));
  EXPECT_FALSE(std::is_sorted(random.rbegin() + 2 * 96, random.rend()));
}

TEST_F(Orders, TheEnvironmentSetsThem) {
  const auto modes_of = [](const char* text) {
    EXPECT_EQ(setenv("KVRT_EMULATION", text, 1), 0);
    return emulation::Options().modes;
  };
  EXPECT_EQ(modes_of("backwards").order, Order::kBackwards);
  EXPECT_EQ(modes_of("random").seed, 1u);
  const Modes both = modes_of("truncating,random:12");
  EXPECT_EQ(both.order, Order::kRandom);
  EXPECT_EQ(both.seed, 12u);
  EXPECT_TRUE(both.truncating);
  EXPECT_DEATH(modes_of("sideways"), "KVRT_EMULATION: there is no sideways");
  EXPECT_EQ(unsetenv("KVRT_EMULATION"), 0);
  EXPECT_EQ(emulation::Options().modes.order, Order::kForwards);
}

// ---- copies to shared memory

enum class Mistake { kNone, kNoCommit, kNoWait, kWaitForTooFew, kNoBarrier, kTooEarly, kSourceChanges };
// Out: 32 times 16 bytes of `from`, by way of shared memory, each thread reading its neighbour's copy; then 32 more, into the same place.
__global__ void pass_on(Mistake mistake, uint4* from, uint4* out) {
  KVRT_DYNAMIC_SHARED(bytes);
  auto* const shared = reinterpret_cast<uint4*>(bytes);
  const uint32_t t = threadIdx.x;
  copy_async(shared + t, from + t);
  if (mistake != Mistake::kNoCommit) copy_async_commit();
  copy_async(shared + 32 + t, from + 32 + t);
  copy_async_commit();
  if (mistake == Mistake::kSourceChanges) from[t] = make_uint4(0, 0, 0, 0);
  if (mistake == Mistake::kNoCommit || mistake == Mistake::kWaitForTooFew) copy_async_wait<1>();
  if (mistake == Mistake::kNone || mistake == Mistake::kNoBarrier || mistake == Mistake::kSourceChanges) copy_async_wait<0>();
  if (mistake != Mistake::kNoBarrier && mistake != Mistake::kTooEarly) __syncthreads();
  if (mistake == Mistake::kTooEarly) {  // the next use of a place before all have read it
    copy_async_wait<0>();
    __syncthreads();
    if (t == 0) copy_async(shared + 1, from);
    if (t == 0) copy_async_commit();
  }
  out[t] = shared[t ^ 1];
  out[32 + t] = shared[32 + (t ^ 1)];
}

class Copies : public Emulation {
 protected:
  Copies() {
    for (uint32_t i = 0; i < 64; ++i) from_.push_back(make_uint4(i, i + 100, i + 200, i + 300));
  }
  static uint4 gone() { return make_uint4(~0u, ~0u, ~0u, ~0u); }
  static bool same(const uint4& a, const uint4& b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }
  std::vector<uint4> pass(Mistake mistake) {
    auto* const out = device<uint4>(64);
    launch(pass_on, 1, 32, 1024, &stream_, mistake, device(from_), out);
    EXPECT_EQ(stream_.error, cudaSuccess);
    return host(out, 64);
  }
  // The number of [begin, begin + 32) that are as they should be.
  uint32_t right(const std::vector<uint4>& got, uint32_t begin) const {
    uint32_t n = 0;
    for (uint32_t i = begin; i < begin + 32; ++i) n += same(got[i], from_[i ^ 1]) ? 1 : 0;
    return n;
  }

  std::vector<uint4> from_;
};

TEST_F(Copies, ComeAtTheirWait) {
  const std::vector<uint4> all = pass(Mistake::kNone);
  EXPECT_EQ(right(all, 0), 32u);
  EXPECT_EQ(right(all, 32), 32u);
  const std::vector<uint4> too_few = pass(Mistake::kWaitForTooFew);  // the first group's came, those of the second not
  EXPECT_EQ(right(too_few, 0), 32u);
  EXPECT_EQ(right(too_few, 32), 0u);
}

TEST_F(Copies, AreNotThereBefore) {
  for (const Mistake mistake : {Mistake::kNoWait, Mistake::kNoCommit}) {
    const std::vector<uint4> got = pass(mistake);
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [](const uint4& x) { return same(x, gone()); }));
  }
  const std::vector<uint4> no_barrier = pass(Mistake::kNoBarrier);  // even lanes read before the next one has waited
  EXPECT_EQ(right(no_barrier, 0), 16u);
  EXPECT_TRUE(same(no_barrier[0], gone()));
  const std::vector<uint4> changed = pass(Mistake::kSourceChanges);
  EXPECT_EQ(right(changed, 0), 0u);
  EXPECT_EQ(right(changed, 32), 32u);
}

TEST_F(Copies, EndWhatWasThere) {
  const std::vector<uint4> got = pass(Mistake::kTooEarly);
  EXPECT_TRUE(same(got[0], gone()));
  EXPECT_EQ(right(got, 0), 31u);
  EXPECT_EQ(right(pass(Mistake::kNone), 0), 32u);  // nothing of one kernel comes in the next
}

__global__ void copy_askew(const uint8_t* from) {
  KVRT_DYNAMIC_SHARED(bytes);
  copy_async(bytes, from + 8);
}
using CopiesDeathTest = Copies;
TEST_F(CopiesDeathTest, AreAligned) {
  EXPECT_DEATH(launch(copy_askew, 1, 1, 16, &stream_, device<uint8_t>(32)), "copy_async of what is not aligned to 16 bytes");
}

// ---- tensor cores

template <bool bf16>
__global__ void multiply(const uint16_t* a, const uint16_t* b, float* d) {  // a [16][16], b [8][16]: columns, d [16][8]
  const uint32_t g = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto pair = [](const uint16_t* p) { return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 16; };
  const uint32_t fa[4] = {pair(a + g * 16 + 2 * t), pair(a + (g + 8) * 16 + 2 * t), pair(a + g * 16 + 2 * t + 8),
                          pair(a + (g + 8) * 16 + 2 * t + 8)};
  const uint32_t fb[2] = {pair(b + g * 16 + 2 * t), pair(b + g * 16 + 2 * t + 8)};
  float* const at[4] = {d + g * 8 + 2 * t, d + g * 8 + 2 * t + 1, d + (g + 8) * 8 + 2 * t, d + (g + 8) * 8 + 2 * t + 1};
  float fd[4] = {*at[0], *at[1], *at[2], *at[3]};
  mma_16x8x16<bf16>(fd, fa, fb);
  for (uint32_t i = 0; i < 4; ++i) *at[i] = fd[i];
}

// One output's terms: 16 products, each exact, and the value before.
double chain(const std::vector<double>& terms) {
  double sum = terms[16];
  for (uint32_t k = 0; k < 16; ++k) sum = static_cast<float>(sum + terms[k]);  // below 53 bits here: one rounding
  return sum;
}
double cut(double x, int below) { return std::ldexp(std::trunc(std::ldexp(x, below)), -below); }
double truncated(const std::vector<double>& terms) {
  double largest = 0, sum = 0;
  for (const double term : terms) largest = std::max(largest, std::fabs(term));
  if (largest == 0) return 0;
  for (const double term : terms) sum += cut(term, 24 - std::ilogb(largest));
  return sum == 0 ? 0 : cut(sum, 23 - std::ilogb(sum));
}

class TensorCores : public Emulation {
 protected:
  struct Sums {
    std::vector<float> got;
    std::vector<std::vector<double>> terms;
  };
  template <bool bf16>
  Sums multiply_all(const std::vector<float>& a, const std::vector<float>& b, float there) {
    const auto to_bits = [](const std::vector<float>& from) {
      std::vector<uint16_t> bits;
      for (const float f : from) bits.push_back(bf16 ? float_to_bf16(f) : float_to_f16(f));
      return bits;
    };
    const auto value = [](uint16_t h) -> double { return bf16 ? bf16_to_float(h) : f16_to_float(h); };
    const std::vector<uint16_t> a_bits = to_bits(a), b_bits = to_bits(b);
    float* const d = device(std::vector<float>(16 * 8, there));
    launch(multiply<bf16>, 1, 32, 0, &stream_, device(a_bits), device(b_bits), d);
    EXPECT_EQ(stream_.error, cudaSuccess);
    Sums out{host(d, 16 * 8), {}};
    for (uint32_t i = 0; i < 16 * 8; ++i) {
      std::vector<double>& terms = out.terms.emplace_back();
      for (uint32_t k = 0; k < 16; ++k) terms.push_back(value(a_bits[i / 8 * 16 + k]) * value(b_bits[i % 8 * 16 + k]));
      terms.push_back(there);
    }
    return out;
  }
  std::vector<float> numbers(size_t n) {
    std::vector<float> out(n);
    for (float& x : out) x = static_cast<float>(static_cast<int>(random_() % 2001) - 1000) / 300.0f;
    return out;
  }
  Sums some(uint32_t round) {
    const std::vector<float> a = numbers(16 * 16), b = numbers(8 * 16);
    return round % 2 != 0 ? multiply_all<true>(a, b, 0.25f) : multiply_all<false>(a, b, 0.25f);
  }

  std::mt19937 random_{1};
};

TEST_F(TensorCores, MultiplyInOneChain) {
  for (uint32_t round = 0; round < 20; ++round) {
    const Sums sums = some(round);
    for (uint32_t i = 0; i < 16 * 8; ++i) EXPECT_EQ(sums.got[i], chain(sums.terms[i]));
  }
}

// A kernel that takes its sums for the CPU's, bit for bit, is found out; one that keeps to NUMERICS.md §3 is not.
TEST_F(TensorCores, TruncateWhereAsked) {
  emulation::configure({.modes = {.truncating = true}});
  uint32_t others = 0;
  for (uint32_t round = 0; round < 20; ++round) {
    const Sums sums = some(round);
    for (uint32_t i = 0; i < 16 * 8; ++i) {
      const std::vector<double>& terms = sums.terms[i];
      EXPECT_EQ(sums.got[i], truncated(terms));
      others += sums.got[i] != chain(terms) ? 1 : 0;
      double exact = 0, magnitude = 0;
      for (const double term : terms) {
        exact += term;
        magnitude += std::fabs(term);
      }
      EXPECT_LE(std::fabs(sums.got[i] - exact), 2 * (16 + 2) * 0x1p-24 * magnitude);
    }
  }
  EXPECT_GT(others, 20u * 16 * 8 / 4);
}

TEST_F(TensorCores, LoseWhatIsFarBelowTheLargest) {
  const auto sum_of = [&](float there, float x) {
    return multiply_all<false>(std::vector<float>(16 * 16, x), std::vector<float>(8 * 16, 1.0f), there).got[0];
  };
  EXPECT_EQ(sum_of(0x1p25f, 3.0f), 0x1p25f + 64);  // each addition rounds up
  emulation::configure({.modes = {.truncating = true}});
  EXPECT_EQ(sum_of(0x1p25f, 3.0f), 0x1p25f + 32);  // of 3, 2 is left
  EXPECT_EQ(sum_of(0x1p25f, 1.0f), 0x1p25f);
  EXPECT_EQ(sum_of(-0x1p25f, 1.0f), -0x1p25f);
  EXPECT_EQ(sum_of(0, 0), 0);
  EXPECT_EQ(sum_of(0x1p-140f, 0), 0x1p-140f);
  EXPECT_TRUE(std::isnan(sum_of(NAN, 1)));
  EXPECT_EQ(sum_of(-INFINITY, 1), -INFINITY);
}

}  // namespace
}  // namespace kvrt::cuda
