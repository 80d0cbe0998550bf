// Hyper-parameters that layers have each for itself: heads by layer, RoPE with windows and without, scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;

template <typename Add>
Result<ModelDims> dims_with(const GgufModel& spec, Add add) {
  GgufWriter w;
  const std::vector<uint8_t> bytes = spec.write(&w, add);
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  const Arch* arch = nullptr;
  return read_dims(*file, &arch);
}

// The id of an OLMo 2 whose RoPE is scaled is that of before there was an OLMo 3, whose windows are not.
TEST(ModelDims, WithoutWindowsThereIsOneRope) {
  for (const bool windows : {false, true}) {
    GgufModel spec;
    spec.arch = "olmo2";
    auto dims = dims_with(spec, [&](GgufWriter& w) {
      w.add_string("olmo2.rope.scaling.type", "linear");
      w.add_f32("olmo2.rope.scaling.factor", 4);
      if (windows) w.add_u32("olmo2.attention.sliding_window", 8);
    });
    ASSERT_TRUE(dims.is_ok()) << dims.status().message();
    EXPECT_EQ(dims->rope.factor, 4);
    EXPECT_EQ(dims->window_rope == dims->rope, !windows);
  }
}

TEST(ModelDims, HeadsMayDifferByLayerAndAWrongListIsNamed) {
  struct Case {
    std::vector<int32_t> kv_heads;
    Code code;
    const char* words;
  };
  const char* const key = "llama.attention.head_count_kv";
  const Case cases[] = {
      {{2}, Code::kCorrupt, "expected a number for each of 6 layers, found 1"},
      {{2, 2, 2, 2, 2, 2, 2}, Code::kCorrupt, "expected a number for each of 6 layers, found 7"},
      {{2, 2, 2, 2, 2, -1}, Code::kCorrupt, "layer 5 has -1"},
      {{2, 0, 2, 2, 2, 2}, Code::kUnsupported, "layer 1 has no attention"},
      {{2, 2, 2, 2, 2, 4096}, Code::kLimit, "layer 5 has 4096"},
      {{2, 7, 2, 2, 2, 2}, Code::kCorrupt, "expected a divisor of 12 heads, found 7"},
      {{1, 2, 3, 4, 6, 12}, Code::kLimit, "the layers are of 6 kinds by KV heads and window, the limit is 4"},
  };
  GgufModel spec;
  spec.layers = 6;
  spec.heads = 12;
  spec.width = 96;
  spec.skip_key = "attention.head_count_kv";
  for (const Case& c : cases) {
    const Status status = dims_with(spec, [&](GgufWriter& w) { w.add_array(key, 5, c.kv_heads); }).take_status();
    EXPECT_EQ(status.code(), c.code) << c.words;
    for (const char* words : {key, c.words}) EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  auto same = dims_with(spec, [&](GgufWriter& w) { w.add_array(key, 5, std::vector<int32_t>(6, 3)); });
  ASSERT_TRUE(same.is_ok()) << same.status().message();
  EXPECT_TRUE(same->layer_heads.empty()) << "as one number would be";
  EXPECT_EQ(same->kv_heads, 3u);
}

// Where one number is for all layers, an array may have it for each.
TEST(ModelDims, OneNumberMayBeWrittenForEachLayer) {
  GgufModel spec;
  spec.layers = 3;
  spec.skip_key = "feed_forward_length";
  const char* const key = "llama.feed_forward_length";
  const auto with = [&](const std::vector<int32_t>& numbers) {
    return dims_with(spec, [&](GgufWriter& w) { w.add_array(key, 5, numbers); });
  };
  auto same = with({48, 48, 48});
  ASSERT_TRUE(same.is_ok()) << same.status().message();
  EXPECT_EQ(same->ff, 48u);
  for (const auto& [numbers, code, words] :
       {std::tuple<std::vector<int32_t>, Code, const char*>{{48, 48, 64}, Code::kUnsupported, "found 48 and 64, "},
        {{48, 48}, Code::kCorrupt, "expected a number for each of 3 layers, found 2"},
        {{}, Code::kCorrupt, "expected a number for each of 3 layers, found 0"},
        {{-1, -1, -1}, Code::kCorrupt, "expected 1 to 1048576, found -1"}}) {
    const Status status = with(numbers).take_status();
    EXPECT_EQ(status.code(), code) << words;
    for (const char* part : {key, words}) EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

// cohere2's logits are multiplied by a number that its file must have; its layers without RoPE are those without a window, by a period or
// a flag for each layer.
TEST(ModelDims, Cohere2NeedsItsScaleAndRotatesWhereItsWindowsAre) {
  const auto cohere2 = [](auto add) {
    GgufModel spec;
    spec.arch = "cohere2";
    spec.layers = 5;
    return dims_with(spec, [&](GgufWriter& w) {
      w.add_f32("cohere2.attention.layer_norm_epsilon", 1e-5f);
      w.add_u32("cohere2.attention.sliding_window", 8);
      add(w);
    });
  };
  const auto scale = [](GgufWriter& w) { w.add_f32("cohere2.logit_scale", 0.25f); };
  const auto pattern = [&](uint32_t period) {
    return [=](GgufWriter& w) {
      scale(w);
      w.add_u32("cohere2.attention.sliding_window_pattern", period);
    };
  };
  const auto flags = [&](std::vector<uint8_t> windows) {
    return [=](GgufWriter& w) {
      scale(w);
      w.add_array("cohere2.attention.sliding_window_pattern", 7, windows);
    };
  };
  const std::pair<std::function<void(GgufWriter&)>, std::vector<uint32_t>> read[] = {
      {scale, {3}}, {pattern(4), {3}}, {pattern(2), {1, 3}}, {flags({0, 1, 1, 1, 0}), {0, 4}}};
  for (const auto& [add, full] : read) {
    Result<ModelDims> dims = cohere2(add);
    ASSERT_TRUE(dims.is_ok()) << dims.status().message();
    EXPECT_EQ(dims->logit_scale, 0.25f);
    for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(dims->window(i) == 0, std::ranges::count(full, i) > 0) << i;
    for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(dims->rope_of(i) == nullptr, dims->window(i) == 0) << i;
  }
  const Status few = cohere2(flags({1, 0})).take_status(), none = cohere2([](GgufWriter&) {}).take_status();
  EXPECT_EQ(few.code(), Code::kCorrupt);
  EXPECT_NE(few.message().find("expected a flag for each of 5 layers, found 2"), std::string::npos) << few.message();
  EXPECT_EQ(none.code(), Code::kCorrupt);
  EXPECT_NE(none.message().find("cohere2.logit_scale"), std::string::npos) << none.message();
  const Status wrong = cohere2([&](GgufWriter& w) {
                         scale(w);
                         w.add_f32("cohere2.residual_scale", 0.5f);
                       }).take_status();
  EXPECT_EQ(wrong.code(), Code::kUnsupported) << wrong.message();
}

// A norm's epsilon has a name of its own in each kind of norm.
TEST(ModelDims, TheEpsilonOfAnotherNormIsNotTaken) {
  for (const auto& [arch, key] : {std::pair<const char*, const char*>{"gpt2", "attention.layer_norm_epsilon"},
                                  {"stablelm", "attention.layer_norm_epsilon"},
                                  {"starcoder2", "attention.layer_norm_epsilon"},
                                  {"gpt-oss", ""}}) {
    GgufModel spec;
    spec.arch = arch;
    const Status status = dims_with(spec, [](GgufWriter&) {}).take_status();
    EXPECT_EQ(status.is_ok(), key[0] == 0) << status.message();
    EXPECT_NE(status.message().find(key), std::string::npos) << status.message();
  }
}

// Only granite knows the scales; in others they are refused by name. 0 is as good as absent.
TEST(ModelDims, ScalesAreReadWhereTheArchitectureHasThem) {
  for (const char* name : {"embedding_scale", "residual_scale", "logit_scale"}) {
    const auto scaled = [&](const char* arch, float scale) {
      GgufModel spec;
      spec.arch = arch;
      return dims_with(spec, [&](GgufWriter& w) { w.add_f32(std::string(arch) + "." + name, scale); });
    };
    const auto product = [](const ModelDims& d) { return d.embedding_scale * d.residual_scale * d.logit_scale; };
    auto read = scaled("granite", 6), zero = scaled("granite", 0);
    ASSERT_TRUE(read.is_ok() && zero.is_ok()) << read.status().message() << zero.status().message();
    EXPECT_EQ(product(*read), 6) << name;
    EXPECT_EQ(product(*zero), 1) << name;
    EXPECT_EQ(scaled("granite", -1).status().code(), Code::kCorrupt) << name;
    const Status other = scaled("llama", 6).take_status();
    EXPECT_EQ(other.code(), Code::kUnsupported);
    EXPECT_NE(other.message().find(name), std::string::npos) << other.message();
  }
}

// Latents: what a file must say, and what is refused by name.
TEST(ModelDims, LatentsAreReadAndWrongOnesNamed) {
  struct Change {
    const char* key;
    uint32_t value;  // 0: the key is left out
    Code code;
    const char* words;
  };
  const Change changes[] = {
      {"", 0, Code::kOk, ""},
      {"expert_gating_func", 0, Code::kOk, ""},  // with a bias of the experts: as with 2
      {"attention.key_length_mla", 0, Code::kUnsupported, "converter of before April 2025"},
      {"attention.kv_lora_rank", 0, Code::kCorrupt, "attention.kv_lora_rank"},
      {"attention.kv_lora_rank", 4096, Code::kLimit, "attention.kv_lora_rank"},
      {"rope.dimension_count", 24, Code::kCorrupt, "expected less than the 24 dimensions of a head"},
      {"attention.key_length", 41, Code::kCorrupt, "attention.key_length: expected 40, found 41"},
      {"attention.head_count_kv", 4, Code::kCorrupt, "attention.head_count_kv: expected 1, found 4"},
      {"expert_gating_func", 3, Code::kUnsupported, "only 1 (softmax) and 2 (sigmoid)"},
      {"expert_group_count", 3, Code::kCorrupt, "3 groups, 1 of them used, do not give 3 of 8 experts"},
      {"expert_shared_count", 1024, Code::kLimit, "have a width above the limit"},
      {"leading_dense_block_count", 3, Code::kLimit, "leading_dense_block_count"},
  };
  const std::pair<const char*, uint32_t> keys[] = {
      {"attention.kv_lora_rank", 32},
      {"attention.key_length", 40},
      {"attention.value_length", 32},
      {"attention.key_length_mla", 24},
      {"attention.value_length_mla", 16},
      {"attention.head_count_kv", 1},
      {"expert_count", 8},
      {"expert_used_count", 3},
      {"expert_feed_forward_length", 2048},
      {"expert_shared_count", 2},
      {"expert_gating_func", 2},
      {"expert_group_count", 2},
      {"expert_group_used_count", 1},
      {"leading_dense_block_count", 1},
  };
  for (const Change& change : changes) {
    GgufModel spec;
    spec.arch = "deepseek2";
    spec.layers = 2;
    spec.skip_key = "attention.head_count_kv";
    if (std::string_view(change.key) == "rope.dimension_count") spec.width = change.value * spec.heads;
    auto dims = dims_with(spec, [&](GgufWriter& w) {
      for (const auto& [name, value] : keys) {
        const bool changed = std::string_view(change.key) == name;
        if (!changed || change.value > 0) w.add_u32(std::string("deepseek2.") + name, changed ? change.value : value);
      }
      if (std::string_view(change.key) == "expert_gating_func") w.add_tensor("blk.1.exp_probs_b.bias", 0, {8}, std::vector<uint8_t>(32));
    });
    if (change.code == Code::kOk) {
      ASSERT_TRUE(dims.is_ok()) << dims.status().message();
      EXPECT_EQ(dims->heads_of(1), (Heads{spec.heads, 1, 40, 32, true}));
      EXPECT_EQ(dims->latent.nope, 16u);
      EXPECT_EQ(dims->shared_ff, 4096u);
      EXPECT_FALSE(dims->has_experts(0));
      EXPECT_TRUE(dims->has_experts(1) && dims->experts_sigmoid && !dims->experts_normalize);
      continue;
    }
    const Status status = dims.take_status();
    EXPECT_EQ(status.code(), change.code) << change.key << ": " << status.message();
    EXPECT_NE(status.message().find(change.words), std::string::npos) << status.message();
  }
}

// Q grows with its position from the length on that the file gives, else from yarn's original context on; others do not know it.
TEST(ModelDims, TheTemperatureOfQIsReadWhereTheArchitectureHasIt) {
  const auto read = [](const char* arch, float scale, uint32_t length, uint32_t original) {
    GgufModel spec;
    spec.arch = arch;
    return dims_with(spec, [&](GgufWriter& w) {
      const std::string prefix = std::string(arch) + ".";
      if (scale > 0) w.add_f32(prefix + "attention.temperature_scale", scale);
      if (length > 0) w.add_u32(prefix + "attention.temperature_length", length);
      if (original > 0) w.add_u32(prefix + "rope.scaling.original_context_length", original);
    });
  };
  for (const auto& [length, original] : {std::pair{64u, 0u}, {0u, 64u}, {64u, 128u}}) {
    auto dims = read("mistral3", 0.5f, length, original);
    ASSERT_TRUE(dims.is_ok()) << dims.status().message();
    EXPECT_EQ(dims->temperature.scale, 0.5f);
    EXPECT_EQ(dims->temperature.length, 64u);
  }
  auto without = read("mistral3", 0, 0, 64);
  ASSERT_TRUE(without.is_ok()) << without.status().message();
  EXPECT_EQ(without->temperature.scale, 0);
  const Status no_length = read("mistral3", 0.5f, 0, 0).take_status(), other = read("llama", 0.5f, 64, 0).take_status();
  EXPECT_EQ(no_length.code(), Code::kCorrupt);
  EXPECT_NE(no_length.message().find("rope.scaling.original_context_length"), std::string::npos) << no_length.message();
  EXPECT_EQ(other.code(), Code::kUnsupported);
  EXPECT_NE(other.message().find("attention.temperature_"), std::string::npos) << other.message();
}

}  // namespace
}  // namespace kvrt
