// gpu_tests [NAME]: the tests of cuda/ on a device, all or those of NAME_test.cc. Exits 77, which counts as skipped, where there is none.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace {

// "Suite.Case:Suite.Case ..." of a file's tests.
std::string tests_of(const std::string& name) {
  const std::string file = "/" + name + "_test.cc";
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (std::string(test.file()).ends_with(file)) filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) {
    const std::string filter = tests_of(argv[1]);
    if (argc > 2 || filter.empty()) {
      std::fprintf(stderr, "usage: gpu_tests [NAME], the tests of NAME_test.cc; there is no %s\n", argv[argc - 1]);
      return 2;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    std::printf("skipped: no CUDA device: %s\n", counted == cudaSuccess ? "the driver shows none" : cudaGetErrorString(counted));
    return 77;
  }
  cudaDeviceProp device{};
  if (const cudaError_t got = cudaGetDeviceProperties(&device, 0); got != cudaSuccess) {
    std::printf("the device does not answer: %s\n", cudaGetErrorString(got));
    return 1;
  }
  std::printf("%s, compute capability %d.%d\n", device.name, device.major, device.minor);
  return RUN_ALL_TESTS();
}
