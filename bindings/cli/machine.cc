#include "bindings/cli/machine.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

namespace cli {

namespace {

constexpr size_t kBytes = size_t{512} << 20;  // beyond any L3
constexpr size_t kAhead = 8192;               // bytes that the prefetch is ahead, as in the kernels

uint64_t read_all(const uint64_t* p, const uint64_t* end) {
  uint64_t lanes[16] = {};
  for (; p + 16 <= end; p += 16) {
    __builtin_prefetch(p + kAhead / sizeof *p);
    __builtin_prefetch(p + kAhead / sizeof *p + 8);
    for (int i = 0; i < 16; ++i) lanes[i] += p[i];
  }
  uint64_t sum = 0;
  for (uint64_t lane : lanes) sum += lane;
  return sum;
}

// One pass: the threads wait for each other, so that starting them is not part of the time.
double pass_gb_s(const uint64_t* words, uint32_t threads, const std::vector<int>& cpus, std::atomic<uint64_t>& sink) {
  using Clock = std::chrono::steady_clock;
  std::atomic<uint32_t> ready = 0;
  std::vector<Clock::time_point> started(threads), ended(threads);
  std::vector<std::thread> readers;
  for (uint32_t t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      pin_to(cpus[t % cpus.size()]);
      constexpr size_t kWords = kBytes / sizeof(uint64_t);
      ++ready;
      while (ready < threads) {
      }
      started[t] = Clock::now();
      sink += read_all(words + kWords * t / threads, words + kWords * (t + 1) / threads);
      ended[t] = Clock::now();
    });
  }
  for (std::thread& reader : readers) reader.join();
  const auto time = *std::max_element(ended.begin(), ended.end()) - *std::min_element(started.begin(), started.end());
  return kBytes / std::chrono::duration<double>(time).count() / 1e9;
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
  auto* words = static_cast<uint64_t*>(memory);
  for (size_t i = 0; i < kBytes / sizeof *words; ++i) words[i] = i;
  const std::vector<int> cpus = allowed_cpus();
  std::atomic<uint64_t> sink = 0;
  double best = 0;
  for (int pass = 0; pass < 10; ++pass) best = std::max(best, pass_gb_s(words, std::max(threads, 1u), cpus, sink));
  munmap(memory, kBytes);
  return sink ? best : 0;
}

}  // namespace cli
