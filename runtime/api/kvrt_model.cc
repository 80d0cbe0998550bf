#include "runtime/api/boundary.h"
#include "runtime/api/kv_figures.h"
#include "runtime/base/limits.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Status;

namespace {

Status check_model_options(const kvrt_model_options& o) {
  KVRT_TRY(check_kv(o.kv_format, o.kv_format_v, o.block_tokens));
  if (o.prefill_chunk > kvrt::kStepRowsMax) {
    return error(Code::kInvalid, Detail::kNone, "prefill_chunk is %u, expected 1 to %u or 0", o.prefill_chunk, kvrt::kStepRowsMax);
  }
  if (o.step_ms_max > kvrt::kStepMsMax) {
    return error(Code::kInvalid, Detail::kNone, "step_ms_max is %u, expected 1 to %u or 0", o.step_ms_max, kvrt::kStepMsMax);
  }
  if (o.from_fd > 1 || o.kv_populate > 1) {
    return error(Code::kInvalid, Detail::kNone, "from_fd is %u, kv_populate %u, expected 0 or 1", o.from_fd, o.kv_populate);
  }
  if (o.cache > KVRT_CACHE_USER || (o.cache == KVRT_CACHE_NONE && o.cache_dir)) {
    return error(Code::kInvalid, Detail::kNone, "cache is %u%s, expected 0, 1 (without a cache_dir) or 2", o.cache,
                 o.cache_dir ? " with a cache_dir" : "");
  }
  if (o.from_fd ? o.fd < 0 : o.fd || o.fd_offset || o.fd_size) {
    return error(Code::kInvalid, Detail::kNone, "fd is %d, fd_offset %llu, fd_size %llu with from_fd %u: expected %s", o.fd,
                 static_cast<unsigned long long>(o.fd_offset), static_cast<unsigned long long>(o.fd_size), o.from_fd,
                 o.from_fd ? "an open file" : "zeros");
  }
  return {};
}

void fill_props(const kvrt::Engine& engine, kvrt_model_props* p) {
  kvrt::EngineInfo i = engine.info();
  const kvrt::Tokenizer& tokenizer = engine.model().tokenizer();
  p->has_weights = i.has_weights;
  copy_text(p->architecture, i.architecture);
  copy_text(p->name, i.name);
  p->vocab_size = tokenizer.vocab_size();
  p->context_length = i.dims.context;
  p->layers = i.dims.layers;
  p->heads = i.dims.heads;
  p->kv_heads = i.dims.kv_heads;
  p->head_dim = i.dims.head_dim;
  p->width = i.dims.width;
  p->bos_token = tokenizer.bos();
  p->eos_token = tokenizer.eos();
  p->add_bos = tokenizer.add_bos();
  p->has_template = i.has_template;
  fill_kv(i.kv, p);
  p->file_bytes = i.file_bytes;
  p->weight_bytes = i.weight_bytes;
  p->scratch_bytes = i.scratch_bytes;
  p->units = i.units;
  p->units_free = i.units_free;
  p->units_cached = i.units_cached;
  p->sessions = i.sessions;
  p->load_ms = i.load_ms;
  p->scratch_bytes = i.scratch_bytes;
  p->step_ms_max = i.step_ms_max;
  p->kv_format = KVRT_KV_F16 + static_cast<uint32_t>(i.kv.formats.k);
  p->kv_format_v = KVRT_KV_F16 + static_cast<uint32_t>(i.kv.formats.v);
}

kvrt::Result<kvrt::EngineOptions> options_of(const kvrt_model_options& o) {
  KVRT_TRY(check_model_options(o));
  kvrt::EngineOptions options;
  options.load.kv_format = kv_formats_of(o.kv_format, o.kv_format_v);
  options.block_tokens = o.block_tokens;
  options.prefill_chunk = o.prefill_chunk;
  options.kv_bytes_max = o.kv_bytes_max;
  options.step_ms_max = o.step_ms_max;
  options.kv_populate = o.kv_populate != 0;
  if (o.cache_dir || o.cache_dir_size) KVRT_TRY(check_path(o.cache_dir, o.cache_dir_size, &options.load.cache_dir, "cache_dir"));
  options.load.cache = static_cast<kvrt::CacheChoice>(o.cache);
  options.load.cache_bytes_max = o.cache_bytes_max;
  return options;
}

}  // namespace

extern "C" {

kvrt_status kvrt_model_open(kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_model_options* options,
                            kvrt_event_fn callback, void* user, kvrt_model** out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    KVRT_TRY(check_not_null(out, "out"));
    kvrt_model_options o;
    KVRT_TRY(read_options(options, "kvrt_model_options", &o));
    KVRT_ASSIGN(const kvrt::EngineOptions engine_options, options_of(o));
    kvrt::ModelSource source("model");
    if (!o.from_fd || path_size) KVRT_TRY(check_path(path, path_size, &source.name));
    if (o.from_fd) source.fd = o.fd, source.offset = o.fd_offset, source.size = o.fd_size;
    KVRT_ASSIGN(auto engine, kvrt::Engine::open(held, source, engine_options, as_progress(callback, user)));
    *out = new kvrt_model(std::move(engine));
    return {};
  });
}

void kvrt_model_retain(kvrt_model* model) { retain(model); }
void kvrt_model_release(kvrt_model* model) { release(model); }

