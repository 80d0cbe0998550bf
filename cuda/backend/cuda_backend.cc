#include "cuda/backend/cuda_backend.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt::cuda {

Result<std::unique_ptr<Backend>> CudaBackend::open(const CudaOptions& options, Log* log, const CublasLt* gemm) {
  KVRT_ASSIGN(auto context, DeviceContext::open(options.device));
  const DeviceContext::Use use(context.get());
  std::unique_ptr<CudaBackend> backend(new CudaBackend(std::move(context), options, log));
  const cudaError_t made = cudaStreamCreateWithFlags(&backend->stream_.handle, cudaStreamNonBlocking);
  if (made != cudaSuccess) return backend->context_->failed(made, "CUDA: a stream");
  KVRT_TRY(backend->open_gemm(gemm));
  return std::unique_ptr<Backend>(std::move(backend));
}

Status CudaBackend::open_gemm(const CublasLt* given) {
  if (determinism_ == Determinism::kStrict) return {};
  const auto& p = context_->properties();
  if (fp8_prompts_ && p.major * 10 + p.minor < 89) {
    return error(Code::kUnsupported, Detail::kNone, "FP8 prompts: %s has compute capability %d.%d, at least 8.9 is needed", p.name, p.major,
                 p.minor);
  }
  auto functions = given ? Result<CublasLt>(*given) : load_cublaslt();
  auto opened =
      functions.is_ok() ? GemmLibrary::open(*functions, context_.get(), determinism_ == Determinism::kNone) : functions.take_status();
  if (opened.is_ok()) {
    gemm_ = std::move(opened).value();
    if (!fp8_prompts_) return {};
    constexpr uint32_t kSize = 4096;  // as good as any size of a weight
    if (!gemm_->takes_e4m3(kSize, kSize, kStepRowsMax)) {
      return error(Code::kUnsupported, Detail::kNone, "FP8 prompts: cuBLASLt %s has no product of e4m3 on %s", gemm_->version().c_str(),
                   p.name);
    }
    logf(log_, LogLevel::kInfo, "steps of more than %u rows (%u with plain weights) multiply in FP8, by cuBLASLt %s", kMatvecRowsMax,
         kFewRows, gemm_->version().c_str());
    return {};
  }
  if (fp8_prompts_) return opened.take_status().annotate("FP8 prompts need cuBLASLt");
  logf(log_, LogLevel::kWarn, "prompts are computed by kvrt's own slower matrix kernels, not by cuBLASLt: %s",
       opened.status().message().c_str());
  return {};
}

CudaBackend::CudaBackend(std::unique_ptr<DeviceContext> context, const CudaOptions& options, Log* log)
    : context_(std::move(context)), log_(log), determinism_(options.determinism), fp8_prompts_(options.fp8_prompts) {
  const auto& p = context_->properties();
  isa_ = "sm_" + std::to_string(p.major) + std::to_string(p.minor);
  numerics_ = (determinism_ == Determinism::kStrict ? "cuda-1s-sm" : "cuda-2-sm") + std::to_string(p.major) + std::to_string(p.minor) +
              (fp8_prompts_ ? "-f8" : "");
  stream_.overlap = p.major >= 9;
  stream_.shared_max = p.sharedMemPerBlockOptin;
}

CudaBackend::~CudaBackend() {
  const DeviceContext::Use use(context_.get());
  gemm_.reset();
  if (stream_.handle) (void)cudaStreamDestroy(stream_.handle);
}

// ---- memory

// The pool of a device is there from the start: nothing is populated on its first use.
Result<std::unique_ptr<Buffer>> CudaBackend::alloc(uint64_t bytes, bool) { return context_->alloc(bytes); }
Result<std::unique_ptr<Buffer>> CudaBackend::alloc_host(uint64_t bytes) { return context_->alloc_pinned(bytes); }

void CudaBackend::device_memory(uint64_t* total, uint64_t* free) const {
  size_t is_free = 0, all = context_->properties().totalGlobalMem;
  const DeviceContext::Use use(context_.get());
  if (use.status().is_ok()) (void)cudaMemGetInfo(&is_free, &all);
  *total = all;
  *free = is_free;
}

Status CudaBackend::upload(uint8_t* device, uint64_t bytes, const std::function<void(std::span<uint8_t> host)>& fill) {
  KVRT_ASSIGN(const auto staging, context_->staging(bytes));
  fill(staging->memory().first(bytes));
  return staging->copy(device, staging->memory().data(), bytes, cudaMemcpyHostToDevice, "a copy to the device");
}

Status CudaBackend::download(std::span<uint8_t> host, const uint8_t* device) {
  KVRT_ASSIGN(const auto staging, context_->staging(host.size()));
  KVRT_TRY(staging->copy(staging->memory().data(), device, host.size(), cudaMemcpyDeviceToHost, "a copy from the device"));
  std::copy_n(staging->memory().data(), host.size(), host.data());
  return {};
}

// In batches: a pair that touches a block which one before it writes, or writes a block which one before it reads, begins the next.
void CudaBackend::copy(std::span<const BlockPair> pairs, uint64_t bytes) {
  const DeviceContext::Use use(context_.get());
  if (!use.status().is_ok()) return fail(use.status());
  while (!pairs.empty()) {
    size_t n = 1;
    const auto waits = [&](const BlockPair& before) {
      return pairs[n].from == before.to || pairs[n].to == before.from || pairs[n].to == before.to;
    };
    while (n < pairs.size() && n < kCopyPairs && std::none_of(pairs.begin(), pairs.begin() + static_cast<ptrdiff_t>(n), waits)) ++n;
    copy_blocks(&stream_, pairs.first(n), bytes);
    pairs = pairs.subspan(n);
  }
}

