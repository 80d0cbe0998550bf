#include "runtime/engine/resources/loaded_model.h"

#include <algorithm>

#include "runtime/base/json.h"
#include "runtime/base/limits.h"
#include "runtime/base/threads.h"
#include "runtime/text/answer/template_calls.h"
#include "runtime/text/reply/family.h"

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
  if (v.model == "bert") {  // [CLS] and [SEP]
    v.bos = id("tokenizer.ggml.cls_token_id");
    v.eos = id("tokenizer.ggml.seperator_token_id");
  }
  KVRT_ASSIGN(v.add_bos, file.optional_bool("tokenizer.ggml.add_bos_token"));
  KVRT_ASSIGN(v.add_eos, file.optional_bool("tokenizer.ggml.add_eos_token"));
  KVRT_ASSIGN(v.add_space_prefix, file.optional_bool("tokenizer.ggml.add_space_prefix"));
  KVRT_ASSIGN(v.remove_extra_whitespaces, file.optional_bool("tokenizer.ggml.remove_extra_whitespaces"));
  KVRT_ASSIGN(v.lowercase, file.optional_bool("tokenizer.ggml.normalizer.lowercase"));
  KVRT_ASSIGN(v.strip_accents, file.optional_bool("tokenizer.ggml.normalizer.strip_accents"));
  auto made = Tokenizer::create(v);
  if (!made.is_ok()) return made.take_status().annotate(file.name());
  return made;
}

namespace {

// `tokenizer`: null where there is none.
Status check_model(const GgufFile& file, const Backend& backend, const Tokenizer* tokenizer) {
  const Arch* arch = nullptr;
  KVRT_ASSIGN(const ModelDims dims, read_dims(file, &arch));
  KVRT_TRY(planned_weight_bytes(file, backend, *arch, dims).take_status());
  KVRT_TRY(scratch_bytes(dims, backend, kStepRowsMax).take_status());
  KVRT_TRY(check_weight_values(file, *arch, dims));
  if (!tokenizer || dims.vocab == tokenizer->vocab_size()) return {};
  return error(Code::kCorrupt, Detail::kFormat, "%s: token_embd.weight has %u rows, tokenizer.ggml.tokens %u entries", file.name().c_str(),
               dims.vocab, tokenizer->vocab_size());
}

}  // namespace

Status check_parts(const GgufFile& file, const Backend& backend, const PartCheck& told, ModelParts* parts) {
  const bool weights = !file.tensors().empty();
  if (file.has("tokenizer.ggml.model") || !weights || read_arch(file).is_ok()) {  // else it has none
    auto tokenizer = make_tokenizer(file);
    if (tokenizer.is_ok()) parts->tokenizer = std::move(tokenizer).value();
    KVRT_TRY(told("tokenizer", tokenizer.take_status()));
  }
  auto chat_template = file.optional_string("tokenizer.chat_template");
  if (chat_template.is_ok()) parts->chat_template = chat_template->value_or("");
  KVRT_TRY(told("chat template", chat_template.take_status()));
  return weights ? told("model", check_model(file, backend, parts->tokenizer.get())) : Status::ok();
}

Result<std::unique_ptr<LoadedModel>> LoadedModel::open(Runtime* runtime, const ModelSource& source, const LoadOptions& options,
                                                       const Progress& progress) {
  ModelParts parts;
  parts.name = source.name;
  KVRT_ASSIGN(parts.file, GgufFile::open(source, runtime->env()));
  if (!parts.file->tensors().empty()) KVRT_TRY(read_arch(*parts.file).take_status());  // a file of another kind has no tokenizer either
  KVRT_TRY(check_parts(
      *parts.file, *runtime->backend(), [](std::string_view, Status status) { return status; }, &parts));
  if (!parts.tokenizer->warning().empty())
    logf(runtime->log(), LogLevel::kWarn, "%s: %s", source.name.c_str(), parts.tokenizer->warning().c_str());
  if (!parts.file->tensors().empty()) {
    LoadProgress forward_progress = progress ? LoadProgress(progress) : [](uint64_t, uint64_t) { return true; };
    WeightCache cache = find_cache(runtime->env(), runtime->log(), options.cache, options.cache_dir, options.cache_bytes_max);
    if (!cache.dir.empty()) cache.source = file_id(*parts.file);
    if (!cache.dir.empty() && cache.source.is_zero())
      log_cache(cache, "weights are not cached",
                error(Code::kUnsupported, Detail::kNone, "%s: a part of a file has no identity of its own", source.name.c_str()));
    KVRT_ASSIGN(parts.weights, load_model(*parts.file, runtime->backend(), forward_progress, cache.source.is_zero() ? nullptr : &cache));
    KVRT_TRY(fit_keys(*parts.file, options.kv_format.k, parts.weights.get()));
    KVRT_TRY(place_vectors(parts.weights.get(), runtime->backend()));
    parts.dims = parts.weights->dims;
  }
  for (const GgufFile::Part& part : parts.file->parts())
    parts.file->drop_pages(part.bytes);  // pages of the header, and those that tensors share
  return std::make_unique<LoadedModel>(std::move(parts), runtime->log());
}