kvrt_status kvrt_model_info(const kvrt_model* model, kvrt_model_props* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    KVRT_TRY(check_output_struct(out, "out"));
    kvrt_model_props p{};
    fill_props(*engine, &p);
    write_output(out, p);
    return {};
  });
}

kvrt_status kvrt_model_cache(const kvrt_runtime* runtime, const kvrt_model_options* options, kvrt_cache_props* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    KVRT_TRY(check_output_struct(out, "out"));
    kvrt_model_options o;
    KVRT_TRY(read_options(options, "kvrt_model_options", &o));
    KVRT_ASSIGN(const kvrt::EngineOptions opened, options_of(o));
    const kvrt::WeightCache cache =
        kvrt::find_cache(held->env(), nullptr, opened.load.cache, opened.load.cache_dir, opened.load.cache_bytes_max);
    if (cache.dir.empty()) return error(Code::kNotFound, Detail::kNone, "no directory is named: see cache in kvrt_model_options");
    KVRT_ASSIGN(const kvrt::CacheStat stat, kvrt::stat_cache(cache));
    kvrt_cache_props p{};
    p.files = static_cast<uint32_t>(stat.files);
    p.bytes = stat.bytes;
    p.bytes_max = stat.bytes_max;
    p.bytes_free = stat.bytes_free;
    copy_text(p.directory, cache.dir);
    write_output(out, p);
    return {};
  });
}

kvrt_status kvrt_model_tokenize(const kvrt_model* model, const char* text, size_t text_size, uint32_t flags, int32_t* tokens,
                                size_t capacity, size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    KVRT_TRY(check_text(text, text_size, "text"));
    KVRT_TRY(check_buffer(tokens, capacity, needed));
    if (flags & ~uint32_t{KVRT_TEXT_SPECIAL | KVRT_TEXT_BOS})
      return error(Code::kInvalid, Detail::kNone, "flags is %u, unknown bits are set", flags);
    const kvrt::Tokenizer& tokenizer = engine->model().tokenizer();
    std::vector<int32_t> ids;
    if ((flags & KVRT_TEXT_BOS) && tokenizer.bos() >= 0) ids.push_back(tokenizer.bos());
    uint64_t dropped = 0;
    KVRT_TRY(tokenizer.encode({text ? text : "", text_size}, flags & KVRT_TEXT_SPECIAL, &ids, -1, &dropped));
    engine->model().tell_dropped(dropped);
    return write_buffer(ids.data(), ids.size(), tokens, capacity, needed);
  });
}

kvrt_status kvrt_model_detokenize(const kvrt_model* model, const int32_t* tokens, size_t count, uint32_t flags, char* text, size_t capacity,
                                  size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    if (count) KVRT_TRY(check_not_null(tokens, "tokens"));
    KVRT_TRY(check_buffer(text, capacity, needed));
    if (flags & ~uint32_t{KVRT_TEXT_SPECIAL}) return error(Code::kInvalid, Detail::kNone, "flags is %u, unknown bits are set", flags);
    const kvrt::Tokenizer& tokenizer = engine->model().tokenizer();
    for (size_t i = 0; i < count; ++i) {
      if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= tokenizer.vocab_size()) {
        return error(Code::kInvalid, Detail::kNone, "tokens[%zu] is %d, the vocabulary has %u", i, tokens[i], tokenizer.vocab_size());
      }
    }
    std::string decoded = tokenizer.decode({tokens, count}, flags & KVRT_TEXT_SPECIAL);
    return write_buffer(decoded.data(), decoded.size(), text, capacity, needed);
  });
}

kvrt_status kvrt_model_apply_template(const kvrt_model* model, const char* messages, size_t messages_size,
                                      const kvrt_template_options* options, char* text, size_t capacity, size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    kvrt_template_options o;
    KVRT_TRY(read_options(options, "kvrt_template_options", &o));
    std::shared_ptr<kvrt::Engine> engine;
    if (model || !o.source) {
      KVRT_ASSIGN(engine, hold(model, "model"));
    }
    KVRT_TRY(check_text(messages, messages_size, "messages"));
    KVRT_TRY(check_text(o.source, o.source_size, "source"));
    kvrt::TemplateArguments arguments;
    KVRT_TRY(read_arguments(o, &arguments));
    KVRT_TRY(check_buffer(text, capacity, needed));
    if (o.no_generation_prompt > 1)
      return error(Code::kInvalid, Detail::kNone, "no_generation_prompt is %u, expected 0 or 1", o.no_generation_prompt);
    std::string_view json(messages ? messages : "", messages_size);
    std::string rendered;
    if (o.source) {
      KVRT_ASSIGN(auto parsed, kvrt::ChatTemplate::parse({o.source, o.source_size}));
      kvrt::TemplateOptions t;
      t.add_generation_prompt = !o.no_generation_prompt;
      t.arguments = std::move(arguments);
      if (engine) {
        const kvrt::Tokenizer& tokenizer = engine->model().tokenizer();
        if (tokenizer.bos() >= 0) t.bos_token = tokenizer.piece(tokenizer.bos(), true);
        if (tokenizer.eos() >= 0) t.eos_token = tokenizer.piece(tokenizer.eos(), true);
      }
      KVRT_ASSIGN(rendered, parsed->render(json, t));
    } else {
      KVRT_ASSIGN(rendered, engine->model().render(json, !o.no_generation_prompt, arguments));
    }
    return write_buffer(rendered.data(), rendered.size(), text, capacity, needed);
  });
}

}  // extern "C"
