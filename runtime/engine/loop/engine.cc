#include "runtime/engine/loop/engine.h"

#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/memory.h"
#include "runtime/compute/kv_layout.h"
#include "runtime/engine/describe/memory_cost.h"

namespace kvrt {

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const GgufFile& file) {
  VocabSource v;
  KVRT_ASSIGN(v.model, file.require_string("tokenizer.ggml.model"));
  v.pre = file.get_string("tokenizer.ggml.pre").value_or("");
  auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (!tokens)
    return error(Code::kCorrupt, Detail::kFormat, "%s: tokenizer.ggml.tokens: expected an array of strings, found none",
                 file.name().c_str());
  v.tokens = std::move(*tokens);
  v.scores = file.get_floats("tokenizer.ggml.scores").value_or(std::vector<float>{});
  for (int64_t byte : file.get_ints("tokenizer.ggml.precompiled_charsmap").value_or(std::vector<int64_t>{}))
    v.charsmap.push_back(static_cast<char>(byte));
  v.types = file.get_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>{});
  v.merges = file.get_strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>{});
  auto id = [&](const char* key) {
    auto value = file.get_uint(key);
    return value && *value < v.tokens.size() ? static_cast<int64_t>(*value) : int64_t{-1};
  };
  v.bos = id("tokenizer.ggml.bos_token_id");
  v.eos = id("tokenizer.ggml.eos_token_id");
  v.eot = id("tokenizer.ggml.eot_token_id");
  v.eom = id("tokenizer.ggml.eom_token_id");
  v.fim_pad = id("tokenizer.ggml.fim_pad_token_id");
  v.fim_rep = id("tokenizer.ggml.fim_rep_token_id");
  v.fim_sep = id("tokenizer.ggml.fim_sep_token_id");
  v.unknown = id("tokenizer.ggml.unknown_token_id");
  v.padding = id("tokenizer.ggml.padding_token_id");
  v.add_bos = file.get_bool("tokenizer.ggml.add_bos_token");
  v.add_eos = file.get_bool("tokenizer.ggml.add_eos_token");
  v.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix");
  v.remove_extra_whitespaces = file.get_bool("tokenizer.ggml.remove_extra_whitespaces");
  auto made = Tokenizer::create(v);
  if (!made.is_ok()) return made.take_status().annotate(file.name());
  return made;
}

namespace {

class ForwardRunner final : public StepRunner {
 public:
  ForwardRunner(const Model& model, Backend* backend, const KvGeometry& kv, std::unique_ptr<ForwardScratch> scratch)
      : model_(model), backend_(backend), kv_(kv), scratch_(std::move(scratch)) {}
  Status run(const Step& step, uint8_t* pool, float* logits, DrawnToken* drawn) override {
    forward(model_, backend_, kv_, pool, step, scratch_.get(), logits, drawn);
    return backend_->sync();
  }
  uint64_t bytes() const override { return scratch_->bytes(); }

 private:
  const Model& model_;
  Backend* backend_;
  const KvGeometry& kv_;
  std::unique_ptr<ForwardScratch> scratch_;
};

// Tokens of context after which attention costs a row as much as all its weights do: both in multiply-adds, attention at half the speed.
uint64_t context_cost(const ModelDims& d) {
  uint64_t weights = uint64_t{d.layers} * d.width * (2 * (uint64_t{d.heads} + d.kv_heads) * d.head_dim + 3 * uint64_t{d.ff});
  uint64_t attention = uint64_t{d.layers} * 2 * d.heads * d.head_dim;
  return attention ? std::max<uint64_t>(1, weights / attention / 2) : 4096;
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::open(std::shared_ptr<Runtime> runtime, const ModelSource& source, const EngineOptions& options,
                                                   const Progress& progress) {
  uint64_t start = runtime->env()->now_ns();
  EngineParts parts;
  parts.name = source.name;
  KVRT_ASSIGN(parts.file, GgufFile::open(source));
  KVRT_ASSIGN(parts.tokenizer, make_tokenizer(*parts.file));
  if (!parts.tokenizer->warning().empty())
    logf(runtime->log(), LogLevel::kWarn, "%s: %s", source.name.c_str(), parts.tokenizer->warning().c_str());
  parts.chat_template = parts.file->get_string("tokenizer.chat_template").value_or("");
  if (!parts.file->tensors().empty()) {
    LoadProgress forward_progress = progress ? LoadProgress(progress) : [](uint64_t, uint64_t) { return true; };
    WeightCache cache = find_cache(runtime->env(), runtime->log(), options.cache, options.cache_dir, options.cache_bytes_max);
    if (!cache.dir.empty()) cache.source = file_id(*parts.file);
    if (!cache.dir.empty() && cache.source.is_zero())
      log_cache(cache, "weights are not cached",
                error(Code::kUnsupported, Detail::kNone, "%s: a part of a file has no identity of its own", source.name.c_str()));
    KVRT_ASSIGN(parts.model, load_model(*parts.file, runtime->backend(), forward_progress, cache.source.is_zero() ? nullptr : &cache));
    if (options.kv_format == KvFormat::kI8) balance_qk(parts.model.get());
    KVRT_TRY(place_vectors(parts.model.get(), runtime->backend()));
    parts.dims = parts.model->dims;
    if (parts.dims.vocab != parts.tokenizer->vocab_size()) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: token_embd.weight has %u rows, tokenizer.ggml.tokens %u entries",
                   source.name.c_str(), parts.dims.vocab, parts.tokenizer->vocab_size());
    }
  }
  parts.file->drop_pages(parts.file->bytes());  // what was read of the header; and the pages that tensors share
  Env* env = runtime->env();
  KVRT_ASSIGN(auto engine, assemble(std::move(runtime), std::move(parts), options));
  engine->load_ms_ = static_cast<double>(env->now_ns() - start) * 1e-6;
  return engine;
}

