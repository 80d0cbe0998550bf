#include "runtime/engine/engine.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/memory.h"
#include "runtime/compute/kv_layout.h"
#include "runtime/engine/resources/memory_cost.h"

namespace kvrt {

namespace {

constexpr uint64_t kBoundariesTold = 4;  // a pool that keeps fewer says so

// The tokens of context for which attention costs a row as much as all weights do: both in multiply-adds, attention at half the speed.
uint64_t context_cost(const ModelDims& d) {
  uint64_t weights = uint64_t{d.layers} * d.width * (2 * (uint64_t{d.heads} + d.kv_heads) * d.head_dim + 3 * uint64_t{d.ff});
  uint64_t attention = uint64_t{d.layers} * 2 * d.heads * d.head_dim;
  return attention ? std::max<uint64_t>(1, weights / attention / 2) : 4096;
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::open(std::shared_ptr<Runtime> runtime, const ModelSource& source, const EngineOptions& options,
                                             const Progress& progress) {
  uint64_t start = runtime->env()->now_ns();
  Env* env = runtime->env();
  KVRT_ASSIGN(auto model, LoadedModel::open(runtime.get(), source, options.load, progress));
  KVRT_ASSIGN(auto engine, assemble(std::move(runtime), std::move(model), nullptr, options));
  engine->load_ms_ = static_cast<double>(env->now_ns() - start) * 1e-6;
  return engine;
}

Result<std::shared_ptr<Engine>> Engine::assemble(std::shared_ptr<Runtime> runtime, std::unique_ptr<LoadedModel> model,
                                                 std::unique_ptr<ForwardPass> toy, const EngineOptions& options) {
  std::shared_ptr<Engine> engine(new Engine(std::move(runtime), std::move(model)));
  if (engine->model_->weights() || toy) KVRT_TRY(engine->make_pool(options, std::move(toy)));
  return engine;
}

Engine::Engine(std::shared_ptr<Runtime> runtime, std::unique_ptr<LoadedModel> model)
    : runtime_(std::move(runtime)), model_(std::move(model)), grammars_(model_->tokenizer()) {}
Engine::~Engine() = default;

Status Engine::make_pool(const EngineOptions& options, std::unique_ptr<ForwardPass> toy) {
  const ModelDims& d = model_->dims();
  const uint32_t prefill_chunk = options.prefill_chunk ? options.prefill_chunk : kStepRowsMax;
  KVRT_TRY(check_formats(d, options.load.kv_format));
  kv_ = model_kv(d, options.block_tokens, options.load.kv_format, prefill_chunk, options.windows);
  for (uint32_t number = 0; number <= kv_.groups.groups.size(); ++number) chunks_.push_back(kv_chunk(kv_.groups, number));
  uint64_t memory_bytes = 0, free_bytes = 0;
  runtime_->backend()->device_memory(&memory_bytes, &free_bytes);
  if (options.kv_bytes_max > memory_bytes) {  // the system would reserve the pool, but its bookkeeping takes real memory
    return error(Code::kLimit, Detail::kNone, "kv_bytes_max is %llu, this machine has %s of memory: lower it",
                 static_cast<unsigned long long>(options.kv_bytes_max), in_gib(memory_bytes).c_str());
  }
  KVRT_ASSIGN(const uint64_t units, pool_units(kv_, d.context, options.kv_bytes_max, free_bytes));
  const uint64_t unit_bytes = kv_.unit_bytes(), pool_bytes = (units + kv_.zero_units()) * unit_bytes;
  if (options.kv_populate && pool_bytes > free_bytes) {  // the system would give it, then kill the process as it touches the pages
    return error(Code::kNoMemory, Detail::kNone,
                 "kv_populate: the pool has %s, %s are free: lower kv_bytes_max; `kvrt plan` says what fits", in_gib(pool_bytes).c_str(),
                 in_gib(free_bytes).c_str());
  }
  KVRT_ASSIGN(pool_buffer_, runtime_->backend()->alloc(pool_bytes, options.kv_populate));
  if (kv_.shape.has_windows()) {  // the last unit stands where a table has no KV: zeros, which no row sees
    KVRT_TRY(runtime_->backend()->upload(unit_data(static_cast<BlockId>(units)), unit_bytes,
                                         [](std::span<uint8_t> zeros) { std::ranges::fill(zeros, 0); }));
  }
  KVRT_ASSIGN(runner_, StepRunner::make(runtime_.get(), *model_, kv_.groups, pool_buffer_.get(), std::move(toy)));
  step_ms_max_ = options.step_ms_max ? options.step_ms_max : kStepMsDefault;
  StepLimits limits;
  limits.context = d.context;
  limits.prefill_chunk = prefill_chunk;
  limits.step_ms_max = options.step_ms_max;
  limits.context_cost = context_cost(d);
  limits.rows_max = kStepRowsMax;
  limits.logits_max = kLogitsRowsMax;
  limits.boundary_every = options.boundary_every;
  limits.unit_bytes = unit_bytes;
  cache_ = std::make_unique<KvCache>(static_cast<uint32_t>(units), kv_.shape);
  const uint64_t each = kv_.shape.boundary_units(), room = kv_.shape.boundaries_units(units);
  if (each > 0 && each > room / kBoundariesTold) {
    logf(runtime_->log(), LogLevel::kInfo,
         "boundaries (kvrt_session_mark) may take %llu of the pool's %llu bytes, one takes up to %llu: it keeps %llu that no session holds",
         static_cast<unsigned long long>(room * unit_bytes), static_cast<unsigned long long>(units * unit_bytes),
         static_cast<unsigned long long>(each * unit_bytes), static_cast<unsigned long long>(room / each));
  }
  step_ = std::make_unique<StepParts>(cache_.get(), limits);
  return {};
}

EngineInfo Engine::info() const {
  EngineInfo info;
  info.has_weights = runner_ != nullptr;
  info.has_template = model_->has_template();
  info.load_ms = load_ms_;
  if (const GgufFile* file = model_->file()) {
    info.architecture = file->get_string("general.architecture").value_or("");
    info.name = file->get_string("general.name").value_or("");
    info.file_bytes = file->file_bytes();
  }
  if (!runner_) return info;
  info.dims = model_->dims();
  info.kv = kv_;
  info.weight_bytes = model_->weights() ? model_->weights()->weight_bytes : 0;
  info.scratch_bytes = runner_->scratch_bytes();
  info.pool_bytes = pool_buffer_->bytes();
  info.step_ms_max = step_ms_max_;
  Lock lock(mu_);
  info.blocks = cache_->size();
  info.blocks_free = cache_->free_count();
  info.blocks_cached = cache_->cached_count();
  info.sessions = step_->queue.sessions().size();
  return info;
}

EngineMetrics Engine::metrics() const {
  EngineMetrics m;
  if (!step_) return m;
  Lock lock(mu_);
  m.counters = step_->reports.counters;
  m.sessions = step_->queue.sessions().size();
  for (const Session* s : step_->queue.sessions()) {
    bool generating = s->state == SessionState::kGenerating;
    m.generating += generating;
    m.paused += generating && !s->generation->finished && !s->runnable();
  }
  m.blocks = cache_->size();
  m.blocks_cached = cache_->cached_count();
  m.blocks_used = cache_->used_count();
  m.evictions = cache_->evictions();
  return m;
}

// The root: a hash of all that a block's bits depend on besides its tokens. KV of a session without a store never leaves this process, so
// its root has no model id.
Result<BlockKey> Engine::root_for(const SessionOptions& options, const char* numerics) {
  Hash256 id;
  if (options.store) {
    KVRT_ASSIGN(id, model_->id(*runtime_, options.store));
  }
  Hasher hasher;
  hasher.add(id.bytes)
      .add_string(kv_formats_name(kv_.formats))
      .add_u64(kv_.block_tokens())
      .add_string(numerics ? numerics : runtime_->backend()->numerics());
  hasher.add_string(options.domain);
  return hasher.finish();
}

}  // namespace kvrt
