// Recurrent layers: which they are and their shape, as a file's keys say it.
#include <gtest/gtest.h>

#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;

constexpr uint32_t kI32 = 5, kBool = 7;

struct Keys {
  std::map<std::string, uint32_t> numbers;  // below the architecture's prefix
  std::vector<int32_t> kv_heads;            // empty: one number
  std::vector<uint8_t> flags;               // attention.recurrent_layers
};

Result<ModelDims> dims_with(const char* arch, uint32_t blocks, const Keys& keys) {
  GgufModel spec;
  spec.arch = arch;
  spec.layers = blocks;
  if (!keys.kv_heads.empty()) spec.skip_key = "attention.head_count_kv";
  GgufWriter w;
  const std::string prefix = std::string(arch) + ".";
  const std::vector<uint8_t> bytes = spec.write(&w, [&](GgufWriter& writer) {
    for (const auto& [name, value] : keys.numbers) writer.add_u32(prefix + name, value);
    if (!keys.kv_heads.empty()) writer.add_array(prefix + "attention.head_count_kv", kI32, keys.kv_heads);
    if (!keys.flags.empty()) writer.add_array(prefix + "attention.recurrent_layers", kBool, keys.flags);
  });
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  const Arch* found = nullptr;
  return read_dims(*file, &found);
}

const std::map<std::string, uint32_t> kMamba = {{"ssm.conv_kernel", 4},    {"ssm.inner_size", 64}, {"ssm.state_size", 16},
                                                {"ssm.time_step_rank", 4}, {"ssm.group_count", 2}, {"expert_count", 0}};

std::vector<uint32_t> recurrent_layers(const ModelDims& d) {
  std::vector<uint32_t> layers;
  for (uint32_t i = 0; i < d.layers; ++i) {
    if (d.mixer(i) != Mixer::kAttention) layers.push_back(i);
  }
  return layers;
}

