// Hyper-parameters of a GGUF file, each checked, and each that would change the arithmetic in a way kvrt lacks refused by name.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "runtime/base/fp_env.h"
#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"
#include "runtime/compute/quant/format.h"
#include "runtime/model/arch_keys.h"

namespace kvrt {
namespace {

using Ull = unsigned long long;

// Keys (below the architecture's prefix) that a file may carry only with the value that means "not used".
struct NeutralKey {
  const char* key;
  double neutral;
  bool zero = false;  // as good as absent
};
constexpr NeutralKey kNeutralKeys[] = {
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.shared_kv_layers", 0},
    {"attention.temperature_length", 0},
    {"attention.temperature_scale", 0},
    {"expert_gating_func", 1, true},  // softmax
    {"expert_group_count", 1, true},
    {"expert_shared_count", 0},
    {"expert_weights_scale", 1, true},
    {"interleave_moe_layer_step", 1, true},
    {"leading_dense_block_count", 0},
    {"moe_latent_size", 0},
    {"logit_scale", 1, true},
    {"residual_scale", 1, true},
    {"embedding_scale", 1, true},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_log_multiplier", 0},
    {"router_logit_softcapping", 0},
    {"swiglu_clamp_exp", 0},
    {"use_parallel_residual", 0},
    {"pooling_type", 0},
};

// Of these, what a row with `scales` reads, one with `logit_scale` the first; and what one with `routing`, and one that is `tempered` reads.
constexpr const char* kScaleKeys[] = {"logit_scale", "residual_scale", "embedding_scale"};
constexpr std::string_view kRoutingKeys[] = {"expert_gating_func", "expert_group_count", "expert_shared_count", "expert_weights_scale",
                                             "leading_dense_block_count"};
constexpr const char *kFf = "feed_forward_length", *kExpertFf = "expert_feed_forward_length";
constexpr std::string_view kTemperedKeys[] = {"attention.temperature_length", "attention.temperature_scale",
                                              "rope.scaling.yarn_log_multiplier"};
constexpr std::string_view kSharedKvKey = "attention.shared_kv_layers";

class DimsReader : public ArchKeys {
 public:
  using ArchKeys::ArchKeys;

  Result<ModelDims> read() {
    ModelDims dims;
    KVRT_TRY(refuse_unknown_arithmetic());
    KVRT_TRY(read_shape(&dims));
    KVRT_TRY(read_experts(&dims));
    KVRT_TRY(read_attention(&dims));
    KVRT_TRY(read_windows(*this, &dims));
    settle_heads(&dims);
    KVRT_TRY(read_rope(*this, &dims));
    KVRT_TRY(read_temperature(&dims));
    if (arch_.window_unscaled && dims.windows.empty()) dims.window_rope = dims.rope;  // its model_id is as it was before there were windows
    KVRT_TRY(limit_groups(dims));
    KVRT_TRY(read_vocab(&dims));
    return dims;
  }

 private:
  std::span<const char* const> scale_keys() const { return std::span(kScaleKeys).first(arch_.scales ? 3 : arch_.logit_scale ? 1 : 0); }
  Status refuse_unknown_arithmetic() const {
    for (const NeutralKey& neutral : kNeutralKeys) {
      const std::string name = key(neutral.key);
      const bool read = std::ranges::find(scale_keys(), std::string_view(neutral.key)) != scale_keys().end() ||
                        (arch_.routing && std::ranges::find(kRoutingKeys, neutral.key) != std::end(kRoutingKeys)) ||
                        (arch_.tempered && std::ranges::find(kTemperedKeys, neutral.key) != std::end(kTemperedKeys)) ||
                        (arch_.layer_kinds && neutral.key == kSharedKvKey);
      if (!file_.has(name) || read) continue;
      const auto integer = file_.get_uint(name);
      std::optional<double> value = integer ? static_cast<double>(*integer) : file_.get_float(name);
      if (const auto flag = file_.get_bool(name)) value = *flag ? 1 : 0;
      if (value && (*value == neutral.neutral || (*value == 0 && neutral.zero))) continue;
      return error(Code::kUnsupported, Detail::kNone, "%s: metadata key %s: found %s, only %s is supported", file_.name().c_str(),
                   name.c_str(),
                   (integer ? std::to_string(*integer)
                    : value ? shown(*value)
                            : file_.found(name))
                       .c_str(),
                   shown(neutral.neutral).c_str());
    }
    return refuse_other_activation();
  }

