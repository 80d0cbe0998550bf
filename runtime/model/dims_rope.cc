// The rotation of Q and K, as a file's keys and tensors have it.
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"
#include "runtime/compute/quant/quants.h"
#include "runtime/model/arch_keys.h"
#include "runtime/model/ggml_types.h"

namespace kvrt {
namespace {

// Frequencies are divided by these; below the least an angle could leave the range of our sine.
constexpr double kRopeFactorMin = 0.25, kRopeFactorMax = 1e6;
constexpr double kFrequencyFactorMax = 1.001e30;  // Gemma 4 has 1e30 for what does not rotate: no sine reaches the least bit of a product

class RopeReader : public ArchKeys {
 public:
  explicit RopeReader(const ArchKeys& keys) : ArchKeys(keys) {}

  Status read(ModelDims* dims) const {
    dims->rope.style = arch_.rope_style;
    dims->rope.dims = dims->latent.rank > 0 ? dims->latent.rope : dims->head_dim;
    KVRT_TRY(read_dims_of("rope.dimension_count", dims->head_dim, &dims->rope));
    KVRT_TRY(read_optional_float("rope.freq_base", 1, 1e12, &dims->rope.freq_base));
    dims->window_rope = dims->rope;
    KVRT_TRY(read_rope_scaling(&dims->rope));
    KVRT_TRY(read_log_multiplier(dims));
    KVRT_TRY(read_rope_factors(dims));
    if (arch_.window_freq_base == 0 && !arch_.window_unscaled) dims->window_rope = dims->rope;
    if (arch_.window_freq_base == 0) return Status::ok();
    dims->window_rope.freq_base = arch_.window_freq_base;
    if (dims->window_head_dim > 0) {
      dims->window_rope.dims = dims->window_head_dim;
      KVRT_TRY(read_dims_of("rope.dimension_count_swa", dims->window_head_dim, &dims->window_rope));
    }
    return read_optional_float("rope.freq_base_swa", 1, 1e12, &dims->window_rope.freq_base);
  }

 private:
  Status read_dims_of(const char* name, uint32_t head_dim, RopeParams* rope) const {
    KVRT_TRY(read_optional_uint(name, 2, kHeadDimMax, &rope->dims));
    if (rope->dims % 2 == 0 && rope->dims <= head_dim) return Status::ok();
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected an even number up to the %u of a head, found %u",
                 file_.name().c_str(), key(name).c_str(), head_dim, rope->dims);
  }

