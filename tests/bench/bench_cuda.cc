// bench_cuda [--smoke] [PART...]: JSON lines about a CUDA device, of all parts or some. --smoke: tiny sizes, to try out the program.
#include "tests/bench/bench_cuda.h"

#include <cstdio>
#include <cstring>

namespace kvrt::bench {
namespace {

struct Part {
  const char* name;
  void (*run)(Device* device);
};
constexpr Part kParts[] = {{"copies", bench_copies}, {"rows", bench_rows},           {"matvec", bench_matvec},
                           {"gemm", bench_gemm},     {"attention", bench_attention}, {"step", bench_step}};

int usage() {
  std::fprintf(stderr, "usage: bench_cuda [--smoke] [PART...]\nparts: device");
  for (const Part& part : kParts) std::fprintf(stderr, " %s", part.name);
  std::fprintf(stderr, "\n");
  return 2;
}

int run(int argc, char** argv) {
  bool smoke = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    bool known = word == "--smoke" || word == "device";
    for (const Part& part : kParts) known |= word == part.name;
    if (!known) return usage();
    if (word == "--smoke") {
      smoke = true;
    } else {
      wanted.push_back(word);
    }
  }
  int count = 0;
  if (const cudaError_t counted = cudaGetDeviceCount(&count); counted != cudaSuccess || count == 0) {
    std::fprintf(stderr, "bench_cuda: no CUDA device: %s\n",
                 counted == cudaSuccess ? "the driver shows none" : cudaGetErrorString(counted));
    return 77;
  }
  Device device(smoke);
  device.print();
  for (const Part& part : kParts) {
    bool chosen = wanted.empty();
    for (const std::string& name : wanted) chosen |= name == part.name;
    if (chosen) part.run(&device);
  }
  return 0;
}

}  // namespace
}  // namespace kvrt::bench

int main(int argc, char** argv) { return kvrt::bench::run(argc, argv); }
