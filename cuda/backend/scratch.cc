// CudaBackend's scratch memory, which ops use one after the other: the size for a model's largest steps, and its growth.
#include <algorithm>
#include <bit>

#include "cuda/backend/cuda_backend.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt::cuda {
namespace {

constexpr uint64_t kPartialsMax = 128ull << 20;  // bytes of attention's parts, unless one row needs more

// Blocks of `block` numbers in `n`.
uint64_t blocks(uint64_t n, uint64_t block) { return (n + block - 1) / block; }

}  // namespace

uint32_t CudaBackend::splits_of(uint32_t last_position) { return std::bit_ceil(last_position / kSplitTokens + 1); }

// Long contexts have many parts: then fewer rows are taken at a time. No row depends on the others.
uint32_t CudaBackend::rows_in_parts(const KvGeometry& kv, uint32_t heads, uint32_t splits) {
  const uint64_t row_bytes = decode_partials(kv, heads, 1, splits) * sizeof(float);
  return static_cast<uint32_t>(std::clamp<uint64_t>(kPartialsMax / row_bytes, 1, kFewRows));
}

Status CudaBackend::enlarge(Scratch* scratch, uint64_t bytes) {
  if (*scratch && (*scratch)->bytes() >= bytes) return {};
  KVRT_CHECK(!capturing_);
  if (*scratch) {
    ++generation_;
    const cudaError_t done = cudaStreamSynchronize(stream_.handle);  // queued work still uses the old one
    if (done != cudaSuccess) return context_->failed(done, "a step on " + device_name());
    scratch->reset();
  }
  KVRT_ASSIGN(*scratch, context_->alloc(bytes));
  return {};
}

bool CudaBackend::grow(Scratch* scratch, uint64_t bytes) {
  if (*scratch && (*scratch)->bytes() >= bytes) return true;
  if (stream_.error != cudaSuccess) return false;
  Status grown = enlarge(scratch, bytes);
  if (grown.is_ok()) return true;
  fail(std::move(grown));
  return false;
}

// The most that the ops reserve of each buffer in the largest steps.
std::vector<CudaBackend::ScratchUse> CudaBackend::scratch_uses(const StepShape& s) const {
  const uint64_t attended = uint64_t{s.heads} * s.head_dim, qkv = (uint64_t{s.heads} + 2 * s.kv_heads) * s.head_dim,
                 gate_up = 2 * uint64_t{s.ff};
  const uint64_t cols = std::max({uint64_t{s.width}, attended, uint64_t{s.ff}}), few = kFewRows * cols;
  const KvGeometry kv{1, s.kv_heads, s.head_dim, 1};
  const uint64_t row = decode_partials(kv, s.heads, 1, splits_of(s.context - 1)) * sizeof(float);
  std::vector<ScratchUse> uses = {
      {&CudaBackend::q_, few},
      {&CudaBackend::d_, blocks(few, kQuantBlock) * sizeof(float)},
      {&CudaBackend::s_, blocks(few, kQuantBlock) * sizeof(float)},
      {&CudaBackend::sums_, blocks(few, kQuantBlock) * 2 * sizeof(int16_t)},
      {&CudaBackend::normed_, few * sizeof(float)},
      {&CudaBackend::partials_, std::max(row, std::min(kFewRows * row, kPartialsMax))},
  };
  if (s.experts > 0) {
    uses.push_back({&CudaBackend::rows_, std::max(s.rows, kFewRows) * sizeof(uint32_t)});
    uses.push_back({&CudaBackend::weights_, std::max(s.rows, kFewRows) * sizeof(float)});
  }
  if (s.layer_inputs > 0) uses.push_back({&CudaBackend::table_rows_, uint64_t{s.rows} * s.layer_inputs * sizeof(float)});
  if (s.by_head > 0) {
    uses.push_back({&CudaBackend::heads_in_, uint64_t{s.rows} * s.by_head * sizeof(float)});
    uses.push_back({&CudaBackend::heads_out_, uint64_t{s.rows} * s.by_head * sizeof(float)});
  }
  if (determinism_ == Determinism::kStrict || s.rows <= kFewRows) return uses;
  uses.push_back({&CudaBackend::halves_, gemm_rows(s.rows) * cols * sizeof(uint16_t)});
  uses.push_back({&CudaBackend::gate_up_, s.rows * gate_up * sizeof(float)});
  if (!gemm_) return uses;
  uint64_t cells = s.cells <= kDequantizedMax ? s.cells : 0;
  // A weight has so many rows or columns; its other side is `width`.
  for (const uint64_t weight_rows :
       {qkv, attended, gate_up, uint64_t{s.ff}, uint64_t{s.experts}, uint64_t{s.layer_inputs}, uint64_t{s.plain_head}}) {
    if (weight_rows * s.width <= kDequantizedMax) cells = std::max(cells, weight_rows * s.width);
  }
  uses.push_back({&CudaBackend::dequantized_, cells * sizeof(uint16_t)});
  if (!fp8_prompts_) return uses;
  const uint64_t weight_rows = std::max({qkv, uint64_t{s.width}, gate_up, uint64_t{s.experts}, uint64_t{s.plain_head}});
  uses.push_back({&CudaBackend::scales_, (weight_rows + s.rows) * sizeof(float)});
  uses.push_back({&CudaBackend::products_, uint64_t{s.rows} * s.width * sizeof(float)});
  return uses;
}

uint64_t CudaBackend::step_memory(const StepShape& shape) const {
  uint64_t bytes = StepArrays::bytes() + (gemm_ ? GemmLibrary::kWorkspaceBytes : 0);
  for (const ScratchUse& use : scratch_uses(shape)) bytes += use.bytes;
  for (const RopeParams& rope : shape.ropes) bytes += RopeTable::bytes(rope, spans_of(splits_of(shape.context - 1)));
  return bytes;
}

Status CudaBackend::reserve_steps(const StepShape& shape) {
  const DeviceContext::Use use(context_.get());
  KVRT_TRY(use.status());
  KVRT_TRY(arrays_.reserve(context_.get()));
  for (const ScratchUse& scratch : scratch_uses(shape)) KVRT_TRY(enlarge(&(this->*scratch.memory), scratch.bytes));
  for (const RopeParams& rope : shape.ropes) KVRT_TRY(make_rope_table(rope, spans_of(splits_of(shape.context - 1))).take_status());
  return {};
}

}  // namespace kvrt::cuda
