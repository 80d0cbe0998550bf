// Hyper-parameters of a GGUF file, each checked, and each that would change the arithmetic in a way kvrt lacks refused by name.
#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/model/model.h"

namespace kvrt {
namespace {

using Ull = unsigned long long;

// Keys (below the architecture's prefix) that a file may carry only with the value that means "not used".
struct NeutralKey {
  const char* key;
  double neutral;
};
constexpr NeutralKey kNeutralKeys[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"attention.sliding_window", 0},
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.scale", 0},
    {"attn_logit_softcapping", 0},
    {"logit_scale", 1},
    {"final_logit_softcapping", 0},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"rope.scaling.factor", 1},
    {"rope.scale_linear", 1},
    {"use_parallel_residual", 0},
    {"pooling_type", 0},
    {"attention.temperature_length", 0},
};

// Reads keys below the architecture's prefix.
class DimsReader {
 public:
  DimsReader(const GgufFile& file, const Arch& arch) : file_(file), arch_(arch) {}

  Result<ModelDims> read() {
    ModelDims dims;
    KVRT_TRY(refuse_unknown_arithmetic());
    KVRT_TRY(read_shape(&dims));
    KVRT_TRY(read_attention(&dims));
    KVRT_TRY(read_rope(&dims));
    KVRT_TRY(read_vocab(&dims));
    return dims;
  }

 private:
  std::string key(const char* name) const { return std::string(arch_.name) + "." + name; }

  Status read_uint(const char* name, uint64_t min, uint64_t max, uint32_t* out) const {
    KVRT_ASSIGN(const uint64_t value, file_.require_uint(key(name), min, max));
    *out = static_cast<uint32_t>(value);
    return Status::ok();
  }
  // An absent key leaves *out as it is; a present one must be right.
  Status read_optional_uint(const char* name, uint64_t min, uint64_t max, uint32_t* out) const {
    return file_.has(key(name)) ? read_uint(name, min, max, out) : Status::ok();
  }