void CudaBackend::clear(uint8_t* device, uint64_t bytes) {
  const DeviceContext::Use use(context_.get());
  if (!use.status().is_ok()) return fail(use.status());
  stream_.check(cudaMemsetAsync(device, 0, bytes, stream_.handle));
}

void CudaBackend::fetch(const float* x, uint64_t n, float* host) {
  stream_.check(cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, stream_.handle));
}

Status CudaBackend::sync() {
  const DeviceContext::Use use(context_.get());
  if (!use.status().is_ok()) fail(use.status());
  const cudaError_t done = cudaStreamSynchronize(stream_.handle);
  const cudaError_t queued = std::exchange(stream_.error, cudaSuccess);
  // After fail() stopped the step, only the work queued before that can tell that the device is lost.
  const cudaError_t failed = queued == cudaSuccess || !error_.is_ok() ? done : queued;
  if (failed != cudaSuccess) {
    Status status = context_->failed(failed, "a step on " + device_name());
    if (error_.is_ok()) error_ = std::move(status);
  }
  return std::exchange(error_, {});
}

void CudaBackend::fail(Status status) {
  if (error_.is_ok()) error_ = std::move(status);
  stream_.check(cudaErrorUnknown);  // nothing more of this step is queued
}

// ---- steps

// The host has them at hand, whatever the step's graph does: a graph copies them from where they are.
bool CudaBackend::stage_table(const TensorView& table, const Step& step) {
  const uint64_t bytes = uint64_t{step.n_rows()} * table.cols() * sizeof(float);
  if (!table_host_ || table_host_->bytes() < bytes) {
    auto host = context_->alloc_pinned(bytes);
    if (!host.is_ok()) {
      fail(host.take_status());
      return false;
    }
    table_host_ = std::move(host).value();
  }
  if (!grow(&table_rows_, bytes)) return false;
  auto* out = reinterpret_cast<float*>(table_host_->data());
  const auto gather = [&](uint32_t row, uint32_t) { dequantize_row(table, step.tokens[row], out + row * table.cols()); };
  if (step.n_rows() > kFewRows) {
    Lock turn(pool_mu_);
    pool_.parallel_for(step.n_rows(), gather);
  } else {
    for (uint32_t row = 0; row < step.n_rows(); ++row) gather(row, 0);
  }
  stream_.check(cudaMemcpyAsync(table_rows_->data(), out, bytes, cudaMemcpyHostToDevice, stream_.handle));
  return stream_.error == cudaSuccess;
}

bool CudaBackend::begin_step(const StepRun& run) {
  const Step& step = *run.step;
  bool moved = false;
  Status put = arrays_.put(context_.get(), &stream_, step, &moved);
  if (moved) ++generation_;
  if (!put.is_ok()) {
    fail(std::move(put));
    return false;
  }
  class_rows_ = step.n_rows();
  splits_ = splits_of(arrays_.last_position());
  return !run.table || stage_table(*run.table, step);
}

void CudaBackend::run(const StepRun& step, const std::function<void()>& fn) {
  const DeviceContext::Use use(context_.get());
  if (!use.status().is_ok()) return fail(use.status());
  if (step.step && !begin_step(step)) return;
  const bool few = step.step && step.step->n_rows() <= kFewRows;
  if (!few || !step.cache) return fn();
  replay_or_capture(static_cast<GraphCache*>(step.cache), step.shape_key, fn);
}

// A shape runs without a graph the first time: after that every buffer has its size, and capturing allocates nothing.
void CudaBackend::replay_or_capture(GraphCache* cache, uint64_t key, const std::function<void()>& fn) {
  GraphCache::Entry* entry = cache->find(key, splits_);
  if (entry->generation != generation_) {
    GraphCache::drop(entry);
    entry->warm = false;
  }
  if (entry->graph) return stream_.check(cudaGraphLaunch(entry->graph, stream_.handle));
  if (!entry->warm || entry->refused) {
    fn();
    entry->generation = generation_;
    entry->warm = stream_.error == cudaSuccess;  // it ran to its end: no buffer is missing
    return;
  }
  if (stream_.error != cudaSuccess) return;
  cudaGraph_t graph = nullptr;
  cudaError_t status = cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal);
  if (status == cudaSuccess) {
    capturing_ = true;
    fn();
    capturing_ = false;
    const cudaError_t queued = std::exchange(stream_.error, cudaSuccess);
    status = cudaStreamEndCapture(stream_.handle, &graph);
    if (status == cudaSuccess) status = queued;
  }
  if (status == cudaSuccess) status = cudaGraphInstantiate(&entry->graph, graph, 0);
  if (graph) stream_.check(cudaGraphDestroy(graph));
  if (status == cudaSuccess) return stream_.check(cudaGraphLaunch(entry->graph, stream_.handle));
  entry->graph = nullptr;
  (void)cudaGetLastError();
  // A device that is lost says so again, whatever the error was.
  const cudaError_t lost = cudaStreamSynchronize(stream_.handle);
  if (lost != cudaSuccess) return fail(context_->failed(lost, "a graph of a step"));
  logf(log_, LogLevel::kWarn, "%s: steps of this shape run without", to_status(status, "a graph of a step").message().c_str());
  entry->refused = true;
  fn();
}

}  // namespace kvrt::cuda
