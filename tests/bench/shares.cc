#include "tests/bench/shares.h"

#include <algorithm>
#include <map>

#include "bindings/cli/machine.h"
#include "tests/bench/peak.h"

namespace kvrt_bench {
namespace {

const Peak& peak(uint32_t threads) {
  static std::map<uint32_t, Peak> measured;
  const auto [it, fresh] = measured.try_emplace(threads);
  if (fresh) it->second = measure_peak(threads);
  return it->second;
}

double read_bytes_s(uint32_t threads) {
  static std::map<uint32_t, double> measured;
  const auto [it, fresh] = measured.try_emplace(threads);
  if (fresh) it->second = cli::read_gb_s(threads) * 1e9;
  return it->second;
}

void set(benchmark::State& state, const char* name, double amount, double ceiling) {
  if (ceiling > 0) state.counters[name] = benchmark::Counter(amount / ceiling, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

void set_product_share(benchmark::State& state, std::string_view isa, uint32_t threads, double macs) {
  const double giga = isa == "avx512" ? peak(threads).dot_512 : isa == "avx2" ? peak(threads).maddubs_256 : 0;
  set(state, "of_ports", macs, giga * 1e9);
}

void set_fma_share(benchmark::State& state, std::string_view isa, uint32_t threads, double fmas) {
  const Peak& p = peak(threads);
  const double giga = isa == "avx512" ? std::max(p.fma_512, p.fma_256) : isa == "avx2" ? p.fma_256 : 0;
  set(state, "of_ports", fmas, giga * 1e9);
}

void set_read_share(benchmark::State& state, uint32_t threads, double bytes) { set(state, "of_read", bytes, read_bytes_s(threads)); }

}  // namespace kvrt_bench