  Status refuse_other_activation() const {
    const std::string name = key("hidden_activation");
    if (!file_.has(name)) return Status::ok();
    KVRT_ASSIGN(const std::string_view found, file_.require_string(name));
    const char* own = arch_.activation == Activation::kGeluTanh      ? "gelu_pytorch_tanh"
                      : arch_.activation == Activation::kReluSquared ? "relu2"
                                                                     : "silu";
    if (found == own) return Status::ok();
    return unsupported(name, "activation \"" + std::string(found.substr(0, 32)) + "\" is not supported, expected " + own);
  }

  Status read_shape(ModelDims* dims) const {
    KVRT_TRY(read_uint("block_count", 1, kLayersMax, &dims->file_blocks));
    KVRT_TRY(read_optional_uint("nextn_predict_layers", 0, dims->file_blocks - 1, &dims->draft_blocks));
    dims->layers = dims->file_blocks - dims->draft_blocks;
    const auto of_first = [](const GgufTensor& tensor) { return tensor.name.starts_with("blk.0."); };
    if (dims->draft_blocks > 0 && std::ranges::none_of(file_.tensors(), of_first))
      return unsupported(key("nextn_predict_layers"), "the file has the draft layers (MTP) alone, expected a model");
    KVRT_TRY(read_uint("embedding_length", 1, kWidthMax, &dims->width));
    const bool experts_alone = arch_.experts && file_.has(key(kExpertFf)) && !file_.has(key(kFf));
    const bool by_layer = arch_.layer_kinds && file_.get_ints(key(kFf));
    KVRT_TRY(arch_.single_blocks ? read_blocks(*this, dims)
             : by_layer          ? read_ffs(dims)
                                 : read_uint(experts_alone ? kExpertFf : kFf, 1, kWidthMax, &dims->ff));
    if (arch_.per_layer) KVRT_TRY(read_optional_uint("embedding_length_per_layer_input", 0, kWidthMax / dims->layers, &dims->per_layer));
    KVRT_TRY(read_uint("context_length", 1, kContextMax, &dims->context));
    dims->no_rope_period = arch_.no_rope_period;
    dims->attention_gate = arch_.attention_gate;
    if (arch_.rope_flag) {
      KVRT_ASSIGN(const auto rotates, file_.optional_bool(key("rope.scaling.finetuned")));
      if (!rotates.value_or(true)) dims->no_rope_period = 1;
    }
    if (arch_.scale_embedding) dims->embedding_scale = std::sqrt(static_cast<float>(dims->width));
    dims->gate_up_bias = arch_.bias && arch_.gated;
    const char *rms = "attention.layer_norm_rms_epsilon", *other = "attention.layer_norm_epsilon";
    const bool one = arch_.single_blocks && !file_.has(key(rms)) && file_.has(key(other));  // Nemotron-H's converter writes both
    return read_float(arch_.norm == NormKind::kRms && !one ? rms : other, 0, 1, &dims->norm_eps);
  }

  Status read_ffs(ModelDims* dims) const {
    dims->ffs.resize(dims->layers);
    KVRT_TRY(read_by_layer(kFf, kWidthMax, *dims, &dims->ffs));
    dims->ff = *std::ranges::max_element(dims->ffs);
    if (std::ranges::all_of(dims->ffs, [&](uint32_t ff) { return ff == dims->ff; })) dims->ffs.clear();
    return Status::ok();
  }

