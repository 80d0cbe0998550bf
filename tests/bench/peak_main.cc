// peak: the ceilings of this machine as one JSON object, for one thread and for N (the first argument; else all CPUs).
#include <cstdio>
#include <cstdlib>

#include "bindings/cli/machine.h"
#include "tests/bench/peak.h"

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? std::atoi(argv[1]) : 0;
  const auto threads = wanted > 0 ? static_cast<uint32_t>(wanted) : static_cast<uint32_t>(cli::allowed_cpus().size());
  const auto print = [](const char* name, uint32_t n) {
    const kvrt_bench::Peak peak = kvrt_bench::measure_peak(n);
    std::printf(
        "\"%s\": {\"fma_256\": %.1f, \"fma_512\": %.1f, \"maddubs_256\": %.1f, \"dot_512\": %.1f, \"fma_256_median\": %.1f, \"read_gb_s\": "
        "%.2f}",
        name, peak.fma_256, peak.fma_512, peak.maddubs_256, peak.dot_512, peak.fma_256_median, cli::read_gb_s(n));
  };
  std::printf("{\"cpu\": \"%s\", \"threads\": %u, ", cli::cpu_name().c_str(), threads);
  print("one", 1);
  std::printf(", ");
  print("all", threads);
  std::printf("}\n");
  return 0;
}