LoadedModel::LoadedModel(ModelParts parts, Log* log) : parts_(std::move(parts)), log_(log) {
  const std::string& source = parts_.chat_template;
  if (source.empty()) return;
  reply_style_ = detect_reply_style(source);
  template_shows_calls_ = source.find("tool_calls") != std::string::npos;
  template_id_ = Hasher().add_string(source).finish();
  auto parsed = ChatTemplate::parse(source);
  if (parsed.is_ok()) {
    template_ = std::move(parsed).value();
    check_calls();
    template_shows_reasoning_ = source.find("reasoning_content") != std::string::npos && !takes_reasoning_apart();
  } else {  // the model runs; calls that need the template give the error
    template_status_ = parsed.take_status().annotate("chat template of " + name());
    logf(log, LogLevel::kWarn, "%s", template_status_.message().c_str());
  }
}

Result<std::string> LoadedModel::render(std::string_view messages_json, bool generation_prompt, const TemplateArguments& arguments) const {
  if (!template_) {
    if (!template_status_.is_ok()) return template_status_.clone();
    return error(Code::kUnsupported, Detail::kNone, "%s has no tokenizer.chat_template", name().c_str());
  }
  TemplateOptions options;
  options.add_generation_prompt = generation_prompt;
  options.arguments = arguments;
  if (tokenizer().bos() >= 0) options.bos_token = tokenizer().piece(tokenizer().bos(), true);
  if (tokenizer().eos() >= 0) options.eos_token = tokenizer().piece(tokenizer().eos(), true);
  return template_->render(messages_json, options);
}

void LoadedModel::check_calls() {
  if (reply_style_.family == nullptr) return;
  const auto renders = [this](const std::string& messages, bool generation_prompt, const std::string& tools) {
    return render(messages, generation_prompt, {.tools = tools, .documents = {}, .variables = {}, .now = 1});
  };
  reply_style_.fits = writes_calls_as_family(renders, reply_style_);
  if (reply_style_.fits) return;
  logf(log_, LogLevel::kInfo, "%s: calls are not bound by default: its chat template does not write them as those of %.*s are",
       name().c_str(), static_cast<int>(reply_style_.family->name.size()), reply_style_.family->name.data());
}

bool LoadedModel::takes_reasoning_apart() const {
  const std::string answer = "so" + reply_style_.reasoning_end + "yes";
  std::string messages = R"([{"role":"user","content":"?"},{"role":"assistant","content":)";
  append_json_string(answer, &messages);
  auto text = render(messages + "}]", false, {});
  return text.is_ok() && text->find(answer) == std::string::npos;
}

void LoadedModel::tell_dropped(uint64_t bytes) const {
  if (bytes == 0) return;
  logf(log_, LogLevel::kWarn, "%s: %llu bytes of a text have no token in the vocabulary and are left out", name().c_str(),
       static_cast<unsigned long long>(bytes));
}

void LoadedModel::tell_second_bos() const {
  logf(log_, LogLevel::kWarn,
       "%s: append_text: the text begins with %s, which the session has already (kvrt puts it there where the model asks "
       "for it): the model sees two, expected one; leave it out of the text",
       name().c_str(), std::string(tokenizer().piece(tokenizer().bos(), true)).c_str());
}

bool LoadedModel::adds_bos(std::string_view text) const {
  return tokenizer().add_bos() && tokenizer().bos() >= 0 && !text.starts_with(tokenizer().piece(tokenizer().bos(), true));
}

Result<Hash256> LoadedModel::id(const Runtime& runtime, const std::shared_ptr<Store>& store) const {
  Lock lock(id_mu_);
  const auto is_store = [&](const std::weak_ptr<Store>& one) { return !one.owner_before(store) && !store.owner_before(one); };
  if (!id_.is_zero() && std::ranges::any_of(told_, is_store)) return id_;
  if (!file()) return id_ = Hasher().add_string(name()).finish();
  const auto place = file()->parts()[0].identity;
  const ModelFile known{place.device, place.inode, file_id(*file())};
  Hash256 cached;
  const bool has = !known.id.is_zero() && store->cached_model_id(known, &cached);
  if (id_.is_zero() && has) id_ = cached;
  if (id_.is_zero()) {
    ThreadPool pool(runtime.threads());
    KVRT_ASSIGN(id_, model_id(*file(), &pool, [](uint64_t, uint64_t) { return true; }));
  }
  if (!has && !known.id.is_zero()) store->cache_model_id(known, id_);  // the next process that opens this store need not hash the file
  std::erase_if(told_, [](const std::weak_ptr<Store>& one) { return one.expired(); });
  told_.push_back(store);
  return id_;
}

}  // namespace kvrt
