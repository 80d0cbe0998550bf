// Architectures as data, and the hyper-parameters of a file. A new architecture is one row and one golden test.
#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/model/model.h"

namespace kvrt {

namespace {

constexpr Arch kArchs[] = {
    {"llama", RopeStyle::kInterleaved, false},
    {"qwen2", RopeStyle::kHalves, true},
};

// Keys after "<arch>." that change the computation in ways no row says yet.
constexpr const char* kUnsupportedKeys[] = {"expert_count", "attention.sliding_window", "attention.clamp_kqv", "attention.max_alibi_bias",
                                            "attn_logit_softcapping", "final_logit_softcapping", "embedding_scale", "residual_scale",
                                            "logit_scale", "attention.scale", "attention.temperature_length"};

std::string list_archs() {
  std::string text;
  for (const Arch& a : kArchs) text += (text.empty() ? "" : ", ") + std::string(a.name);
  return text;
}

Status check_unsupported(const GgufFile& file, const std::string& prefix) {
  for (const char* key : kUnsupportedKeys) {
    auto number = file.get_uint(prefix + key);
    auto real = file.get_float(prefix + key);
    if ((number && *number) || (real && *real != 0)) {
      return error(Code::kUnsupported, Detail::kNone, "%s: key %s%s", file.name().c_str(), prefix.c_str(), key);
    }
  }
  auto scaling = file.get_string(prefix + "rope.scaling.type");
  if (scaling && *scaling != "none") {
    return error(Code::kUnsupported, Detail::kNone, "%s: RoPE scaling \"%.*s\" (key %srope.scaling.type)", file.name().c_str(),
                 static_cast<int>(scaling->size()), scaling->data(), prefix.c_str());
  }
  return {};
}

Result<float> require_float(const GgufFile& file, const std::string& key, double min, double max, std::optional<double> fallback) {
  auto value = file.get_float(key);
  if (!value && !file.has(key) && fallback) value = fallback;
  if (!value) return error(Code::kCorrupt, Detail::kFormat, "%s: key %s: expected f32, found %s", file.name().c_str(), key.c_str(),
                           file.has(key) ? "another type" : "nothing");
  if (!(*value >= min && *value <= max)) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: key %s is %g, expected %g to %g", file.name().c_str(), key.c_str(), *value, min, max);
  }
  return static_cast<float>(*value);
}

Status read_heads(const GgufFile& file, const std::string& prefix, ModelDims* d) {
  KVRT_ASSIGN(uint64_t heads, file.require_uint(prefix + "attention.head_count", 1, kHeadsMax));
  uint64_t kv_heads = heads;
  if (file.has(prefix + "attention.head_count_kv")) {
    KVRT_ASSIGN(kv_heads, file.require_uint(prefix + "attention.head_count_kv", 1, heads));
  }
  if (heads % kv_heads) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: %llu attention heads are no multiple of %llu KV heads", file.name().c_str(),
                 static_cast<unsigned long long>(heads), static_cast<unsigned long long>(kv_heads));
  }
  uint64_t head_dim = d->width / heads;
  if (file.has(prefix + "attention.key_length")) {
    KVRT_ASSIGN(head_dim, file.require_uint(prefix + "attention.key_length", 1, kHeadDimMax));
    if (file.has(prefix + "attention.value_length")) {
      KVRT_TRY(file.require_uint(prefix + "attention.value_length", head_dim, head_dim).take_status());
    }
  } else if (d->width % heads) {
    return error(Code::kCorrupt, Detail::kFormat, "%s: a width of %u is no multiple of %llu heads, and there is no key %sattention.key_length",
                 file.name().c_str(), d->width, static_cast<unsigned long long>(heads), prefix.c_str());
  }
  if (head_dim % 2 || head_dim > kHeadDimMax || head_dim == 0) {
    return error(Code::kUnsupported, Detail::kNone, "%s: a head dimension of %llu, expected an even number up to %u", file.name().c_str(),
                 static_cast<unsigned long long>(head_dim), kHeadDimMax);
  }
  d->heads = static_cast<uint32_t>(heads);
  d->kv_heads = static_cast<uint32_t>(kv_heads);
  d->head_dim = static_cast<uint32_t>(head_dim);
  d->attention_scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return {};
}

}  // namespace

const Arch* find_arch(std::string_view name) {
  auto row = std::find_if(std::begin(kArchs), std::end(kArchs), [&](const Arch& a) { return name == a.name; });
  return row == std::end(kArchs) ? nullptr : row;
}

Result<ModelDims> read_dims(const GgufFile& file, const Arch** arch) {
  KVRT_ASSIGN(std::string_view name, file.require_string("general.architecture"));
  const Arch* row = find_arch(name);
  if (!row) {
    return error(Code::kUnsupported, Detail::kNone, "%s: architecture \"%.*s\"; known: %s", file.name().c_str(), static_cast<int>(name.size()),
                 name.data(), list_archs().c_str());
  }
  std::string prefix = std::string(name) + ".";
  KVRT_TRY(check_unsupported(file, prefix));
  ModelDims d;
  KVRT_ASSIGN(uint64_t layers, file.require_uint(prefix + "block_count", 1, kLayersMax));
  KVRT_ASSIGN(uint64_t width, file.require_uint(prefix + "embedding_length", 1, kWidthMax));
  KVRT_ASSIGN(uint64_t ff, file.require_uint(prefix + "feed_forward_length", 1, kWidthMax));
  KVRT_ASSIGN(uint64_t context, file.require_uint(prefix + "context_length", 1, kContextMax));
  d.layers = static_cast<uint32_t>(layers);
  d.width = static_cast<uint32_t>(width);
  d.ff = static_cast<uint32_t>(ff);
  d.context = static_cast<uint32_t>(context);
  KVRT_TRY(read_heads(file, prefix, &d));
  KVRT_ASSIGN(d.rms_eps, require_float(file, prefix + "attention.layer_norm_rms_epsilon", 0, 1, std::nullopt));
  KVRT_ASSIGN(d.rope.freq_base, require_float(file, prefix + "rope.freq_base", 1, 1e12, 10000.0));
  uint64_t rotated = d.head_dim;
  if (file.has(prefix + "rope.dimension_count")) {
    KVRT_ASSIGN(rotated, file.require_uint(prefix + "rope.dimension_count", 2, d.head_dim));
    if (rotated % 2) return error(Code::kCorrupt, Detail::kFormat, "%s: key %srope.dimension_count is odd", file.name().c_str(), prefix.c_str());
  }
  d.rope.style = row->rope_style;
  d.rope.dims = static_cast<uint32_t>(rotated);
  *arch = row;
  return d;
}

}  // namespace kvrt
