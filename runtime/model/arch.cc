// Architectures as data. A new one is a row here and a golden test.
#include <algorithm>

#include "runtime/model/model.h"

namespace kvrt {
namespace {

// The pairs of a rotation are side by side in GGUF (kInterleaved) or in halves, as llama.cpp has it for the architecture: where transformers
// has halves, the converter of llama and its like reorders the rows of Q and K.
constexpr Arch kArchs[] = {
    {.name = "llama", .rope_style = RopeStyle::kInterleaved, .experts = true},  // also Mistral, Mixtral, SmolLM
    {.name = "qwen2", .qkv_bias = true},
    {.name = "qwen3", .qk_norm = QkNorm::kHeads},
    {.name = "qwen3moe", .qk_norm = QkNorm::kHeads, .experts = true},
    {.name = "gemma2",
     .post_norm = true,
     .activation = Activation::kGeluTanh,
     .scale_embedding = true,
     .window_period = 2,
     .window = 4096,
     .attention_softcap = 50,
     .final_softcap = 30,
     .wide_scale_layers = 46},
    {.name = "gemma3",
     .post_norm = true,
     .qk_norm = QkNorm::kHeads,
     .activation = Activation::kGeluTanh,
     .scale_embedding = true,
     .window_period = 6,
     .window_freq_base = 10000,
     .wide_scale_layers = 62},
    {.name = "gemma4",
     .post_norm = true,
     .qk_norm = QkNorm::kHeads,
     .v_norm = true,
     .activation = Activation::kGeluTanh,
     .scale_embedding = true,
     .experts = true,
     .experts_beside = true,
     .per_layer = true,
     .layer_kinds = true,
     .window_period = 6,
     .window_freq_base = 10000,
     .attention_scale = 1},
    {.name = "phi3", .fused_qkv = true, .fused_up = true, .window_period = kNoFullLayer},
    // Olmo 3 is an olmo2 with a window, whose layers rotate as if RoPE were not scaled.
    {.name = "olmo2", .pre_norm = false, .post_norm = true, .qk_norm = QkNorm::kRow, .window_period = 4, .window_unscaled = true},
    {.name = "granite", .rope_style = RopeStyle::kInterleaved, .scales = true},
    {.name = "smollm3", .rope_style = RopeStyle::kInterleaved, .no_rope_period = 4},
    {.name = "ernie4_5", .rope_style = RopeStyle::kInterleaved},
    {.name = "seed_oss", .qkv_bias = true, .ffn_norm = "post_attention_norm"},
    {.name = "cohere2",
     .rope_style = RopeStyle::kInterleaved,
     .norm = NormKind::kLayer,
     .parallel = true,
     .window_period = 4,
     .window_rope_alone = true,
     .logit_scale = true,
     .scales_required = true},
    {.name = "gpt-oss",
     .bias = true,
     .activation = Activation::kClampedSwiglu,
     .experts = true,
     .window_period = 2,
     .whole_ramp = false,
     .sinks = true,
     .ffn_norm = "post_attention_norm"},
    {.name = "starcoder2",
     .norm = NormKind::kLayerBias,
     .bias = true,
     .gated = false,
     .activation = Activation::kGeluTanh,
     .window_period = kNoFullLayer,
     .window = 4096},
    {.name = "gpt2",
     .norm = NormKind::kLayerBias,
     .bias = true,
     .fused_qkv = true,
     .gated = false,
     .activation = Activation::kGeluTanh,
     .no_rope_period = 1,
     .positions = true},
    {.name = "stablelm", .norm = NormKind::kLayerBias, .qkv_bias_optional = true},
    {.name = "glm4", .rope_style = RopeStyle::kInterleaved, .qkv_bias_optional = true, .fused_up = true, .post_norm = true},
    {.name = "hunyuan-dense", .qk_norm = QkNorm::kHeads, .qk_norm_last = true},
    // Files without scales are of a time when they were the program's: 12, 1.4 / sqrt(layers), width / 256.
    {.name = "minicpm", .rope_style = RopeStyle::kInterleaved, .scales = true, .scales_required = true},
    {.name = "deepseek2",
     .rope_style = RopeStyle::kInterleaved,
     .experts = true,
     .routing = true,
     .normalize_experts = false,
     .latent = true,
     .tempered = true},        // also DeepSeek V3 and R1, Kimi K2
    {.name = "granitehybrid",  // Granite 4.0 H
     .rope_style = RopeStyle::kInterleaved,
     .experts = true,
     .shared_expert = true,
     .scales = true,
     .rope_flag = true,
     .recurrent = Mixer::kScan},
    {.name = "qwen3next",
     .attention_gate = true,
     .qk_norm = QkNorm::kHeads,
     .experts = true,
     .shared_expert = true,
     .shared_gate = true,
     .recurrent = Mixer::kDelta,
     .ffn_norm = "post_attention_norm"},
    {.name = "nemotron_h",
     .gated = false,
     .activation = Activation::kReluSquared,
     .no_rope_period = 1,
     .single_blocks = true,
     .recurrent = Mixer::kScan,
     .ffn_norm = "attn_norm"},
    {.name = "nemotron_h_moe",
     .gated = false,
     .activation = Activation::kReluSquared,
     .experts = true,
     .shared_expert = true,
     .routing = true,
     .no_rope_period = 1,
     .single_blocks = true,
     .sigmoid_experts = true,
     .recurrent = Mixer::kScan,
     .ffn_norm = "attn_norm"},
    {.name = "qwen35",
     .attention_gate = true,
     .qk_norm = QkNorm::kHeads,
     .recurrent = Mixer::kDelta,
     .tiled_heads = true,
     .ffn_norm = "post_attention_norm"},
    {.name = "qwen35moe",
     .attention_gate = true,
     .qk_norm = QkNorm::kHeads,
     .experts = true,
     .shared_expert = true,
     .shared_gate = true,
     .recurrent = Mixer::kDelta,
     .tiled_heads = true,
     .ffn_norm = "post_attention_norm"},
    {.name = "lfm2moe",
     .qk_norm = QkNorm::kHeads,
     .experts = true,
     .routing = true,
     .sigmoid_experts = true,
     .recurrent = Mixer::kConv,
     .output_norm = "token_embd_norm"},
    {.name = "glm4moe",  // GLM 4.5 and 4.6, whose norms of Q and K Air lacks
     .qkv_bias_optional = true,
     .qk_norm = QkNorm::kHeads,
     .qk_norm_optional = true,
     .experts = true,
     .routing = true,
     .sigmoid_experts = true,
     .ffn_norm = "post_attention_norm"},
    {.name = "minimax-m2", .qk_norm = QkNorm::kRow, .experts = true, .routing = true, .sigmoid_experts = true},
    {.name = "dots1", .qk_norm = QkNorm::kHeads, .experts = true, .routing = true, .sigmoid_experts = true},
    {.name = "bailingmoe2",
     .fused_qkv = true,
     .qk_norm = QkNorm::kHeads,
     .experts = true,
     .routing = true,
     .sigmoid_experts = true},  // Ling 2
    {.name = "ernie4_5-moe", .rope_style = RopeStyle::kInterleaved, .experts = true, .shared_expert = true, .routing = true},
    {.name = "olmoe", .qk_norm = QkNorm::kRow, .experts = true, .normalize_experts = false},
    {.name = "qwen2moe", .qkv_bias = true, .experts = true, .shared_expert = true, .shared_gate = true, .normalize_experts = false},
    {.name = "granitemoe", .rope_style = RopeStyle::kInterleaved, .experts = true, .shared_expert = true, .scales = true},
    {.name = "hunyuan-moe", .qk_norm = QkNorm::kHeads, .qk_norm_last = true, .experts = true, .shared_expert = true, .routing = true},
    {.name = "mistral3", .rope_style = RopeStyle::kInterleaved, .tempered = true},  // Ministral 3
    {.name = "mistral4",                                                            // its converter does not write the temperature
     .rope_style = RopeStyle::kInterleaved,
     .experts = true,
     .routing = true,
     .normalize_experts = false,
     .latent = true,
     .tempered = true,
     .temperature = 0.1f},
    {.name = "exaone4", .pre_norm = false, .post_norm = true, .qk_norm = QkNorm::kHeads, .window_period = 4, .window_rope_alone = true},
    {.name = "exaone-moe",
     .qk_norm = QkNorm::kHeads,
     .experts = true,
     .routing = true,
     .window_period = 4,
     .window_rope_alone = true,
     .sigmoid_experts = true},
    {.name = "lfm2", .qk_norm = QkNorm::kHeads, .recurrent = Mixer::kConv, .output_norm = "token_embd_norm"},
    {.name = "command-r",  // Command R, and R+, which alone has norms of Q and K
     .rope_style = RopeStyle::kInterleaved,
     .norm = NormKind::kLayer,
     .parallel = true,
     .qk_norm = QkNorm::kLayerHeads,
     .qk_norm_optional = true,
     .logit_scale = true,
     .scales_required = true},
    {.name = "arcee", .rope_style = RopeStyle::kInterleaved, .gated = false, .activation = Activation::kReluSquared},  // AFM
};

// Files that are no models, by what they say of themselves.
struct OtherKind {
  const char *key, *value, *what;
};
constexpr OtherKind kOtherKinds[] = {
    {"general.type", "adapter", "an adapter (LoRA)"},
    {"general.type", "imatrix", "an importance matrix"},
    {"general.type", "mmproj", "a projector of images or sound (mmproj)"},
    {"general.architecture", "clip", "a projector of images or sound (mmproj)"},
    {"general.architecture", "controlvector", "a control vector"},
};

}  // namespace

const Arch* find_arch(std::string_view name) {
  for (const Arch& arch : kArchs) {
    if (name == arch.name) return &arch;
  }
  return nullptr;
}

Result<const Arch*> read_arch(const GgufFile& file) {
  for (const OtherKind& kind : kOtherKinds) {
    if (file.get_string(kind.key) != kind.value || file.find("token_embd.weight")) continue;
    return error(Code::kUnsupported, Detail::kNone, "%s: metadata key %s: found \"%s\": the file is %s, expected a model",
                 file.name().c_str(), kind.key, kind.value, kind.what);
  }
  KVRT_ASSIGN(const std::string_view name, file.require_string("general.architecture"));
  if (const Arch* arch = find_arch(name)) return arch;
  return error(Code::kUnsupported, Detail::kNone,
               "%s: metadata key general.architecture: architecture \"%.*s\" is not supported; these are: %s", file.name().c_str(),
               static_cast<int>(std::min<size_t>(name.size(), 64)), name.data(), arch_names().c_str());
}

std::string arch_names() {
  std::string names;
  for (const Arch& arch : kArchs) names += (names.empty() ? "" : ", ") + std::string(arch.name);
  return names;
}

}  // namespace kvrt
