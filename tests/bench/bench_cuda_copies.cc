// bench_cuda: copies. Within the device; between pinned memory and the device; blocks of KV through the backend, as saves and resumes do it.
#include <algorithm>
#include <cstring>
#include <thread>

#include "cuda/backend/cuda_backend.h"
#include "tests/bench/bench_cuda.h"

namespace kvrt::bench {
namespace {

double gb_s(double bytes, const Timed& timed) { return bytes / timed.us / 1e3; }

void within(Device* device) {
  const uint64_t block = device->size(uint64_t{4} << 20, uint64_t{1} << 12);
  const uint32_t blocks = device->size(cuda::kCopyPairs, 3u);
  const Memory from(blocks * block, random_bytes(std::min<uint64_t>(blocks * block, 64 << 20), 2)), to(blocks * block);
  std::vector<BlockPair> pairs;
  for (uint32_t i = 0; i < blocks; ++i) pairs.push_back({to.as<uint8_t>(i * block), from.as<uint8_t>((blocks - 1 - i) * block)});
  const Timed timed = device->time(1, [&](uint32_t) { cuda::copy_blocks(&device->stream, pairs, block); });
  const double rate = gb_s(2.0 * static_cast<double>(blocks * block), timed);
  Line("copies")
      .add("what", "copy_blocks")
      .add("block_bytes", block)
      .add("blocks", blocks)
      .add("gb_s", rate)
      .add("of_copy", rate / device->copy_gb_s)
      .add("spread", timed.spread);
}

// Pinned memory to the device and back: as one, and in pieces.
struct PinnedRates {
  double to_device, from_device;
};

PinnedRates pinned(Device* device, uint64_t bytes, uint64_t piece) {
  uint8_t* host = nullptr;
  must(cudaMallocHost(reinterpret_cast<void**>(&host), bytes), "cudaMallocHost");
  const std::vector<uint8_t> random = random_bytes(bytes, 3);
  std::copy(random.begin(), random.end(), host);
  const Memory memory(bytes);
  const auto rate = [&](bool to_device) {
    const Timed timed = device->time(1, [&](uint32_t) {
      for (uint64_t at = 0; at < bytes; at += piece) {
        uint8_t *to = memory.as<uint8_t>(at), *from = host + at;
        if (!to_device) std::swap(to, from);
        device->stream.check(cudaMemcpyAsync(to, from, std::min(piece, bytes - at),
                                             to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, device->stream.handle));
      }
    });
    const double found = gb_s(static_cast<double>(bytes), timed);
    Line("copies")
        .add("what", to_device ? "pinned to device" : "device to pinned")
        .add("bytes", bytes)
        .add("piece_bytes", piece)
        .add("gb_s", found)
        .add("spread", timed.spread);
    return found;
  };
  const PinnedRates rates{rate(true), rate(false)};
  must(cudaFreeHost(host), "cudaFreeHost");
  return rates;
}

// Blocks that several threads upload from and download to memory of their own, each block of it touched before.
void through_backend(Device* device, const PinnedRates& pieces, uint64_t block) {
  auto backend = must(cuda::CudaBackend::open({}, nullptr));
  const uint32_t blocks = device->size(64u, 4u);
  std::vector<uint8_t> host = random_bytes(blocks * block, 4);
  const auto memory = must(backend->alloc(blocks * block, true));
  for (const bool up : {true, false}) {
    for (const uint32_t threads : {1u, 4u, 8u}) {
      const auto work = [&](uint32_t first) {
        for (uint32_t i = first; i < blocks; i += threads) {
          const std::span<uint8_t> mine(host.data() + i * block, block);
          uint8_t* there = memory->data() + i * block;
          must(up ? backend->upload(there, block, [&](std::span<uint8_t> to) { std::copy(mine.begin(), mine.end(), to.begin()); })
                  : backend->download(mine, there));
        }
      };
      const auto all = [&] {
        std::vector<std::thread> others;
        for (uint32_t t = 1; t < threads; ++t) others.emplace_back(work, t);
        work(0);
        for (std::thread& other : others) other.join();
      };
      all();
      const Timed timed = device->time_host(device->size(9u, 1u), all);
      const double rate = gb_s(static_cast<double>(blocks * block), timed);
      Line("copies")
          .add("what", up ? "backend upload" : "backend download")
          .add("block_bytes", block)
          .add("threads", threads)
          .add("gb_s", rate)
          .add("of_pinned", rate / (up ? pieces.to_device : pieces.from_device))
          .add("spread", timed.spread);
    }
  }
}

}  // namespace

void bench_copies(Device* device) {
  within(device);
  const uint64_t bytes = device->size(uint64_t{256} << 20, uint64_t{1} << 14), block = device->size(uint64_t{4} << 20, uint64_t{1} << 12);
  pinned(device, bytes, bytes);
  const PinnedRates pieces = pinned(device, bytes, block);
  through_backend(device, pieces, block);
}

}  // namespace kvrt::bench
