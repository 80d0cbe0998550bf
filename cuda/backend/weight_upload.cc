// CudaBackend's weights: the CPU's code packs their panels slice by slice in pinned memory; a slice is copied while the next is packed.
#include <algorithm>
#include <cstring>

#include "cuda/backend/cuda_backend.h"
#include "runtime/compute/cpu/weights.h"

namespace kvrt::cuda {
namespace {

constexpr uint64_t kSliceBytes = 16u << 20;  // panels packed between two reports of progress
constexpr uint64_t kChunkBytes = 1u << 20;   // panels of one thread at a time

}  // namespace

Result<uint64_t> CudaBackend::weight_bytes(std::span<const TensorView> tensors) const {
  KVRT_ASSIGN(const auto weight, PanelWeight::lay_out(tensors));
  return weight->bytes();
}

void CudaBackend::pack(const WeightImage& image, uint64_t begin, uint64_t end, uint8_t* host, uint64_t base) {
  Lock turn(pool_mu_);
  pool_.parallel_for(static_cast<uint32_t>((end - begin + kChunkBytes - 1) / kChunkBytes), [&](uint32_t chunk, uint32_t) {
    const uint64_t first = begin + chunk * kChunkBytes;
    image.pack(first, std::min(end, first + kChunkBytes), host, base);
  });
}

// Two slices take turns: one is packed while the other is copied.
Result<std::vector<std::unique_ptr<Weight>>> CudaBackend::make_weights(std::span<const TensorStack> stacks, const WeightLoad& load) {
  WeightImage image;
  for (const TensorStack& stack : stacks) {
    if (stack.size() > kWeightPartsMax) {
      return error(Code::kUnsupported, Detail::kNone, "CUDA: a weight of %zu tensors, at most %u are stacked", stack.size(),
                   kWeightPartsMax);
    }
    KVRT_TRY(image.add(stack));
  }
  KVRT_ASSIGN(std::shared_ptr<Buffer> memory, context_->alloc(image.bytes()));
  uint64_t slice_bytes = 0;
  for (uint64_t at = 0; at < image.bytes(); at += kSliceBytes) {
    const auto [from, to] = image.extent(at, std::min(image.bytes(), at + kSliceBytes));
    slice_bytes = std::max(slice_bytes, to - from);
  }
  std::unique_ptr<DeviceContext::Staging> slices[2];
  for (auto& slice : slices) {
    KVRT_ASSIGN(slice, context_->staging(slice_bytes));
  }
  for (uint64_t at = 0, turn = 0; at < image.bytes(); at += kSliceBytes, turn ^= 1) {
    const uint64_t end = std::min(image.bytes(), at + kSliceBytes);
    const auto [from, to] = image.extent(at, end);
    DeviceContext::Staging& slice = *slices[turn];
    KVRT_TRY(slice.wait("a copy of weights"));
    uint8_t* host = slice.memory().data();
    std::memset(host, 0, to - from);
    pack(image, at, end, host, from);
    KVRT_TRY(slice.start(memory->data() + from, host, to - from, cudaMemcpyHostToDevice, "a copy of weights"));
    for (const std::span<const uint8_t> bytes : image.sources(at, end)) KVRT_TRY(load.taken(bytes));
  }
  for (auto& slice : slices) KVRT_TRY(slice->wait("a copy of weights"));

  // The layout on the device is that on the host.
  std::vector<std::unique_ptr<Weight>> out;
  const std::shared_ptr<const uint8_t> base(memory, memory->data());
  for (const std::unique_ptr<Weight>& bound : image.bind(base)) {
    const auto& panels = static_cast<const PanelWeight&>(*bound);
    DeviceWeight view;
    view.rows = panels.rows();
    view.cols = panels.cols();
    for (const WeightPart& part : panels.parts()) {
      view.parts[view.n_parts++] = {part.type, part.row_begin, part.rows, part.panels, part.panel_bytes, part.data};
    }
    out.push_back(std::make_unique<CudaWeight>(view, panels.bytes(), memory));
  }
  return out;
}

}  // namespace kvrt::cuda