  Status read_experts(ModelDims* dims) const {
    KVRT_TRY(read_optional_uint("expert_count", 0, kExpertsMax, &dims->experts));
    if (dims->experts == 0) return Status::ok();
    if (!arch_.experts)
      return unsupported(key("expert_count"), "found " + std::to_string(dims->experts) + ", experts are not known to this architecture");
    KVRT_TRY(read_uint("expert_used_count", 1, dims->experts, &dims->experts_used));
    const uint32_t dense_ff = dims->ff;
    KVRT_TRY(read_optional_uint(kExpertFf, 1, kWidthMax, &dims->ff));
    dims->experts_beside = arch_.experts_beside;
    if (arch_.experts_beside) dims->shared_ff = dense_ff;
    if (!dims->ffs.empty()) return unsupported(key(kFf), "an array is not supported beside experts");
    if (arch_.shared_expert) KVRT_TRY(read_optional_uint("expert_shared_feed_forward_length", 0, kWidthMax, &dims->shared_ff));
    KVRT_ASSIGN(const auto normalize, file_.optional_bool(key("expert_weights_norm")));
    dims->experts_normalize = normalize.value_or(arch_.normalize_experts);
    return arch_.routing ? read_routing(dense_ff, dims) : Status::ok();
  }

  Status read_routing(uint32_t dense_ff, ModelDims* dims) const {
    uint32_t gating = arch_.sigmoid_experts ? 2 : 1, shared = 0;
    KVRT_TRY(read_optional_uint("leading_dense_block_count", 0, dims->layers, &dims->dense_layers));
    // DeepSeek's first files with a bias (V3) and GLM 4.7 Flash's do not say it.
    if (arch_.latent && file_.find("blk." + std::to_string(dims->dense_layers) + ".exp_probs_b.bias")) gating = 2;
    if (dims->dense_layers > 0) dims->dense_ff = dense_ff;
    KVRT_TRY(read_optional_uint("expert_shared_count", 0, kExpertsMax, &shared));
    if (uint64_t{shared} * dims->ff > kWidthMax) {
      return error(Code::kLimit, Detail::kNone, "%s: metadata key %s: %u shared experts of %u have a width above the limit of %u",
                   file_.name().c_str(), key("expert_shared_count").c_str(), shared, dims->ff, kWidthMax);
    }
    if (!arch_.shared_expert) dims->shared_ff = shared * dims->ff;
    KVRT_TRY(read_scale("expert_weights_scale", &dims->experts_scale));
    KVRT_TRY(read_optional_uint("expert_gating_func", 0, UINT32_MAX, &gating));
    if (gating > 2)
      return unsupported(key("expert_gating_func"), "found " + std::to_string(gating) + ", only 1 (softmax) and 2 (sigmoid) are supported");
    dims->experts_sigmoid = gating == 2;
    KVRT_TRY(read_optional_uint("expert_group_count", 0, dims->experts, &dims->expert_groups));
    if (dims->expert_groups <= 1) {
      dims->expert_groups = 1;
      return Status::ok();
    }
    KVRT_TRY(read_uint("expert_group_used_count", 1, dims->expert_groups, &dims->groups_used));
    const uint32_t group = dims->experts / dims->expert_groups;
    if (dims->experts % dims->expert_groups == 0 && dims->experts_used <= group * dims->groups_used) return Status::ok();
    return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: %u groups, %u of them used, do not give %u of %u experts",
                 file_.name().c_str(), key("expert_group_count").c_str(), dims->expert_groups, dims->groups_used, dims->experts_used,
                 dims->experts);
  }

