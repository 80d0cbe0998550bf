// main of the tests of cuda/ on a device. Exits 77, which counts as skipped, where there is none.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
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
