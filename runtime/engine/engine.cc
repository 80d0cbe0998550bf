#include "runtime/engine/engine.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/base/memory.h"
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
    : runtime_(std::move(runtime)), model_(std::move(model)) {}
Engine::~Engine() = default;

Engine::Parts::Parts(const std::shared_ptr<Engine>& engine, const StepOptions& options, uint32_t units)
    : cache(units, engine->memory_->kv().shape),
      step(&cache, options),
      gate(engine->runtime_->env(), engine->model_.get(), &cache),
      loader(engine->runtime_.get(), engine->memory_.get(), &cache, &step.supply),
      warmer(engine->runtime_.get(), &cache, &step.queue, &step.reports, &step.generations, &loader),
      saver(&engine->lock_, engine->runtime_.get(), engine->model_.get(), engine->memory_.get(), &cache, &step.queue, &gate),
      autosaves(&engine->lock_, engine->runtime_.get(), &saver),
      resumer(&engine->lock_, engine->runtime_.get(), engine->model_.get(), &engine->memory_->kv(), &cache, &step.queue, &step.reports,
              &gate, &loader, &autosaves),
      shrinker(engine->runtime_.get(), engine->model_.get(), engine->memory_.get()),
      sessions(&engine->lock_, engine->runtime_.get(), engine->model_.get(), &engine->memory_->kv(), &cache, &step.queue, &step.generations,
               &step.mailboxes, &gate, &autosaves),
      conversations(&engine->lock_, engine->runtime_->env(), engine->model_.get(), &cache, &gate),
      driver(std::shared_ptr<Driver>(engine, &driver), &engine->lock_, engine->runtime_.get(), engine->model_.get(), engine->runner_.get(),
             &step, &warmer, &gate, engine->step_ms_max_),
      drafting(std::shared_ptr<Drafting>(engine, &drafting), engine->runtime_->env(), engine->model_.get(), &sessions, &conversations,
               &driver) {}

Status Engine::make_pool(const EngineOptions& options, std::unique_ptr<ForwardPass> toy) {
  const ModelDims& d = model_->dims();
  const uint32_t prefill_chunk = options.prefill_chunk ? options.prefill_chunk : kStepRowsMax;
  KvFormats formats = options.load.kv_format;
  KVRT_TRY(check_formats(d, formats));
  formats.bias_apart = model_->weights() && model_->weights()->bias_apart;
  const ModelKv kv = model_kv(d, options.block_tokens, formats, prefill_chunk, options.windows);
  uint64_t memory_bytes = 0, free_bytes = 0;
  runtime_->backend()->device_memory(&memory_bytes, &free_bytes);
  if (options.kv_bytes_max > memory_bytes) {  // the system would reserve the pool, but its bookkeeping takes real memory
    return error(Code::kLimit, Detail::kNone, "kv_bytes_max is %llu, this machine has %s of memory: lower it",
                 static_cast<unsigned long long>(options.kv_bytes_max), in_gib(memory_bytes).c_str());
  }
  KVRT_ASSIGN(const uint64_t units, pool_units(kv, d.context, options.kv_bytes_max, free_bytes));
  const uint64_t unit_bytes = kv.unit_bytes(), pool_bytes = (units + kv.zero_units()) * unit_bytes;
  if (options.kv_populate && pool_bytes > free_bytes) {  // the system would give it, then kill the process as it touches the pages
    return error(Code::kNoMemory, Detail::kNone,
                 "kv_populate: the pool has %s, %s are free: lower kv_bytes_max; `kvrt plan` says what fits", in_gib(pool_bytes).c_str(),
                 in_gib(free_bytes).c_str());
  }
  KVRT_ASSIGN(auto pool, runtime_->backend()->alloc(pool_bytes, options.kv_populate));
  memory_ = std::make_unique<KvMemory>(kv, runtime_->backend(), std::move(pool));
  if (kv.shape.has_windows()) {  // the last unit stands where a table has no KV: zeros, which no row sees
    KVRT_TRY(runtime_->backend()->upload(memory_->unit(static_cast<BlockId>(units)), unit_bytes,
                                         [](std::span<uint8_t> zeros) { std::ranges::fill(zeros, 0); }));
  }
  KVRT_ASSIGN(runner_, StepRunner::make(runtime_.get(), *model_, kv.groups, memory_->pool(), std::move(toy)));
  step_ms_max_ = options.step_ms_max ? options.step_ms_max : kStepMsDefault;
  const StepOptions step{.context = d.context,
                         .step_ms_max = options.step_ms_max,
                         .context_cost = context_cost(d),
                         .unit_bytes = unit_bytes,
                         .plan = {prefill_chunk, kStepRowsMax, kLogitsRowsMax, runtime_->backend()->rows_alike(), options.boundary_every}};
  const uint64_t each = kv.shape.boundary_units(), room = kv.shape.boundaries_units(units);
  if (each > 0 && each > room / kBoundariesTold) {
    logf(runtime_->log(), LogLevel::kInfo,
         "boundaries (kvrt_session_mark) may take %llu of the pool's %llu bytes, one takes up to %llu: it keeps %llu that no session holds",
         static_cast<unsigned long long>(room * unit_bytes), static_cast<unsigned long long>(units * unit_bytes),
         static_cast<unsigned long long>(each * unit_bytes), static_cast<unsigned long long>(room / each));
  }
  parts_ = std::make_unique<Parts>(shared_from_this(), step, static_cast<uint32_t>(units));
  return {};
}

