// The emulated device itself, on which the tests of cuda/ stand: its threads and its memory. (Streams: emulation/stream_test.cc; the
// liberties of a device: emulation/modes_test.cc.)
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "cuda/emulation/emulator.h"
#include "cuda/kernels/device.h"
#include "cuda/kernels/launch.h"
#include "tests/cuda/emulation/fixture.h"

namespace kvrt::cuda {
namespace {

// ---- kernels

__global__ void sum_blocks(const float* x, uint32_t n, float* out) {
  KVRT_DYNAMIC_SHARED(bytes);
  float sum = 0;
  for (uint32_t i = blockIdx.x * n + threadIdx.x; i < (blockIdx.x + 1) * n; i += blockDim.x) sum += x[i];
  sum = block_sum(sum, reinterpret_cast<float*>(bytes));
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
__global__ void shuffle_all(int* out) {  // [9][threads]
  const int lane = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  out[lane] = __shfl_sync(kFullWarp, lane, 7);
  out[n + lane] = __shfl_xor_sync(kFullWarp, lane, 5);
  out[2 * n + lane] = __shfl_down_sync(kFullWarp, lane, 3);
  out[3 * n + lane] = __shfl_up_sync(kFullWarp, lane, 3);
  out[4 * n + lane] = __shfl_sync(kFullWarp, lane, 1, 8);
  out[5 * n + lane] = __shfl_down_sync(kFullWarp, lane, 3, 8);
  out[6 * n + lane] = static_cast<int>(__ballot_sync(kFullWarp, lane % 3 == 0));
  out[7 * n + lane] = 2 * __any_sync(kFullWarp, lane == 2) + __all_sync(kFullWarp, lane >= 0);
  __syncwarp();
  out[8 * n + lane] = __syncthreads_count(lane % 2);
}
__global__ void coordinates(uint32_t* out, unsigned* counter) {
  const uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  __syncthreads();
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
  atomicAdd(counter, 1u);
}
enum class Wrong { kEnded, kLane, kCollectives, kBarriers, kWarpAtBarrier };
__global__ void go_wrong(Wrong what, float* out) {
  const uint32_t t = threadIdx.x;
  float x = 1.0f;
  if (what == Wrong::kEnded && t >= 40) return;
  if (what == Wrong::kLane && t == 3) return;
  if (what == Wrong::kLane) x = warp_sum(x);
  if (what == Wrong::kCollectives) {
    if (t % 2 == 0) x = __shfl_sync(kFullWarp, x, 0);
    if (t % 2 != 0) __syncwarp();
  }
  if (what == Wrong::kBarriers) {
    if (t < 32) __syncthreads();
    if (t >= 32) __syncthreads();
  }
  if (what == Wrong::kWarpAtBarrier && t == 5) __syncthreads();
  if (what == Wrong::kWarpAtBarrier) x = warp_sum(x);
  __syncthreads();
  out[t] = x;
}
__global__ void multiply_bytes(const uint32_t* a, const uint32_t* b, int32_t* d) {  // a [16][4] words, b [8][4], d [16][8]
  const uint32_t g = threadIdx.x / 4, t = threadIdx.x % 4;
  int32_t fd[4] = {1, 2, 3, 4};
  emulation::mma_s8_16x8x16(fd, {a[g * 4 + t], a[(g + 8) * 4 + t]}, b[g * 4 + t]);
  for (uint32_t i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = fd[i];
}
__global__ void fill_shared(uint32_t read_at, uint32_t* out) {
  KVRT_DYNAMIC_SHARED(bytes);
  out[threadIdx.x] = bytes[read_at];
  if (threadIdx.x == 0) bytes[read_at] = 1;  // the next block sees none of it
}
__global__ void add_to(int by, int* x) { *x += by; }

// ---- threads

TEST_F(Emulation, BlocksReduce) {
  std::vector<float> x(3 * 1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17);
  const float* const from = device(x);
  for (const uint32_t threads : {32u, 64u, 256u, 1024u}) {
    float* const out = device<float>(3);
    launch(sum_blocks, 3, threads, threads / 32 * sizeof(float), &stream_, from, 1000u, out);
    ASSERT_EQ(stream_.error, cudaSuccess);
    const std::vector<float> sums = host(out, 3);
    for (size_t b = 0; b < 3; ++b) {
      float want = 0;
      for (size_t i = 0; i < 1000; ++i) want += x[b * 1000 + i];
      EXPECT_EQ(sums[b], want) << threads;
    }
  }
}

TEST_F(Emulation, WarpsExchange) {
  for (const emulation::Order order : {emulation::Order::kForwards, emulation::Order::kBackwards, emulation::Order::kRandom}) {
    for (const uint32_t threads : {32u, 20u, 8u}) {  // also ragged
      emulation::configure({.modes = {.order = order}});
      int* const out = device<int>(9 * threads);
      launch(shuffle_all, 1, threads, 0, &stream_, out);
      ASSERT_EQ(stream_.error, cudaSuccess);
      const std::vector<int> got = host(out, 9 * threads);
      for (uint32_t lane = 0; lane < threads; ++lane) {
        const auto lane_or_none = [&](uint32_t from) { return from < threads ? static_cast<int>(from) : -1; };
        const auto at = [&](uint32_t row) { return got[row * threads + lane]; };
        EXPECT_EQ(at(0), 7);
        EXPECT_EQ(at(1), lane_or_none(lane ^ 5));
        EXPECT_EQ(at(2), lane_or_none(lane + 3 < 32 ? lane + 3 : lane));
        EXPECT_EQ(at(3), static_cast<int>(lane < 3 ? lane : lane - 3));
        EXPECT_EQ(at(4), lane_or_none(lane / 8 * 8 + 1));
        EXPECT_EQ(at(5), lane_or_none(lane % 8 < 5 ? lane + 3 : lane));
        EXPECT_EQ(static_cast<uint32_t>(at(6)), 0x49249249u & (threads == 32 ? ~0u : (1u << threads) - 1));
        EXPECT_EQ(at(7), 3);
        EXPECT_EQ(at(8), static_cast<int>(threads / 2));
      }
    }
  }
}

TEST_F(Emulation, EveryThreadOfEveryBlockRunsOnce) {
  for (const dim3 block : {dim3(1), dim3(33), dim3(5, 3, 2), dim3(1000), dim3(1, 1, 64), dim3(2, 512)}) {
    const dim3 grid(3, 2, 2);
    const uint32_t threads = block.x * block.y * block.z, n = 12 * threads;
    auto* const out = device<uint32_t>(n);
    unsigned* const counter = device(std::vector<unsigned>{0});
    launch(coordinates, grid, block, 0, &stream_, out, counter);
    ASSERT_EQ(stream_.error, cudaSuccess);
    const std::vector<uint32_t> got = host(out, n);
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(got[i], i / threads * 1000 + i % threads);
    EXPECT_EQ(host(counter, 1)[0], n);
  }
}

TEST_F(EmulationDeathTest, DivergenceIsFound) {
  float* const out = device<float>(64);
  const auto run = [&](Wrong what) { launch(go_wrong, 1, 64, 16, &stream_, what, out); };
  EXPECT_DEATH(run(Wrong::kEnded), "threads wait for others that never come.*block \\(0, 0, 0\\)");
  EXPECT_DEATH(run(Wrong::kLane), "threads wait for others that never come");
  EXPECT_DEATH(run(Wrong::kCollectives), "__syncwarp, while other lanes of the warp wait for it at __shfl_sync|never come");
  EXPECT_DEATH(run(Wrong::kBarriers), "__syncthreads, while other threads of the block wait at that of .*emulation_test.cc");
  EXPECT_DEATH(run(Wrong::kWarpAtBarrier), "never come|wait at that of");
}

TEST_F(Emulation, TensorCoresMultiplyBytes) {
  std::mt19937 random(2);
  std::vector<uint32_t> a(16 * 4), b(8 * 4);
  for (uint32_t& w : a) w = static_cast<uint32_t>(random());
  for (uint32_t& w : b) w = static_cast<uint32_t>(random());
  a[0] = b[0] = 0x80808080u;
  auto* const d = device<int32_t>(16 * 8);
  launch(multiply_bytes, 1, 32, 0, &stream_, device(a), device(b), d);
  ASSERT_EQ(stream_.error, cudaSuccess);
  const std::vector<int32_t> got = host(d, 16 * 8);
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t col = 0; col < 8; ++col) {
      int32_t want = static_cast<int32_t>(1 + row / 8 * 2 + col % 2);
      for (uint32_t k = 0; k < 16; ++k) {
        want += static_cast<int8_t>(a[row * 4 + k / 4] >> (k % 4 * 8)) * static_cast<int8_t>(b[col * 4 + k / 4] >> (k % 4 * 8));
      }
      EXPECT_EQ(got[row * 8 + col], want);
    }
  }
}

TEST_F(Emulation, SharedMemoryIsLimitedAndFresh) {
  constexpr uint32_t kMost = 227 << 10;
  auto* const out = device<uint32_t>(32);
  launch(fill_shared, 2, 32, 48 << 10, &stream_, (48u << 10) - 1, out);
  ASSERT_EQ(stream_.error, cudaSuccess);
  EXPECT_EQ(host(out, 32)[0], 0xffu);
  launch(fill_shared, 1, 32, (48 << 10) + 1, &stream_, 0u, out);
  EXPECT_EQ(std::exchange(stream_.error, cudaSuccess), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, kMost + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(fill_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, kMost), cudaSuccess);
  launch(fill_shared, 2, 32, kMost, &stream_, kMost - 1, out);
  EXPECT_EQ(stream_.error, cudaSuccess);
  EXPECT_EQ(host(out, 32)[0], 0xffu);
  launch(fill_shared, 1, 1025, 0, &stream_, 0u, out);
  EXPECT_EQ(std::exchange(stream_.error, cudaSuccess), cudaErrorInvalidConfiguration);
  launch(fill_shared, dim3(1, 65536), 1, 0, &stream_, 0u, out);
  EXPECT_EQ(stream_.error, cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// ---- memory

TEST_F(Emulation, MemoryHasABudget) {
  emulation::set_budget(1 << 20);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, (1 << 20) + 1), cudaErrorMemoryAllocation);
  auto* const bytes = device<uint8_t>((1 << 20) - 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 256, 0u);
  EXPECT_EQ(host(bytes, 3), std::vector<uint8_t>(3, 0xff));
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 4096u);
  EXPECT_EQ(total, 1u << 20);
  EXPECT_EQ(cudaMalloc(&p, 4097), cudaErrorMemoryAllocation);
  EXPECT_EQ(emulation::live().device_allocations, before_.device_allocations + 1);
}

TEST_F(Emulation, CopiesAreChecked) {
  auto* const d = device<uint8_t>(100);
  uint8_t h[200] = {};
  EXPECT_EQ(cudaMemcpy(d, h, 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(d, h, 100, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(d, h, 100, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(d + 1, 7, 100, stream_.handle), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(d + 1, 7, 99, stream_.handle), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(h, d, 100, cudaMemcpyDeviceToHost, stream_.handle), cudaSuccess);
  EXPECT_EQ(h[0] * 10 + h[99], 7);
  EXPECT_EQ(cudaFree(d + 1), cudaErrorInvalidValue);
}

TEST_F(EmulationDeathTest, DeviceMemoryFaultsWhereItMay) {
  int* const d = device(std::vector<int>{1, 2});
  EXPECT_DEATH(*static_cast<volatile int*>(d) = 3, "");
  emulation::configure({.protection = emulation::Protection::kAlways});
  launch(add_to, 1, 1, 0, &stream_, 1, d);
  EXPECT_DEATH(*static_cast<volatile int*>(d) = 3, "");
  EXPECT_DEATH(launch(add_to, 1, 1, 0, &stream_, 1, d + 64), "");  // past its 256 bytes
  int* gone = nullptr;
  ASSERT_EQ(cudaMalloc(&gone, 4), cudaSuccess);
  ASSERT_EQ(cudaFree(gone), cudaSuccess);
  EXPECT_DEATH(launch(add_to, 1, 1, 0, &stream_, 1, gone), "");
  auto* const out = device<uint32_t>(1);
  EXPECT_DEATH(launch(fill_shared, 1, 1, 64, &stream_, 64u, out), "");
  emulation::configure({.protection = emulation::Protection::kNone});
  *d = 7;
  EXPECT_EQ(host(d, 1)[0], 7);
}

}  // namespace
}  // namespace kvrt::cuda