  // A factor without a type is linear.
  Status read_rope_scaling(RopeParams* rope) const {
    const std::string name = key("rope.scaling.type");
    std::string_view type = "linear";
    if (file_.has(name)) {
      KVRT_ASSIGN(type, file_.require_string(name));
    }
    float factor = 1;
    KVRT_TRY(read_optional_float("rope.scale_linear", 0, kRopeFactorMax, &factor));
    KVRT_TRY(read_optional_float("rope.scaling.factor", 0, kRopeFactorMax, &factor));
    KVRT_TRY(read_optional_float("rope.scaling.attn_factor", 1e-3, 1e3, &rope->attention_factor));
    if (factor == 0) factor = 1;  // as good as absent
    if (type == "none" || (type == "linear" && factor == 1)) return Status::ok();
    if (type == "longrope") {  // the tensors of the factors have it all
      if (factor == 1 && file_.find("rope_factors_long.weight")) return Status::ok();
      return unsupported(name, "\"longrope\" is supported with the tensors rope_factors_long and rope_factors_short and no factor");
    }
    if (type != "linear" && type != "yarn")
      return unsupported(
          name, "RoPE scaling \"" + std::string(type.substr(0, 32)) + "\" is not supported; these are: none, linear, yarn, longrope");
    if (factor < kRopeFactorMin) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected %s to %s, found %s", file_.name().c_str(),
                   key("rope.scaling.factor").c_str(), shown(kRopeFactorMin).c_str(), shown(kRopeFactorMax).c_str(), shown(factor).c_str());
    }
    rope->factor = factor;
    rope->whole_ramp = arch_.whole_ramp;
    rope->scaling = type == "yarn" ? RopeScaling::kYarn : RopeScaling::kLinear;
    return type == "yarn" ? read_yarn(rope) : Status::ok();
  }

  // The amplitude of YaRN is divided by 1 + 0.1 m log(factor). Latents: the key is 0.1 m, the amplitude is 1, and scores are multiplied by
  // (1 + 0.1 m log(factor))^2.
  Status read_log_multiplier(ModelDims* dims) const {
    float multiplier = 0;
    if (!arch_.tempered || dims->rope.scaling != RopeScaling::kYarn) return Status::ok();
    KVRT_TRY(read_optional_float("rope.scaling.yarn_log_multiplier", 0, 1, &multiplier));
    if (multiplier == 0) return Status::ok();
    const double log_factor = std::log(static_cast<double>(dims->rope.factor));
    if (!arch_.latent) {
      dims->rope.attention_factor = static_cast<float>(1 / (1 + 0.1 * static_cast<double>(multiplier) * log_factor));
      return Status::ok();
    }
    const double by = 1 + static_cast<double>(multiplier) * log_factor;
    dims->attention_scale = static_cast<float>(static_cast<double>(dims->attention_scale) * by * by);
    dims->rope.attention_factor = static_cast<float>(1 / rope_amplitude(dims->rope));
    return Status::ok();
  }

  Status read_yarn(RopeParams* rope) const {
    uint32_t original = 0;
    KVRT_TRY(read_uint("rope.scaling.original_context_length", 1, kContextMax, &original));
    rope->original_context = static_cast<float>(original);
    KVRT_TRY(read_optional_float("rope.scaling.yarn_beta_fast", 1e-3, 1e6, &rope->beta_fast));
    KVRT_TRY(read_optional_float("rope.scaling.yarn_beta_slow", 1e-3, 1e6, &rope->beta_slow));
    if (rope->freq_base > 1) return Status::ok();
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected more than 1 with RoPE scaling \"yarn\", found %s",
                 file_.name().c_str(), key("rope.freq_base").c_str(), shown(rope->freq_base).c_str());
  }

  // Divisors of the frequencies: one set (llama3), or two (longrope), of which the model's context picks one, not the length that a
  // sequence happens to have: else the KV of a position would depend on the tokens after it.
  Status read_rope_factors(ModelDims* dims) const {
    const GgufTensor* tensor = file_.find("rope_freqs.weight");
    if (file_.find("rope_factors_long.weight") || file_.find("rope_factors_short.weight")) {
      uint32_t original = dims->context;
      KVRT_TRY(read_optional_uint("rope.scaling.original_context_length", 1, kContextMax, &original));
      const char* name = dims->context > original ? "rope_factors_long.weight" : "rope_factors_short.weight";
      tensor = file_.find(name);
      if (!tensor) return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s is missing", file_.name().c_str(), name);
    }
    if (!tensor) return Status::ok();
    const TensorView& view = tensor->view;
    if (view.type != DType::kF32 || view.rows() != 1 || view.cols() != dims->rope.dims / 2) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s: expected %u values of type F32, found %llu x %llu of type %s",
                   file_.name().c_str(), tensor->name.c_str(), dims->rope.dims / 2, static_cast<unsigned long long>(view.cols()),
                   static_cast<unsigned long long>(view.rows()), find_ggml_type(static_cast<uint32_t>(view.type))->name);
    }
    std::vector<float>& factors = dims->rope.frequency_factors;
    factors.resize(view.cols());
    dequantize_row(view.type, view.data.data(), view.cols(), factors.data());
    for (const float f : factors) {
      if (f >= kRopeFactorMin && f <= kFrequencyFactorMax) continue;
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s: expected values of %s to %s, found %s", file_.name().c_str(),
                   tensor->name.c_str(), shown(kRopeFactorMin).c_str(), shown(kFrequencyFactorMax).c_str(), shown(f).c_str());
    }
    return Status::ok();
  }
};

}  // namespace

Status read_rope(const ArchKeys& keys, ModelDims* dims) { return RopeReader(keys).read(dims); }

}  // namespace kvrt
