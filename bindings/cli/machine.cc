#include "bindings/cli/machine.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cli {

namespace {

constexpr size_t kBytes = size_t{512} << 20;  // beyond any L3
constexpr size_t kAhead = 8192;               // bytes that the prefetch is ahead, as in the kernels
constexpr size_t kReadStep = 256;
constexpr int kReadPasses = 6;

// A way to read [p, end), a multiple of kReadStep. What it returns depends on all that was read.
using ReadWay = uint64_t (*)(const char* p, const char* end);

uint64_t read_words(const char* p, const char* end) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (; p != end; p += 32) {
    const auto* words = reinterpret_cast<const uint64_t*>(p);
    if (reinterpret_cast<uintptr_t>(p) % 64 == 0) __builtin_prefetch(p + kAhead);
    a += words[0], b += words[1], c += words[2], d += words[3];
  }
  return a + b + c + d;
}

#if defined(__x86_64__)
// Whole lines in four sums by name, for this file is compiled at -O1, too. Without kPrefetch the processor prefetches alone.
template <bool kPrefetch>
[[gnu::target("avx512f")]] uint64_t read_512(const char* p, const char* end) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (; p != end; p += kReadStep) {
    if (kPrefetch) {
      for (size_t line = 0; line < kReadStep; line += 64) _mm_prefetch(p + kAhead + line, _MM_HINT_T0);
    }
    a = _mm512_add_epi64(a, _mm512_load_si512(p));
    b = _mm512_add_epi64(b, _mm512_load_si512(p + 64));
    c = _mm512_add_epi64(c, _mm512_load_si512(p + 128));
    d = _mm512_add_epi64(d, _mm512_load_si512(p + 192));
  }
  alignas(64) uint64_t lanes[8];
  _mm512_store_si512(lanes, _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
  return std::accumulate(std::begin(lanes), std::end(lanes), uint64_t{0});
}

template <bool kPrefetch>
[[gnu::target("avx2")]] uint64_t read_256(const char* p, const char* end) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (; p != end; p += kReadStep) {
    if (kPrefetch) {
      for (size_t line = 0; line < kReadStep; line += 64) _mm_prefetch(p + kAhead + line, _MM_HINT_T0);
    }
    const auto* at = reinterpret_cast<const __m256i*>(p);
    a = _mm256_add_epi64(_mm256_add_epi64(a, at[0]), at[1]);
    b = _mm256_add_epi64(_mm256_add_epi64(b, at[2]), at[3]);
    c = _mm256_add_epi64(_mm256_add_epi64(c, at[4]), at[5]);
    d = _mm256_add_epi64(_mm256_add_epi64(d, at[6]), at[7]);
  }
  alignas(32) uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d)));
  return std::accumulate(std::begin(lanes), std::end(lanes), uint64_t{0});
}
#endif

std::vector<ReadWay> read_ways() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {read_512<true>, read_512<false>, read_256<true>};
  if (__builtin_cpu_supports("avx2")) return {read_256<true>, read_256<false>};
#endif
  return {read_words};
}

// Each thread does its part of the memory at once with the others; returns the seconds without the start of threads. No cpus: where they happen to run.
template <typename Part>
double seconds_together(uint32_t threads, const std::vector<int>& cpus, Part part) {
  using Clock = std::chrono::steady_clock;
  std::atomic<uint32_t> ready = 0;
  std::vector<Clock::time_point> started(threads), ended(threads);
  std::vector<std::thread> workers;
  for (uint32_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      if (!cpus.empty()) pin_to(cpus[t % cpus.size()]);
      constexpr size_t kReadSteps = kBytes / kReadStep;
      ++ready;
      while (ready < threads) {
      }
      started[t] = Clock::now();
      part(kReadSteps * t / threads * kReadStep, kReadSteps * (t + 1) / threads * kReadStep);
      ended[t] = Clock::now();
    });
  }
  for (std::thread& worker : workers) worker.join();
  const auto time = *std::max_element(ended.begin(), ended.end()) - *std::min_element(started.begin(), started.end());
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cpus.push_back(i);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

double read_gb_s(uint32_t threads) {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, kBytes, MADV_HUGEPAGE);
  auto* bytes = static_cast<char*>(memory);
  threads = std::max(threads, 1u);
  const std::vector<int> cpus = allowed_cpus();
  seconds_together(threads, cpus, [&](size_t begin, size_t end) { std::memset(bytes + begin, 1, end - begin); });  // its pages are near it
  std::atomic<uint64_t> sink = 0;
  double best = 0;
  for (int pass = 0; pass < kReadPasses; ++pass) {
    for (const ReadWay way : read_ways()) {
      const auto read = [&](size_t begin, size_t end) { sink += way(bytes + begin, bytes + end); };
      const double seconds = seconds_together(threads, pass % 2 ? std::vector<int>() : cpus, read);
      best = std::max(best, kBytes / seconds / 1e9);
    }
  }
  munmap(memory, kBytes);
  return sink ? best : 0;
}

}  // namespace cli