  // A value outside [min, max], NaN included, is damage.
  Status read_float(const char* name, double min, double max, float* out) const {
    const auto value = file_.get_float(key(name));
    if (!value) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a float, found %s", file_.name().c_str(),
                   key(name).c_str(), file_.has(key(name)) ? "another type" : "no such key");
    }
    if (!(*value >= min && *value <= max)) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected %g to %g, found %g", file_.name().c_str(),
                   key(name).c_str(), min, max, *value);
    }
    *out = static_cast<float>(*value);
    return Status::ok();
  }

  Status unsupported(const std::string& name, const char* why) const {
    return error(Code::kUnsupported, Detail::kNone, "%s: metadata key %s: %s", file_.name().c_str(), name.c_str(), why);
  }

  Status refuse_unknown_arithmetic() const {
    for (const NeutralKey& neutral : kNeutralKeys) {
      const std::string name = key(neutral.key);
      if (!file_.has(name)) continue;
      std::optional<double> value = file_.get_float(name);
      if (const auto integer = file_.get_uint(name)) value = static_cast<double>(*integer);
      if (const auto flag = file_.get_bool(name)) value = *flag ? 1 : 0;
      if (value && *value == neutral.neutral) continue;
      return unsupported(name, "this model uses a feature that is not supported");
    }
    const std::string scaling = key("rope.scaling.type");
    if (file_.has(scaling)) {
      KVRT_ASSIGN(const std::string_view type, file_.require_string(scaling));
      if (type != "none")
        return unsupported(scaling, ("RoPE scaling \"" + std::string(type.substr(0, 32)) + "\" is not supported").c_str());
    }
    return Status::ok();
  }

  Status read_shape(ModelDims* dims) const {
    KVRT_TRY(read_uint("block_count", 1, kLayersMax, &dims->layers));
    KVRT_TRY(read_uint("embedding_length", 1, kWidthMax, &dims->width));
    KVRT_TRY(read_uint("feed_forward_length", 1, kWidthMax, &dims->ff));
    KVRT_TRY(read_uint("context_length", 1, kContextMax, &dims->context));
    return read_float("attention.layer_norm_rms_epsilon", 0, 1, &dims->rms_eps);
  }

  Status read_attention(ModelDims* dims) const {
    KVRT_TRY(read_uint("attention.head_count", 1, kHeadsMax, &dims->heads));
    dims->kv_heads = dims->heads;
    KVRT_TRY(read_optional_uint("attention.head_count_kv", 1, kHeadsMax, &dims->kv_heads));
    if (dims->heads % dims->kv_heads != 0) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a divisor of %u heads, found %u", file_.name().c_str(),
                   key("attention.head_count_kv").c_str(), dims->heads, dims->kv_heads);
    }
    if (!file_.has(key("attention.key_length")) && dims->width % dims->heads != 0) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a divisor of the width %u, found %u",
                   file_.name().c_str(), key("attention.head_count").c_str(), dims->width, dims->heads);
    }
    dims->head_dim = dims->width / dims->heads;
    KVRT_TRY(read_optional_uint("attention.key_length", 1, kHeadDimMax, &dims->head_dim));
    dims->attention_scale = 1.0f / std::sqrt(static_cast<float>(dims->head_dim));
    if (dims->head_dim > kHeadDimMax) {
      return error(Code::kLimit, Detail::kNone, "%s: heads have %u dimensions, the limit is %u", file_.name().c_str(), dims->head_dim,
                   kHeadDimMax);
    }
    uint32_t value_length = dims->head_dim;
    KVRT_TRY(read_optional_uint("attention.value_length", 1, kHeadDimMax, &value_length));
    if (value_length != dims->head_dim) {
      return unsupported(key("attention.value_length"), "values of another length than keys are not supported");
    }
    return Status::ok();
  }

  Status read_rope(ModelDims* dims) const {
    dims->rope.style = arch_.rope_style;
    dims->rope.dims = dims->head_dim;
    KVRT_TRY(read_optional_uint("rope.dimension_count", 2, kHeadDimMax, &dims->rope.dims));
    if (dims->rope.dims % 2 != 0 || dims->rope.dims > dims->head_dim) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected an even number up to the %u of a head, found %u",
                   file_.name().c_str(), key("rope.dimension_count").c_str(), dims->head_dim, dims->rope.dims);
    }
    if (!file_.has(key("rope.freq_base"))) return Status::ok();
    return read_float("rope.freq_base", 1, 1e12, &dims->rope.freq_base);
  }

  Status read_vocab(ModelDims* dims) const {
    if (file_.find("rope_freqs.weight")) {
      return error(Code::kUnsupported, Detail::kNone, "%s: tensor rope_freqs.weight: scaled RoPE frequencies are not supported",
                   file_.name().c_str());
    }
    const GgufTensor* embedding = file_.find("token_embd.weight");
    if (!embedding) return error(Code::kCorrupt, Detail::kFormat, "%s: tensor token_embd.weight is missing", file_.name().c_str());
    const uint64_t rows = embedding->view.ne[1];
    if (rows > kVocabMax) {
      return error(Code::kLimit, Detail::kNone, "%s: tensor token_embd.weight has %llu rows, the limit is %u", file_.name().c_str(),
                   Ull{rows}, kVocabMax);
    }
    dims->vocab = static_cast<uint32_t>(rows);
    dims->tied_head = file_.find("output.weight") == nullptr;
    uint32_t declared = dims->vocab;
    KVRT_TRY(read_optional_uint("vocab_size", 1, kVocabMax, &declared));
    if (declared != dims->vocab) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected the %u rows of token_embd.weight, found %u",
                   file_.name().c_str(), key("vocab_size").c_str(), dims->vocab, declared);
    }
    return Status::ok();
  }

  const GgufFile& file_;
  const Arch& arch_;
};

}  // namespace

Result<ModelDims> read_dims(const GgufFile& file, const Arch** arch) {
  if (file.tensors().empty()) {
    return error(Code::kInvalid, Detail::kNone, "%s: the file has no tensors (a vocabulary alone), expected a model", file.name().c_str());
  }
  KVRT_ASSIGN(const std::string_view name, file.require_string("general.architecture"));
  *arch = find_arch(name);
  if (!*arch) {
    return error(Code::kUnsupported, Detail::kNone, "%s: architecture \"%.*s\" is not supported", file.name().c_str(),
                 static_cast<int>(std::min<size_t>(name.size(), 64)), name.data());
  }
  return DimsReader(file, **arch).read();
}

}  // namespace kvrt
