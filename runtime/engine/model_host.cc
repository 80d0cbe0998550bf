#include "runtime/engine/model_host.h"

#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/engine/plan.h"

namespace kvrt {

namespace {

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const GgufFile& file) {
  VocabSource v;
  KVRT_ASSIGN(v.model, file.require_string("tokenizer.ggml.model"));
  v.pre = file.get_string("tokenizer.ggml.pre").value_or("");
  auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (!tokens)
    return error(Code::kCorrupt, Detail::kFormat, "%s: tokenizer.ggml.tokens: expected an array of strings, found none",
                 file.name().c_str());
  v.tokens = std::move(*tokens);
  v.types = file.get_ints("tokenizer.ggml.token_type").value_or(std::vector<int64_t>{});
  v.merges = file.get_strings("tokenizer.ggml.merges").value_or(std::vector<std::string_view>{});
  auto id = [&](const char* key) {
    auto value = file.get_uint(key);
    return value && *value < v.tokens.size() ? static_cast<int64_t>(*value) : int64_t{-1};
  };
  v.bos = id("tokenizer.ggml.bos_token_id");
  v.eos = id("tokenizer.ggml.eos_token_id");
  v.eot = id("tokenizer.ggml.eot_token_id");
  v.unknown = id("tokenizer.ggml.unknown_token_id");
  v.padding = id("tokenizer.ggml.padding_token_id");
  v.add_bos = file.get_bool("tokenizer.ggml.add_bos_token").value_or(false);
  v.add_eos = file.get_bool("tokenizer.ggml.add_eos_token").value_or(false);
  v.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix").value_or(false);
  auto made = Tokenizer::create(v);
  if (!made.is_ok()) return made.take_status().annotate(file.name());
  return made;
}

}  // namespace

Result<std::shared_ptr<ModelHost>> ModelHost::open(std::shared_ptr<Engine> engine, const std::string& path, const HostOptions& options,
                                                   const Progress& progress) {
  std::shared_ptr<ModelHost> host(new ModelHost);
  host->engine_ = std::move(engine);
  KVRT_TRY(host->load(path, options, progress));
  return host;
}

ModelHost::~ModelHost() = default;

Status ModelHost::load(const std::string& path, const HostOptions& options, const Progress& progress) {
  uint64_t start = engine_->env()->now_ns();
  KVRT_ASSIGN(file_, GgufFile::open(path));
  KVRT_ASSIGN(tokenizer_, make_tokenizer(*file_));
  if (auto source = file_->get_string("tokenizer.chat_template")) {
    template_id_ = Hasher().add_string(*source).finish();
    auto parsed = ChatTemplate::parse(*source);
    if (parsed.is_ok()) {
      template_ = std::move(parsed).value();
    } else {  // the model runs; the calls that need the template say why they cannot
      template_status_ = parsed.take_status().annotate("chat template of " + path);
      logf(engine_->log(), LogLevel::kWarn, "%s", template_status_.message().c_str());
    }
  }
  if (!file_->tensors().empty()) {
    LoadProgress forward_progress = progress ? LoadProgress(progress) : [](uint64_t, uint64_t) { return true; };
    KVRT_ASSIGN(model_, load_model(*file_, engine_->backend(), forward_progress));
    if (model_->dims.vocab != tokenizer_->vocab_size()) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: token_embd.weight has %u rows, tokenizer.ggml.tokens %u entries", path.c_str(),
                   model_->dims.vocab, tokenizer_->vocab_size());
    }
    KVRT_TRY(make_pool(options));
  }
  load_ms_ = static_cast<double>(engine_->env()->now_ns() - start) * 1e-6;
  return {};
}

Status ModelHost::make_pool(const HostOptions& options) {
  const ModelDims& d = model_->dims;
  kv_ = kv_geometry(d, options.block_tokens);
  KVRT_ASSIGN(const uint64_t blocks, pool_blocks(kv_, d.context, options.kv_bytes_max));
  KVRT_ASSIGN(pool_buffer_, engine_->backend()->alloc(blocks * kv_.block_bytes(), false));
  KVRT_ASSIGN(scratch_, make_scratch(*model_, engine_->backend(), kStepRowsMax, kLogitsRowsMax));
  logits_.resize(logits_bytes(d) / sizeof(float));
  SchedulerLimits limits{d.context, options.prefill_chunk ? options.prefill_chunk : kStepRowsMax, kStepRowsMax, kLogitsRowsMax};
  scheduler_ = std::make_unique<Scheduler>(static_cast<uint32_t>(blocks), kv_.block_tokens, limits);
  scheduler_->block_bytes = kv_.block_bytes();
  return {};
}

HostInfo ModelHost::info() const {
  HostInfo info;
  info.has_weights = model_ != nullptr;
  info.architecture = file_->get_string("general.architecture").value_or("");
  info.name = file_->get_string("general.name").value_or("");
  info.has_template = template_ != nullptr;
  info.file_bytes = file_->file_bytes();
  info.load_ms = load_ms_;
  if (!model_) return info;
  info.dims = model_->dims;
  info.kv = kv_;
  info.weight_bytes = model_->weight_bytes;
  info.scratch_bytes = scratch_->bytes() + logits_.size() * sizeof(float);
  info.pool_bytes = pool_buffer_->bytes();
  std::lock_guard lock(mu_);
  BlockPool& pool = scheduler_->pool();
  info.blocks = pool.size();
  info.blocks_free = pool.free_count();
  info.blocks_cached = pool.cached_count();
  info.sessions = scheduler_->sessions().size();
  return info;
}

Result<std::string> ModelHost::render(std::string_view messages_json, bool generation_prompt, std::string_view tools_json) const {
  if (!template_) {
    if (!template_status_.is_ok()) return template_status_.clone();
    return error(Code::kUnsupported, Detail::kNone, "%s has no tokenizer.chat_template", file_->name().c_str());
  }
  TemplateOptions options;
  options.add_generation_prompt = generation_prompt;
  options.tools_json = tools_json;
  if (tokenizer_->bos() >= 0) options.bos_token = tokenizer_->piece(tokenizer_->bos(), true);
  if (tokenizer_->eos() >= 0) options.eos_token = tokenizer_->piece(tokenizer_->eos(), true);
  return template_->render(messages_json, options);
}

// ---- identities

Result<Hash256> ModelHost::model_id_for(Store* store) {
  std::lock_guard lock(model_id_mu_);
  if (!model_id_.is_zero()) return model_id_;
  auto file = file_->identity();
  if (store->cached_model_id(file.device, file.inode, file.size, file.mtime_ns, &model_id_)) return model_id_;
  ThreadPool pool(engine_->threads());
  KVRT_ASSIGN(model_id_, model_id(*file_, &pool, [](uint64_t, uint64_t) { return true; }));
  store->cache_model_id(file.device, file.inode, file.size, file.mtime_ns, model_id_);
  return model_id_;
}

// kv_root: what a block's bits depend on besides its tokens. Sessions without a store never leave this process, so the model needs no name.
Result<BlockKey> ModelHost::root_for(const SessionOptions& options) {
  Hash256 id;
  if (options.store) {
    KVRT_ASSIGN(id, model_id_for(options.store.get()));
  }
  Hasher hasher;
  hasher.add(id.bytes).add_string("f16").add_string(engine_->backend()->numerics()).add_string(options.domain);
  return hasher.finish();
}

}  // namespace kvrt
