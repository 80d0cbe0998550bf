// Loading: tensors are packed into one image, on all threads, a batch at a time; or the image is mapped from the cache.
#include <algorithm>

#include "runtime/base/memory.h"
#include "runtime/compute/cpu/cpu_backend.h"
#include "runtime/compute/cpu/weights.h"
#include "runtime/compute/weight_dir.h"
#include "runtime/compute/weight_file.h"

namespace kvrt {
namespace {

constexpr uint64_t kChunkBytes = 2u << 20;  // one thread's part of the image: one thread touches a huge page
constexpr uint32_t kBatchChunks = 16;       // chunks between two reports; as much of the tensors is resident besides the image
}  // namespace

Result<std::shared_ptr<const uint8_t>> CpuBackend::pack(const WeightImage& image, const WeightLoad& load) {
  KVRT_TRY(check_memory("the weights", image.bytes(), "take a file with a smaller quantization; `kvrt plan` says what fits"));
  KVRT_ASSIGN(HostMemory mapped, HostMemory::map(image.bytes(), false));
  const auto memory = std::make_shared<HostMemory>(std::move(mapped));
  Mutex mu;
  Status failed;
  for (uint64_t at = 0; at < image.bytes();) {
    const uint64_t end = std::min(image.bytes(), at + kBatchChunks * kChunkBytes);
    {
      Lock turn(pool_mu_);
      pool_.parallel_for(static_cast<uint32_t>((end - at + kChunkBytes - 1) / kChunkBytes), [&](uint32_t chunk, uint32_t) {
        const uint64_t from = at + chunk * kChunkBytes, to = std::min(end, from + kChunkBytes);
        Status status = memory->populate(from, to - from);
        if (status.is_ok()) return image.pack(from, to, memory->data());
        Lock lock(mu);
        failed = std::move(status);
      });
    }
    KVRT_TRY(std::move(failed));
    for (const std::span<const uint8_t> bytes : image.sources(at, end)) KVRT_TRY(load.taken(bytes));
    at = end;
  }
  return std::shared_ptr<const uint8_t>(memory, memory->data());
}

// Maps the image from the cache; else packs it and keeps it there. Then that file is mapped too: other processes share its pages.
Result<std::shared_ptr<const uint8_t>> CpuBackend::load_image(const WeightImage& image, const WeightLoad& load) {
  if (!load.cache) return pack(image, load);
  const WeightCache& cache = *load.cache;
  const Hash256 key = image.key(cache.source);
  const ParallelFor parallel = [this](uint32_t chunks, ChunkFn fn) {
    Lock turn(pool_mu_);
    pool_.parallel_for(chunks, fn);
  };
  Status stopped;
  const auto poll = [&] {
    stopped = load.taken({});
    return stopped.clone();
  };
  auto found = find_weights(cache, key, image.bytes(), parallel, poll);
  KVRT_TRY(std::move(stopped));
  if (found.is_ok() && found->mapped) {
    for (const std::span<const uint8_t> bytes : image.sources(0, image.bytes())) KVRT_TRY(load.taken(bytes));
    return std::move(found->mapped);
  }
  KVRT_ASSIGN(auto packed, pack(image, load));
  const Status written = found.is_ok() ? write_weights(cache, key, {packed.get(), image.bytes()}, parallel, poll) : found.take_status();
  KVRT_TRY(std::move(stopped));
  if (!written.is_ok()) {
    log_cache(cache, "weights are not cached", written);
    return packed;
  }
  packed.reset();  // never two copies in memory
  auto mapped = map_weights(cache, key, image.bytes(), parallel);
  if (mapped.is_ok()) return mapped;
  log_cache(cache, "weights are not cached", mapped.status());
  return pack(image, {[](std::span<const uint8_t>) { return Status(); }, nullptr});
}

Result<std::vector<std::unique_ptr<Weight>>> CpuBackend::make_weights(std::span<const TensorStack> stacks, const WeightLoad& load) {
  WeightImage image;
  for (const TensorStack& stack : stacks) KVRT_TRY(image.add(stack));
  KVRT_ASSIGN(const std::shared_ptr<const uint8_t> memory, load_image(image, load));
  return image.bind(memory);
}

Result<uint64_t> CpuBackend::weight_bytes(std::span<const TensorView> tensors) const {
  KVRT_ASSIGN(const auto weight, PanelWeight::lay_out(tensors));
  return weight->bytes();
}

}  // namespace kvrt