TEST(RecurrentDims, LayersWithoutKvHeadsAreRecurrent) {
  auto conv = dims_with("lfm2", 3, {{{"shortconv.l_cache", 3}}, {0, 2, 0}, {}});
  ASSERT_TRUE(conv.is_ok()) << conv.status().message();
  EXPECT_EQ(recurrent_layers(*conv), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(conv->mixer(0), Mixer::kConv);
  EXPECT_EQ(conv->recurrent.need(), (StateNeed{32, 3, 0, 0}));
  EXPECT_TRUE(conv->layer_heads.empty()) << "all layers with attention have the same";
  EXPECT_EQ(conv->kv_heads, 2u);

  auto scan = dims_with("granitehybrid", 3, {kMamba, {2, 0, 1}, {}});
  ASSERT_TRUE(scan.is_ok()) << scan.status().message();
  EXPECT_EQ(recurrent_layers(*scan), (std::vector<uint32_t>{1}));
  EXPECT_EQ(scan->recurrent.need(), (StateNeed{64 + 2 * 2 * 16, 4, 4, 16 * 16 * 4}));
  EXPECT_EQ(scan->in_width(1), 2 * 64 + 2 * 2 * 16 + 4u);
  EXPECT_EQ(scan->heads_of(2).kv, 1u);

  auto none = dims_with("lfm2", 2, {{}, {2, 2}, {}});
  ASSERT_TRUE(none.is_ok()) << none.status().message();
  EXPECT_TRUE(none->mixers.empty());
}

TEST(RecurrentDims, QwenSaysItByAPeriodOrByFlags) {
  const auto layers = [](uint32_t blocks, std::map<std::string, uint32_t> numbers, std::vector<uint8_t> flags) {
    numbers.insert(kMamba.begin(), kMamba.end());
    auto dims = dims_with("qwen3next", blocks, {numbers, {}, std::move(flags)});
    EXPECT_TRUE(dims.is_ok()) << dims.status().message();
    return dims.is_ok() ? recurrent_layers(*dims) : std::vector<uint32_t>{99};
  };
  EXPECT_EQ(layers(8, {}, {}), (std::vector<uint32_t>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(layers(5, {{"full_attention_interval", 2}}, {}), (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(layers(4, {{"full_attention_interval", 2}}, {0, 1, 1, 0}), (std::vector<uint32_t>{1, 2}));
  // The last block guesses tokens ahead.
  EXPECT_EQ(layers(5, {{"nextn_predict_layers", 1}}, {}), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(layers(4, {{"nextn_predict_layers", 1}}, {1, 0, 1, 0}), (std::vector<uint32_t>{0, 2}));
}

Result<ModelDims> nemotron_with(const std::vector<int32_t>& ff) {
  GgufModel spec;
  spec.arch = "nemotron_h";
  spec.layers = static_cast<uint32_t>(ff.size());
  spec.skip_key = "feed_forward_length";
  GgufWriter w;
  const std::vector<uint8_t> bytes =
      spec.write(&w, [&](GgufWriter& writer) { writer.add_array("nemotron_h.feed_forward_length", kI32, ff); });
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  const Arch* found = nullptr;
  return read_dims(*file, &found);
}

TEST(RecurrentDims, AMixerBeginsALayerAndAnMlpCompletesIt) {
  auto dims = nemotron_with({0, 64, 0, 0, 64});
  ASSERT_TRUE(dims.is_ok()) << dims.status().message();
  ASSERT_EQ(dims->layers, 3u);
  EXPECT_EQ(dims->ff, 64u);
  const std::pair<uint32_t, uint32_t> blocks[] = {{0, 1}, {2, LayerBlocks::kNone}, {3, 4}};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(dims->blocks_of(i).mixer, blocks[i].first) << i;
    EXPECT_EQ(dims->blocks_of(i).mlp, blocks[i].second) << i;
    EXPECT_EQ(dims->has_mlp(i), i != 1) << i;
  }
  for (const auto& [ff, words] : {std::pair<std::vector<int32_t>, const char*>{{64, 0}, "found 64 in block 0"},
                                  {{0, 64, 64}, "found 64 in block 2"},
                                  {{0, 64, 0, 96}, "found 96 in block 3"},
                                  {{0, 0}, "no block is an MLP"}}) {
    const Status status = nemotron_with(ff).take_status();
    EXPECT_EQ(status.code(), Code::kUnsupported) << words;
    EXPECT_NE(status.message().find("nemotron_h.feed_forward_length"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
}

TEST(RecurrentDims, WhatIsNotSupportedIsNamed) {
  const struct {
    const char* arch;
    std::map<std::string, uint32_t> numbers;
    std::vector<int32_t> kv_heads;
    std::vector<uint8_t> flags;
    Code code;
    const char* words;
  } cases[] = {
      {"lfm2", {{"shortconv.l_cache", 3}}, {0, 0, 0}, {}, Code::kUnsupported, "lfm2.attention.head_count_kv: no layer has attention"},
      {"lfm2", {}, {0, 2, 0}, {}, Code::kCorrupt, "lfm2.shortconv.l_cache"},
      {"lfm2", {{"shortconv.l_cache", 1}}, {0, 2, 0}, {}, Code::kCorrupt, "lfm2.shortconv.l_cache"},
      {"granitehybrid",
       {{"ssm.group_count", 3}},
       {0, 2, 0},
       {},
       Code::kUnsupported,
       "ssm.group_count: expected a divisor of granitehybrid.ssm.time_step_rank, which is 4, found 3"},
      {"granitehybrid",
       {{"ssm.time_step_rank", 5}},
       {0, 2, 0},
       {},
       Code::kUnsupported,
       "ssm.time_step_rank: expected a divisor of granitehybrid.ssm.inner_size, which is 64, found 5"},
      {"granitehybrid", {{"ssm.inner_size", 60}}, {0, 2, 0}, {}, Code::kUnsupported, "in parts of 64 bytes, found 124 channels"},
      {"granitehybrid", {{"ssm.state_size", 1u << 20}}, {0, 2, 0}, {}, Code::kLimit, "ssm.state_size"},
      {"qwen3next",
       {},
       {},
       {1, 0},
       Code::kUnsupported,
       "attention.recurrent_layers: expected an array with a flag for each of 3 layers, found 2"},
      {"qwen3next", {}, {}, {1, 1, 1}, Code::kUnsupported, "attention.recurrent_layers: no layer has attention"},
      {"qwen3next", {{"full_attention_interval", 4}}, {}, {}, Code::kUnsupported, "full_attention_interval: no layer has attention"},
      {"llama", {}, {0, 2, 0}, {}, Code::kUnsupported, "layer 0 has no attention"},
  };
  for (const auto& c : cases) {
    Keys keys{c.numbers, c.kv_heads, c.flags};
    if (c.arch != std::string_view("lfm2") && c.arch != std::string_view("llama")) keys.numbers.insert(kMamba.begin(), kMamba.end());
    const Status status = dims_with(c.arch, 3, keys).take_status();
    EXPECT_EQ(status.code(), c.code) << c.words << ": " << status.message();
    EXPECT_NE(status.message().find(c.words), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace kvrt
