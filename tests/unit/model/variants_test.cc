// Models of fewer architectures: each tensor and key that one needs is asked for by its name, and a tensor too many is refused by its own.
#include <gtest/gtest.h>

#include "tests/support/golden_rig.h"

namespace kvrt::test {
namespace {

std::vector<uint8_t> bytes_of(const std::string& model) {
  std::ifstream in(tiny(model), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The file with the last letter of a name changed, where it is written as GGUF writes it: after its length.
std::vector<uint8_t> renamed(std::vector<uint8_t> bytes, const std::string& name) {
  std::string written(sizeof(uint64_t), 0);
  written[0] = static_cast<char>(name.size());
  written += name;
  const auto at = std::search(bytes.begin(), bytes.end(), written.begin(), written.end());
  EXPECT_NE(at, bytes.end()) << name;
  if (at != bytes.end()) *(at + static_cast<ptrdiff_t>(written.size()) - 1) = '_';
  return bytes;
}

Status load(const std::vector<uint8_t>& bytes) {
  static const std::unique_ptr<Backend> backend = std::move(open_cpu({1, "scalar"}, nullptr)).value();
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  return load_model(*file, backend.get(), nullptr).take_status();
}

// In these another tensor may stand for a missing one, or a block is not read.
constexpr std::string_view kElse[] = {"row_mistral4.gguf", "row_gemma4_moe.gguf", "row_qwen3next_old.gguf", "row_glm4moe.gguf"};

TEST(Variants, EveryTensorOfTheFileIsAskedForByName) {
  for (const GoldenModel& golden : golden_models()) {
    const std::string& model = golden.model;
    if (std::ranges::find(kElse, model) != std::end(kElse)) continue;
    const std::vector<uint8_t> bytes = bytes_of(model);
    ASSERT_TRUE(load(bytes).is_ok()) << model;
    auto file = GgufFile::parse(bytes, "test.gguf");
    ASSERT_TRUE(file.is_ok());
    for (const GgufTensor& tensor : (*file)->tensors()) {
      const Status status = load(renamed(bytes, tensor.name));
      // Without it: missing, or, where a file may lack it, unknown under its new name.
      EXPECT_TRUE(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported) << model << " " << tensor.name;
      EXPECT_NE(status.message().find(tensor.name.substr(0, tensor.name.size() - 1)), std::string::npos)
          << model << " " << tensor.name << ": " << status.message();
    }
  }
}

// What a file may lack all layers have, or none: one alone would be computed without.
TEST(Variants, ATensorThatOneLayerLacksIsAskedForByName) {
  struct Case {
    const char* model;
    std::vector<std::string> lacking;
    const char* words;
  };
  const Case cases[] = {
      {"row_glm4moe", {"blk.1.attn_q_norm.weight", "blk.1.attn_k_norm.weight"}, "blk.1.attn_q_norm.weight is missing, other layers have"},
      {"row_glm4moe", {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}, "blk.0.attn_q_norm.weight is missing, other layers have"},
      {"row_glm4moe", {"blk.1.attn_q_norm.weight"}, "blk.1.attn_q_norm.weight is missing, expected shape [16]"},
      {"row_glm4moe", {"blk.0.attn_k_norm.weight", "blk.1.attn_k_norm.weight"}, "blk.0.attn_k_norm.weight is missing, expected shape [16]"},
      {"row_glm4moe", {"blk.1.attn_k.bias"}, "blk.1.attn_k.bias is missing, expected shape [32]"},
      {"row_command_r_plus", {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}, "blk.0.attn_q_norm.weight is missing, other layers"},
      {"row_stablelm_bias",
       {"blk.1.attn_q.bias", "blk.1.attn_k.bias", "blk.1.attn_v.bias"},
       "blk.1.attn_q.bias is missing, other layers have"},
      {"row_stablelm_bias", {"blk.0.attn_q.bias", "blk.1.attn_q.bias"}, "blk.0.attn_q.bias is missing, expected shape [32]"},
      {"row_lfm2moe", {"blk.2.exp_probs_b.bias"}, "blk.2.exp_probs_b.bias is missing, other layers have"},
      {"row_granitehybrid", {"blk.1.ssm_conv1d.bias"}, "blk.1.ssm_conv1d.bias is missing, other layers have"},
      {"row_gemma4_e", {"blk.5.layer_output_scale.weight"}, "blk.5.layer_output_scale.weight is missing, other layers have"},
      {"row_gemma4_dense", {"blk.1.attn_v.weight"}, "blk.1.attn_v.weight is missing, expected shape"},
  };
  for (const Case& c : cases) {
    std::vector<uint8_t> bytes = bytes_of(std::string(c.model) + ".gguf");
    for (const std::string& name : c.lacking) bytes = renamed(std::move(bytes), name);
    const Status status = load(bytes);
    EXPECT_EQ(status.code(), Code::kCorrupt) << c.words;
    EXPECT_NE(status.message().find(c.words), std::string::npos) << status.message();
  }
}

TEST(Variants, EveryNeededKeyIsAskedForByName) {
  for (const auto& [model, key] : {std::pair{"row_cohere2", "cohere2.logit_scale"},
                                   {"row_cohere2", "cohere2.attention.layer_norm_epsilon"},
                                   {"row_command_r", "command-r.logit_scale"},
                                   {"row_gpt_oss", "gpt-oss.expert_used_count"},
                                   {"row_gpt_oss", "gpt-oss.rope.scaling.original_context_length"},
                                   {"row_gpt2", "gpt2.attention.layer_norm_epsilon"},
                                   {"row_stablelm", "stablelm.attention.layer_norm_epsilon"},
                                   {"row_glm4", "glm4.attention.layer_norm_rms_epsilon"},
                                   {"row_lfm2", "lfm2.shortconv.l_cache"},
                                   {"row_granitehybrid", "granitehybrid.ssm.conv_kernel"},
                                   {"row_granitehybrid", "granitehybrid.ssm.inner_size"},
                                   {"row_granitehybrid", "granitehybrid.ssm.state_size"},
                                   {"row_granitehybrid", "granitehybrid.ssm.time_step_rank"},
                                   {"row_qwen3next", "qwen3next.ssm.group_count"},
                                   {"row_minicpm", "minicpm.residual_scale"},
                                   {"row_minicpm", "minicpm.embedding_scale"},
                                   {"row_minicpm", "minicpm.logit_scale"}}) {
    const Status status = load(renamed(bytes_of(std::string(model) + ".gguf"), key));
    EXPECT_EQ(status.code(), Code::kCorrupt) << key;
    EXPECT_NE(status.message().find(key), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace kvrt::test