  // One number for all layers, or an array with one for each.
  Status read_by_layer(const char* name, uint64_t max, const ModelDims& dims, std::vector<uint32_t>* out) const {
    const auto numbers = file_.get_ints(key(name));
    if (!numbers) {
      uint32_t all = 0;
      KVRT_TRY(read_uint(name, 1, max, &all));
      std::ranges::fill(*out, all);
      return Status::ok();
    }
    const size_t blocks = dims.file_blocks;
    if (numbers->size() != blocks) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a number for each of %zu layers, found %zu",
                   file_.name().c_str(), key(name).c_str(), blocks, numbers->size());
    }
    for (uint32_t i = 0; i < dims.layers; ++i) {
      const int64_t n = (*numbers)[dims.blocks_of(i).mixer];
      if (n == 0 && arch_.recurrent == Mixer::kAttention && name != kFf)
        return unsupported(key(name), "layer " + std::to_string(i) + " has no attention, which is not supported");
      const int64_t least = name == kFf ? 1 : 0;  // without KV heads a layer is recurrent
      if (n < least || static_cast<uint64_t>(n) > max) {
        return error(n <= 0 ? Code::kCorrupt : Code::kLimit, n <= 0 ? Detail::kFormat : Detail::kNone,
                     "%s: metadata key %s: layer %u has %lld, expected %u to %llu", file_.name().c_str(), key(name).c_str(), i,
                     static_cast<long long>(n), arch_.recurrent == Mixer::kAttention ? 1 : static_cast<uint32_t>(least), Ull{max});
      }
      (*out)[i] = static_cast<uint32_t>(n);
    }
    return Status::ok();
  }

  Status read_heads(ModelDims* dims) const {
    std::vector<uint32_t> q(dims->layers), kv;
    KVRT_TRY(read_by_layer("attention.head_count", kHeadsMax, *dims, &q));
    kv = q;
    if (file_.has(key("attention.head_count_kv"))) KVRT_TRY(read_by_layer("attention.head_count_kv", kHeadsMax, *dims, &kv));
    KVRT_TRY(read_recurrent(*this, kv, dims));
    for (uint32_t i = 0; i < dims->layers; ++i) {
      if (dims->mixer(i) != Mixer::kAttention)
        q[i] = kv[i] = 0;
      else if (q[i] == 0 || kv[i] == 0 || q[i] % kv[i] != 0) {
        return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a divisor of %u heads, found %u", file_.name().c_str(),
                     key("attention.head_count_kv").c_str(), q[i], kv[i]);
      }
      dims->layer_heads.push_back({q[i], kv[i], 0, 0});
    }
    dims->heads = *std::ranges::find_if(q, [](uint32_t n) { return n > 0; });  // the first layer's has width / heads dimensions
    return Status::ok();
  }

  // Puts the heads where they belong: all layers' in one place, or each layer's.
  static void settle_heads(ModelDims* dims) {
    std::vector<Heads>& layers = dims->layer_heads;
    for (uint32_t i = 0; i < layers.size(); ++i) {
      Heads& heads = layers[i];
      heads.dim = heads.v_dim = dims->window(i) > 0 && dims->window_head_dim > 0 ? dims->window_head_dim : dims->head_dim;
      heads.q_alone = i >= dims->own_kv();
      heads.gate = dims->attention_gate;
      dims->heads = std::max(dims->heads, heads.q);
      dims->kv_heads = std::max(dims->kv_heads, heads.kv);
    }
    const Heads most{dims->heads, dims->kv_heads, dims->head_dim, dims->head_dim, false, dims->attention_gate};
    if (std::ranges::all_of(layers, [&](const Heads& heads) { return heads == most || heads.q == 0; })) layers.clear();
  }

  // Latents: key_length and value_length are those of the one row that all heads share, key_length_mla and value_length_mla a head's own.
  Status read_latent(ModelDims* dims) const {
    LatentDims& l = dims->latent;
    if (!file_.has(key("attention.key_length_mla"))) {
      return unsupported(key("attention.key_length_mla"),
                         "no such key: the file was made by a converter of before April 2025, whose matrices are not supported");
    }
    uint32_t q = 0, rope = 0;
    KVRT_TRY(read_uint("attention.head_count", 1, kHeadsMax, &dims->heads));
    KVRT_TRY(read_uint("attention.kv_lora_rank", 1, kHeadDimMax, &l.rank));
    KVRT_TRY(read_optional_uint("attention.q_lora_rank", 0, kWidthMax, &l.q_rank));
    KVRT_TRY(read_uint("attention.key_length_mla", 1, kWidthMax, &q));
    KVRT_TRY(read_uint("attention.value_length_mla", 1, kWidthMax, &l.v));
    KVRT_TRY(read_uint("rope.dimension_count", 2, kHeadDimMax, &rope));
    if (rope >= q || l.rank + rope > kHeadDimMax) {
      return error(Code::kCorrupt, Detail::kFormat,
                   "%s: metadata key %s: expected less than the %u dimensions of a head, and with the rank %u at most %u, found %u",
                   file_.name().c_str(), key("rope.dimension_count").c_str(), q, l.rank, kHeadDimMax, rope);
    }
    l.rope = rope;
    l.nope = q - rope;
    for (const auto& [name, expected] :
         {std::pair{"attention.head_count_kv", 1u}, {"attention.key_length", l.rank + rope}, {"attention.value_length", l.rank}}) {
      uint32_t found = expected;
      KVRT_TRY(read_optional_uint(name, 0, UINT32_MAX, &found));
      if (found == expected) continue;
      return error(Code::kCorrupt, Detail::kFormat,
                   "%s: metadata key %s: expected %u, found %u: all heads share one row of the rank %u and %u rotated dimensions",
                   file_.name().c_str(), key(name).c_str(), expected, found, l.rank, rope);
    }
    dims->kv_heads = 1;
    dims->head_dim = l.rank + l.rope;
    return read_scores(dims);
  }

  Status read_attention(ModelDims* dims) const {
    if (arch_.latent) return read_latent(dims);
    KVRT_TRY(read_heads(dims));
    if (!file_.has(key("attention.key_length")) && dims->width % dims->heads != 0) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected a divisor of the width %u, found %u",
                   file_.name().c_str(), key("attention.head_count").c_str(), dims->width, dims->heads);
    }
    dims->head_dim = dims->width / dims->heads;
    KVRT_TRY(read_optional_uint("attention.key_length", 1, kHeadDimMax, &dims->head_dim));
    if (dims->head_dim > kHeadDimMax) {
      return error(Code::kLimit, Detail::kNone, "%s: heads have %u dimensions, the limit is %u", file_.name().c_str(), dims->head_dim,
                   kHeadDimMax);
    }
    uint32_t value_length = dims->head_dim;
    KVRT_TRY(read_optional_uint("attention.value_length", 1, kHeadDimMax, &value_length));
    if (value_length != dims->head_dim) {
      return unsupported(key("attention.value_length"), "values of another length than keys are not supported");
    }
    return read_scores(dims);
  }

  Status read_scores(ModelDims* dims) const {
    const bool wide = arch_.wide_scale_layers != 0 && dims->layers == arch_.wide_scale_layers;
    const float per_head = static_cast<float>(dims->width) / static_cast<float>(dims->heads);
    const uint32_t dim = dims->latent.rank > 0 ? dims->latent.q() : dims->head_dim;
    dims->attention_scale = arch_.attention_scale > 0 ? arch_.attention_scale : 1.0f / std::sqrt(wide ? per_head : static_cast<float>(dim));
    KVRT_TRY(read_scale("attention.scale", &dims->attention_scale));
    dims->attention_softcap = arch_.attention_softcap;
    dims->final_softcap = arch_.final_softcap;
    KVRT_TRY(read_optional_float("attn_logit_softcapping", 0, 1e6, &dims->attention_softcap));
    float* const scales[] = {&dims->logit_scale, &dims->residual_scale, &dims->embedding_scale};
    for (size_t i = 0; i < scale_keys().size(); ++i) {
      KVRT_TRY(arch_.scales_required ? read_float(kScaleKeys[i], 1e-6, 1e6, scales[i]) : read_scale(kScaleKeys[i], scales[i]));
    }
    return read_optional_float("final_logit_softcapping", 0, 1e6, &dims->final_softcap);
  }

  // Its length is, where the file says nothing, yarn's original context.
  Status read_temperature(ModelDims* dims) const {
    Temperature& t = dims->temperature;
    if (!arch_.tempered) return Status::ok();
    t.scale = arch_.temperature;
    KVRT_TRY(read_optional_float("attention.temperature_scale", 0, 1e3, &t.scale));
    if (t.scale == 0) return Status::ok();
    if (file_.has(key("attention.temperature_length"))) return read_uint("attention.temperature_length", 1, kContextMax, &t.length);
    return read_uint("rope.scaling.original_context_length", 1, kContextMax, &t.length);
  }

  // KV groups: layers with the same window and the same KV heads (runtime/compute/kv_groups.h).
  Status limit_groups(const ModelDims& dims) const {
    std::set<std::array<uint32_t, 3>> groups;
    for (uint32_t i = 0; i < dims.layers; ++i) {
      const Heads heads = dims.mixer(i) == Mixer::kAttention ? dims.heads_of(i) : Heads{};
      groups.insert({dims.window(i), heads.kv, heads.dim});
    }
    if (groups.size() <= kKvGroupsMax) return Status::ok();
    return error(Code::kLimit, Detail::kNone, "%s: metadata key %s: the layers are of %zu kinds by KV heads and window, the limit is %u",
                 file_.name().c_str(), key("attention.head_count_kv").c_str(), groups.size(), kKvGroupsMax);
  }

  Status read_vocab(ModelDims* dims) const {
    const GgufTensor* embedding = file_.find("token_embd.weight");
    if (!embedding) return error(Code::kCorrupt, Detail::kFormat, "%s: tensor token_embd.weight is missing", file_.name().c_str());
    const uint64_t rows = embedding->view.ne[1];
    if (embedding->view.ne[0] != dims->width) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: tensor token_embd.weight: expected rows of %u numbers (%s), found rows of %llu",
                   file_.name().c_str(), dims->width, key("embedding_length").c_str(), Ull{embedding->view.ne[0]});
    }
    if (rows > kVocabMax) {
      return error(Code::kLimit, Detail::kNone, "%s: tensor token_embd.weight has %llu rows, the limit is %u", file_.name().c_str(),
                   Ull{rows}, kVocabMax);
    }
    dims->vocab = static_cast<uint32_t>(rows);
    const GgufTensor* head = file_.find("output.weight");
    dims->tied_head = head == nullptr;
    dims->plain_head = is_plain((head ? head : embedding)->view.type);
    uint32_t declared = dims->vocab;
    KVRT_TRY(read_optional_uint("vocab_size", 1, kVocabMax, &declared));
    if (declared != dims->vocab) {
      return error(Code::kCorrupt, Detail::kFormat, "%s: metadata key %s: expected the %u rows of token_embd.weight, found %u",
                   file_.name().c_str(), key("vocab_size").c_str(), dims->vocab, declared);
    }
    return Status::ok();
  }
};

}  // namespace

Result<ModelDims> read_dims(const GgufFile& file, const Arch** arch) {
  if (file.tensors().empty()) {
    return error(Code::kUnsupported, Detail::kNone, "%s: the file has no tensors (a vocabulary alone), expected a model",
                 file.name().c_str());
  }
  KVRT_ASSIGN(*arch, read_arch(file));
  const FpEnv fp_env;
  return DimsReader(file, **arch).read();
}

}  // namespace kvrt