Result<std::shared_ptr<Engine>> Engine::assemble(std::shared_ptr<Runtime> runtime, EngineParts parts, const EngineOptions& options) {
  std::shared_ptr<Engine> engine(new Engine);
  engine->runtime_ = std::move(runtime);
  engine->name_ = std::move(parts.name);
  engine->file_ = std::move(parts.file);
  engine->tokenizer_ = std::move(parts.tokenizer);
  engine->model_ = std::move(parts.model);
  engine->dims_ = parts.dims;
  if (!parts.chat_template.empty()) {
    engine->reply_style_ = detect_reply_style(parts.chat_template);
    engine->template_shows_calls_ = parts.chat_template.find("tool_calls") != std::string::npos;
    engine->template_id_ = Hasher().add_string(parts.chat_template).finish();
    auto parsed = ChatTemplate::parse(parts.chat_template);
    if (parsed.is_ok()) {
      engine->template_ = std::move(parsed).value();
    } else {  // the model runs; the calls that need the template say why they cannot
      engine->template_status_ = parsed.take_status().annotate("chat template of " + engine->name_);
      logf(engine->runtime_->log(), LogLevel::kWarn, "%s", engine->template_status_.message().c_str());
    }
  }
  if (engine->model_ || parts.toy) KVRT_TRY(engine->make_pool(options, std::move(parts.toy)));
  return engine;
}

Engine::~Engine() = default;

Status Engine::make_pool(const EngineOptions& options, std::unique_ptr<StepRunner> toy) {
  const ModelDims& d = dims_;
  kv_ = kv_geometry(d, options.block_tokens, options.kv_format);
  uint64_t memory_bytes = 0, free_bytes = 0;
  runtime_->backend()->device_memory(&memory_bytes, &free_bytes);
  if (options.kv_bytes_max > memory_bytes) {  // the pool alone would be reserved gladly, its bookkeeping is real
    return error(Code::kLimit, Detail::kNone, "kv_bytes_max is %llu, this machine has %llu bytes of memory: lower it",
                 static_cast<unsigned long long>(options.kv_bytes_max), static_cast<unsigned long long>(memory_bytes));
  }
  KVRT_ASSIGN(const uint64_t blocks, pool_blocks(kv_, d.context, options.kv_bytes_max, free_bytes));
  const uint64_t pool_bytes = blocks * kv_.block_bytes();
  if (options.kv_populate && pool_bytes > free_bytes) {  // the system would give it, and end the process when the pages are touched
    return error(Code::kNoMemory, Detail::kNone, "kv_populate: the pool has %llu bytes, %llu are free: lower kv_bytes_max",
                 static_cast<unsigned long long>(pool_bytes), static_cast<unsigned long long>(free_bytes));
  }
  KVRT_ASSIGN(pool_buffer_, runtime_->backend()->alloc(pool_bytes, options.kv_populate));
  runner_ = std::move(toy);
  if (!runner_) {
    KVRT_ASSIGN(auto scratch, make_scratch(*model_, runtime_->backend(), kStepRowsMax));
    const StepShape shape = step_shape(d, kStepRowsMax);
    std::lock_guard device(runtime_->step_mutex());
    KVRT_TRY(runtime_->backend()->reserve_steps(shape));
    device_scratch_bytes_ = runtime_->backend()->step_memory(shape);
    runner_ = std::make_unique<ForwardRunner>(*model_, runtime_->backend(), kv_, std::move(scratch));
  }
  // Its pages on their first use: few steps want many rows.
  KVRT_ASSIGN(logits_buffer_, runtime_->backend()->alloc_host(logits_bytes(d)));
  logits_ = {reinterpret_cast<float*>(logits_buffer_->data()), logits_bytes(d) / sizeof(float)};
  KVRT_ASSIGN(drawn_buffer_, runtime_->backend()->alloc_host(kLogitsRowsMax * sizeof(DrawnToken)));
  drawn_ = reinterpret_cast<DrawnToken*>(drawn_buffer_->data());
  step_ms_max_ = options.step_ms_max ? options.step_ms_max : kStepMsDefault;
  SchedulerLimits limits;
  limits.context = d.context;
  limits.prefill_chunk = options.prefill_chunk ? options.prefill_chunk : kStepRowsMax;
  limits.step_ms_max = options.step_ms_max;
  limits.context_cost = context_cost(d);
  limits.rows_max = kStepRowsMax;
  limits.logits_max = kLogitsRowsMax;
  scheduler_ = std::make_unique<Scheduler>(static_cast<uint32_t>(blocks), kv_.block_tokens, limits);
  scheduler_->block_bytes = kv_.block_bytes();
  return {};
}