EngineInfo Engine::info() const {
  EngineInfo info;
  info.has_weights = parts_ != nullptr;
  info.has_template = model_->has_template();
  info.load_ms = load_ms_;
  if (const GgufFile* file = model_->file()) {
    info.architecture = file->get_string("general.architecture").value_or("");
    info.name = file->get_string("general.name").value_or("");
    info.file_bytes = file->file_bytes();
  }
  if (!parts_) return info;
  info.dims = model_->dims();
  info.kv = memory_->kv();
  info.weight_bytes = model_->weights() ? model_->weights()->weight_bytes : 0;
  info.scratch_bytes = runner_->scratch_bytes();
  info.pool_bytes = memory_->pool()->bytes();
  info.step_ms_max = step_ms_max_;
  Lock lock(lock_.mu);
  info.units = parts_->cache.size();
  info.units_free = parts_->cache.free_count();
  info.units_cached = parts_->cache.cached_count();
  info.sessions = parts_->step.queue.open_count();
  return info;
}

EngineMetrics Engine::metrics() const {
  EngineMetrics m;
  if (!parts_) return m;
  Lock lock(lock_.mu);
  m.counters = parts_->step.reports.counters;
  m.sessions = parts_->step.queue.open_count();
  for (const Session* s : parts_->step.queue.sessions()) {
    bool generating = s->state == SessionState::kGenerating && !s->drafts;
    m.generating += generating;
    m.paused += generating && !s->generation->finished && !s->runnable();
  }
  m.units = parts_->cache.size();
  m.units_cached = parts_->cache.cached_count();
  m.units_used = parts_->cache.used_count();
  m.evictions = parts_->cache.evictions();
  return m;
}

Result<std::shared_ptr<DraftModel>> Engine::draft_for(const Engine& target) {
  KVRT_TRY(check_sessions());
  if (this == &target)
    return error(Code::kInvalid, Detail::kNone, "draft is the session's own model: it would draft as slowly as it answers");
  if (runtime_ != target.runtime_) return error(Code::kInvalid, Detail::kNone, "draft is a model of another runtime");
  KVRT_TRY(parts_->drafting.check_vocabulary(target.model().tokenizer()));
  return std::shared_ptr<DraftModel>(shared_from_this(), &parts_->drafting);
}

Status Engine::check_sessions() const {
  if (parts_) return {};
  return error(Code::kUnsupported, Detail::kNone, "%s holds a vocabulary and no weights: it has no sessions", model_->name().c_str());
}

}  // namespace kvrt
