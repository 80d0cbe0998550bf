#include "tests/bench/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "bindings/cli/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvrt_bench {
namespace {

constexpr int kRounds = 1'000'000, kPasses = 15, kMedianPasses = 151;  // a pass takes a few milliseconds

#if defined(__x86_64__)
constexpr int kSums = 12;  // more chains than latency x ports, few enough for 16 registers

// An empty asm after each step keeps the sum in a register and the step in the loop.
#define KVRT_PEAK_LOOP(Sum, zero, step)                       \
  Sum sums[kSums];                                            \
  _Pragma("GCC unroll 16") for (Sum & sum : sums) {           \
    sum = zero;                                               \
    asm volatile("" : "+v"(sum));                             \
  }                                                           \
  _Pragma("GCC unroll 1") for (int i = 0; i < kRounds; ++i) { \
    _Pragma("GCC unroll 16") for (Sum & sum : sums) {         \
      step;                                                   \
      asm volatile("" : "+v"(sum));                           \
    }                                                         \
  }

[[gnu::target("avx2,fma")]] void fma_256() {
  const __m256 a = _mm256_set1_ps(0.5f);
  KVRT_PEAK_LOOP(__m256, _mm256_setzero_ps(), sum = _mm256_fmadd_ps(a, a, sum))
}

[[gnu::target("avx512f")]] void fma_512() {
  const __m512 a = _mm512_set1_ps(0.5f);
  KVRT_PEAK_LOOP(__m512, _mm512_setzero_ps(), sum = _mm512_fmadd_ps(a, a, sum))
}

[[gnu::target("avx2")]] void maddubs_256() {
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(2);
  KVRT_PEAK_LOOP(__m256i, _mm256_setzero_si256(), {
    __m256i product;  // by hand: the compiler would multiply once, before the loop
    asm volatile("vpmaddubsw %2, %1, %0" : "=x"(product) : "x"(a), "x"(b));
    sum = _mm256_add_epi16(sum, product);
  })
}

[[gnu::target("avx512f,avx512vnni")]] void dot_512() {
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(2);
  KVRT_PEAK_LOOP(__m512i, _mm512_setzero_si512(), sum = _mm512_dpbusd_epi32(sum, a, b))
}
#undef KVRT_PEAK_LOOP
#endif

// All threads start a pass together; the rate of a pass is that of its slowest thread.
[[maybe_unused]] std::vector<double> rates(uint32_t threads, int passes, double macs_of_pass, void (*loop)()) {
  using Clock = std::chrono::steady_clock;
  const std::vector<int> cpus = cli::allowed_cpus();
  std::vector<double> out;
  for (int pass = 0; pass < passes; ++pass) {
    std::atomic<uint32_t> ready = 0;
    std::vector<Clock::time_point> started(threads), ended(threads);
    std::vector<std::thread> workers;
    for (uint32_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        cli::pin_to(cpus[t % cpus.size()]);
        ++ready;
        while (ready < threads) {
        }
        started[t] = Clock::now();
        loop();
        ended[t] = Clock::now();
      });
    }
    for (std::thread& worker : workers) worker.join();
    const auto time = *std::max_element(ended.begin(), ended.end()) - *std::min_element(started.begin(), started.end());
    out.push_back(threads * macs_of_pass / std::chrono::duration<double>(time).count() / 1e9);
  }
  std::sort(out.begin(), out.end());
  return out;
}

[[maybe_unused]] double best_rate(uint32_t threads, double macs_of_pass, void (*loop)()) {
  return rates(threads, kPasses, macs_of_pass, loop).back();
}

}  // namespace

Peak measure_peak(uint32_t threads) {
  Peak peak = {};
#if defined(__x86_64__)
  constexpr double kSteps = double{kRounds} * kSums;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    peak.fma_256 = best_rate(threads, kSteps * 8, fma_256);
    peak.fma_256_median = rates(threads, kMedianPasses, kSteps * 8, fma_256)[kMedianPasses / 2];
    peak.maddubs_256 = best_rate(threads, kSteps * 32, maddubs_256);
  }
  if (__builtin_cpu_supports("avx512f")) peak.fma_512 = best_rate(threads, kSteps * 16, fma_512);
  if (__builtin_cpu_supports("avx512vnni")) peak.dot_512 = best_rate(threads, kSteps * 64, dot_512);
#endif
  return peak;
}

}  // namespace kvrt_bench