EngineInfo Engine::info() const {
  EngineInfo info;
  info.has_weights = runner_ != nullptr;
  info.has_template = template_ != nullptr;
  info.load_ms = load_ms_;
  if (file_) {
    info.architecture = file_->get_string("general.architecture").value_or("");
    info.name = file_->get_string("general.name").value_or("");
    info.file_bytes = file_->file_bytes();
  }
  if (!runner_) return info;
  info.dims = dims_;
  info.kv = kv_;
  info.weight_bytes = model_ ? model_->weight_bytes : 0;
  info.scratch_bytes = runner_->bytes() + logits_.size() * sizeof(float) + device_scratch_bytes_;
  info.pool_bytes = pool_buffer_->bytes();
  info.step_ms_max = step_ms_max_;
  std::lock_guard lock(mu_);
  BlockPool& pool = scheduler_->pool();
  info.blocks = pool.size();
  info.blocks_free = pool.free_count();
  info.blocks_cached = pool.cached_count();
  info.sessions = scheduler_->sessions().size();
  return info;
}

EngineMetrics Engine::metrics() const {
  EngineMetrics m;
  if (!scheduler_) return m;
  std::lock_guard lock(mu_);
  m.counters = scheduler_->counters();
  m.sessions = scheduler_->sessions().size();
  for (const Session* s : scheduler_->sessions()) {
    bool generating = s->state == SessionState::kGenerating;
    m.generating += generating;
    m.paused += generating && !s->generation->finished && !scheduler_->runnable(*s);
  }
  BlockPool& pool = scheduler_->pool();
  m.blocks = pool.size();
  m.blocks_cached = pool.cached_count();
  m.blocks_used = pool.size() - pool.free_count() - pool.cached_count();
  return m;
}

Result<std::string> Engine::render(std::string_view messages_json, bool generation_prompt, const TemplateArguments& arguments) const {
  if (!template_) {
    if (!template_status_.is_ok()) return template_status_.clone();
    return error(Code::kUnsupported, Detail::kNone, "%s has no tokenizer.chat_template", name_.c_str());
  }
  TemplateOptions options;
  options.add_generation_prompt = generation_prompt;
  options.arguments = arguments;
  if (tokenizer_->bos() >= 0) options.bos_token = tokenizer_->piece(tokenizer_->bos(), true);
  if (tokenizer_->eos() >= 0) options.eos_token = tokenizer_->piece(tokenizer_->eos(), true);
  return template_->render(messages_json, options);
}

// ---- identities

Result<Hash256> Engine::model_id_for(Store* store) {
  std::lock_guard lock(model_id_mu_);
  if (!model_id_.is_zero()) return model_id_;
  if (!file_) return model_id_ = Hasher().add_string(name_).finish();
  const auto place = file_->identity();
  const ModelFile file{place.device, place.inode, file_id(*file_)};
  if (!file.id.is_zero() && store->cached_model_id(file, &model_id_)) return model_id_;
  ThreadPool pool(runtime_->threads());
  KVRT_ASSIGN(model_id_, model_id(*file_, &pool, [](uint64_t, uint64_t) { return true; }));
  if (!file.id.is_zero()) store->cache_model_id(file, model_id_);
  return model_id_;
}

// kv_root: what a block's bits depend on besides its tokens. Sessions without a store never leave this process, so the model needs no name.
Result<BlockKey> Engine::root_for(const SessionOptions& options, const char* numerics) {
  Hash256 id;
  if (options.store) {
    KVRT_ASSIGN(id, model_id_for(options.store.get()));
  }
  Hasher hasher;
  hasher.add(id.bytes)
      .add_string(kv_format_name(kv_.format))
      .add_u64(kv_.block_tokens)
      .add_string(numerics ? numerics : runtime_->backend()->numerics());
  hasher.add_string(options.domain);
  return hasher.finish();
}

}  // namespace kvrt
