// Loading: hyper-parameters and tensors that do not fit are refused by name; a model that loads has the right parts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/base/limits.h"
#include "runtime/compute/quant/quants.h"
#include "runtime/model/ggml_types.h"
#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;

std::unique_ptr<Backend> open_scalar() {
  CpuOptions options;
  options.threads = 1;
  options.isa = "scalar";
  return std::move(open_cpu(options, nullptr)).value();
}

// Loads bytes; the model does not need them afterwards.
Result<std::unique_ptr<Model>> load(const std::vector<uint8_t>& bytes, const LoadProgress& progress = nullptr) {
  static const std::unique_ptr<Backend> backend = open_scalar();
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  return load_model(*file, backend.get(), progress);
}

template <typename Add>
std::vector<uint8_t> with(const GgufModel& model, Add add) {
  GgufWriter w;
  return model.write(&w, add);
}

void expect_status(const Status& status, Code code, const char* word) {
  EXPECT_EQ(status.code(), code) << status.message() << " for " << word;
  EXPECT_NE(status.message().find(word), std::string::npos) << word << " not in: " << status.message();
}

// The header of a Gemma 3 of the 27B's shape, without its layers.
std::vector<uint8_t> with_gemma3(uint32_t layers) {
  GgufWriter w;
  w.add_string("general.architecture", "gemma3");
  for (const auto& [key, value] : {std::pair<const char*, uint32_t>{"block_count", layers},
                                   {"context_length", 131072},
                                   {"embedding_length", 5376},
                                   {"feed_forward_length", 64},
                                   {"attention.head_count", 32},
                                   {"attention.head_count_kv", 16},
                                   {"attention.key_length", 128},
                                   {"attention.value_length", 128},
                                   {"attention.sliding_window", 100}}) {
    w.add_u32(std::string("gemma3.") + key, value);
  }
  w.add_f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  w.add_f32("gemma3.rope.freq_base", 1e6f);
  w.add_tensor("token_embd.weight", 0, {5376, 1}, std::vector<uint8_t>(4 * 5376));
  return w.finish();
}

TEST(ModelLoad, ReadsDimensionsAndStacksWeights) {
  GgufModel spec;
  spec.layers = 2;
  auto model = load(spec.write());
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  const Model& m = **model;
  EXPECT_STREQ(m.arch->name, "llama");
  EXPECT_EQ(m.dims.head_dim, 8u);
  EXPECT_EQ(m.dims.vocab, 40u);
  EXPECT_TRUE(m.dims.tied_head);
  EXPECT_EQ(&m.head_weight(), m.embedding.get());
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_EQ(m.layers[1].qkv->rows(), 32u + 16 + 16);
  EXPECT_EQ(m.layers[1].gate_up->rows(), 128u);
  EXPECT_EQ(m.layers[1].down->cols(), 64u);
  EXPECT_EQ(m.layers[1].attn_norm.values.size(), 32u);
  EXPECT_FLOAT_EQ(m.layers[1].attn_norm.values[31], 0.81f);
  EXPECT_TRUE(m.layers[1].qkv_bias.values.empty());
  EXPECT_GT(m.weight_bytes, 0u);
}

TEST(ModelLoad, Qwen2HasBiasesAndHalvesAndAnOwnHead) {
  GgufModel spec;
  spec.arch = "qwen2";
  spec.qkv_bias = true;
  spec.tied = false;
  auto model = load(spec.write());
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  EXPECT_EQ((*model)->dims.rope.style, RopeStyle::kHalves);
  EXPECT_EQ((*model)->layers[0].qkv_bias.values.size(), 64u);
  EXPECT_NE((*model)->head, nullptr);
  spec.qkv_bias = false;
  expect_status(load(spec.write()).status(), Code::kCorrupt, "blk.0.attn_q.bias is missing");
}

TEST(ModelLoad, EveryMissingPartIsNamed) {
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
                          "attention.layer_norm_rms_epsilon"}) {
    GgufModel spec;
    spec.skip_key = key;
    expect_status(load(spec.write()).status(), Code::kCorrupt, key);
  }
  for (const char* tensor : {"token_embd.weight", "output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
                             "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
                             "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"}) {
    GgufModel spec;
    spec.skip_tensor = tensor;
    expect_status(load(spec.write()).status(), Code::kCorrupt, tensor);
  }
  GgufWriter vocabulary;
  vocabulary.add_string("general.architecture", "llama");
  expect_status(load(vocabulary.finish()).status(), Code::kUnsupported, "vocabulary");
}

void factor(GgufWriter& w, float value) { w.add_f32("llama.rope.scaling.factor", value); }
void frequency_factors(GgufWriter& w, const char* name, std::vector<float> values) {
  std::vector<uint8_t> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  w.add_tensor(name, 0, {values.size()}, std::move(bytes));
}

TEST(ModelLoad, FeaturesThatKvrtLacksAreRefusedByName) {
  struct Case {
    const char* word;
    void (*add)(GgufWriter&);
  };
  const Case cases[] = {
      {"llama.attention.sliding_window", [](GgufWriter& w) { w.add_u32("llama.attention.sliding_window", 127); }},
      {"llama.expert_shared_count: found 2", [](GgufWriter& w) { w.add_u32("llama.expert_shared_count", 2); }},
      {"activation \"gelu\"", [](GgufWriter& w) { w.add_string("llama.hidden_activation", "gelu"); }},
      {"llama.attention.causal", [](GgufWriter& w) { w.add_bool("llama.attention.causal", false); }},
      {"llama.logit_scale: found 16, only 1", [](GgufWriter& w) { w.add_f32("llama.logit_scale", 16.0f); }},
      {"RoPE scaling \"dynamic\"", [](GgufWriter& w) { w.add_string("llama.rope.scaling.type", "dynamic"), factor(w, 4); }},
      {"\"longrope\"", [](GgufWriter& w) { w.add_string("llama.rope.scaling.type", "longrope"); }},
      {"yarn_log_multiplier: found 0.1", [](GgufWriter& w) { w.add_f32("llama.rope.scaling.yarn_log_multiplier", 0.1f); }},
      {"llama.attention.value_length", [](GgufWriter& w) { w.add_u32("llama.attention.value_length", 4); }},
      {"blk.0.attn_q_norm.weight", [](GgufWriter& w) { w.add_tensor("blk.0.attn_q_norm.weight", 0, {8}, std::vector<uint8_t>(32)); }},
  };
  for (const Case& c : cases) expect_status(load(with(GgufModel(), c.add)).status(), Code::kUnsupported, c.word);
  GgufModel other;
  other.arch = "mamba";
  expect_status(load(other.write()).status(), Code::kUnsupported, "\"mamba\"");
  other.arch = "qwen2";
  other.qkv_bias = true;
  const auto experts = with(other, [](GgufWriter& w) { w.add_u32("qwen2.expert_count", 8); });
  expect_status(load(experts).status(), Code::kUnsupported, "qwen2.expert_count");
  EXPECT_TRUE(load(with(GgufModel(), [](GgufWriter& w) {
                w.add_string("llama.rope.scaling.type", "none");
                w.add_u32("llama.expert_count", 0);
                w.add_f32("llama.expert_weights_scale", 0);
                w.add_bool("llama.attention.causal", true);
              })).is_ok());
}

TEST(ModelLoad, RopeScalingIsReadOrTheFileIsDamaged) {
  struct Case {
    const char* word;  // null: loads
    void (*add)(GgufWriter&);
  };
  const Case cases[] = {
      {nullptr, [](GgufWriter& w) { factor(w, 4); }},
      {nullptr,
       [](GgufWriter& w) {
         frequency_factors(w, "rope_freqs.weight", {1, 2, 3, 8});
       }},
      {"llama.rope.scaling.factor", [](GgufWriter& w) { factor(w, 0.1f); }},
      {"llama.rope.scaling.factor", [](GgufWriter& w) { factor(w, -1); }},
      {"original_context_length", [](GgufWriter& w) { w.add_string("llama.rope.scaling.type", "yarn"), factor(w, 4); }},
      {"expected values of",
       [](GgufWriter& w) {
         frequency_factors(w, "rope_freqs.weight", {1, 2, 3, 0});
       }},
      {"expected values of",
       [](GgufWriter& w) {
         frequency_factors(w, "rope_freqs.weight", {1, 2, 3, std::numeric_limits<float>::quiet_NaN()});
       }},
      {"expected 4 values",
       [](GgufWriter& w) {
         frequency_factors(w, "rope_freqs.weight", {1, 2, 3});
       }},
      {"rope_factors_short.weight is missing",
       [](GgufWriter& w) {
         frequency_factors(w, "rope_factors_long.weight", {1, 2, 3, 4});
       }},
      {"expert_used_count", [](GgufWriter& w) { w.add_u32("llama.expert_count", 4), w.add_u32("llama.expert_used_count", 0); }},
      {"ffn_gate_inp", [](GgufWriter& w) { w.add_u32("llama.expert_count", 4), w.add_u32("llama.expert_used_count", 4); }},
  };
  for (const Case& c : cases) {
    const auto model = load(with(GgufModel(), c.add));
    if (c.word) expect_status(model.status(), Code::kCorrupt, c.word);
    EXPECT_EQ(model.is_ok(), c.word == nullptr) << model.status().message();
  }
}

// The context of the model against the one before it was stretched decides, whatever a sequence's length.
TEST(ModelLoad, LongropeTakesOneSetOfFactorsForAll) {
  for (uint32_t original : {127u, 128u, 4096u}) {
    auto model = load(with(GgufModel(), [&](GgufWriter& w) {
      w.add_u32("llama.rope.scaling.original_context_length", original);
      frequency_factors(w, "rope_factors_long.weight", {2, 2, 2, 2});
      frequency_factors(w, "rope_factors_short.weight", {1, 1, 1, 1});
    }));
    ASSERT_TRUE(model.is_ok()) << model.status().message();
    EXPECT_EQ((*model)->dims.rope.frequency_factors, std::vector<float>(4, original < 128 ? 2.0f : 1.0f));
  }
}

// A scale that no key gives: the published Gemma models of this many layers scale by width / heads.
TEST(ModelLoad, Gemma27BScalesByItsWidth) {
  const auto scale_of = [](uint32_t layers) {
    std::vector<uint8_t> bytes = with_gemma3(layers);
    auto file = std::move(GgufFile::parse(bytes, "test.gguf")).value();
    const Arch* arch = nullptr;
    auto dims = read_dims(*file, &arch);
    EXPECT_TRUE(dims.is_ok()) << dims.status().message();
    EXPECT_EQ(dims->windows[5], 0u);
    EXPECT_EQ(dims->windows[4], 100u);
    EXPECT_EQ(dims->windows[6], 100u);
    EXPECT_EQ(dims->rope.freq_base, 1e6f);
    EXPECT_EQ(dims->window_rope.freq_base, 10000.0f);
    return dims->attention_scale;
  };
  EXPECT_FLOAT_EQ(scale_of(62), std::pow(168.0f, -0.5f));  // query_pre_attn_scalar of the 27B
  EXPECT_FLOAT_EQ(scale_of(48), std::pow(128.0f, -0.5f));
}

// Every type that GGUF knows: those that kvrt has load, the others are named, with their tensor.
TEST(ModelLoad, ATensorTypeThatKvrtLacksIsRefusedWhenTheModelIsLoaded) {
  constexpr uint32_t kWidth = 512;
  uint32_t supported = 0, refused = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    GgufModel spec;
    spec.width = kWidth;
    spec.skip_tensor = "blk.0.attn_q.weight";
    const GgmlType* type = find_ggml_type(id);
    const uint64_t bytes = type ? uint64_t{kWidth} / type->block_elems * type->block_bytes * kWidth : 0;
    const auto file = with(spec, [&](GgufWriter& w) {
      w.add_tensor("blk.0.attn_q.weight", id, {kWidth, kWidth}, std::vector<uint8_t>(bytes));
    });
    const Status parsed = GgufFile::parse(file, "test.gguf").take_status();
    if (!type) {
      expect_status(parsed, Code::kUnsupported, ("tensor blk.0.attn_q.weight: unknown tensor type " + std::to_string(id)).c_str());
      continue;
    }
    ASSERT_TRUE(parsed.is_ok()) << parsed.message();
    auto model = load(file);
    if (const DTypeInfo* info = dtype_info(id)) {
      EXPECT_STREQ(info->name, type->name);
      EXPECT_EQ(info->block_elems, type->block_elems) << type->name;
      EXPECT_EQ(info->block_bytes, type->block_bytes) << type->name;
      ASSERT_TRUE(model.is_ok()) << model.status().message();
      const auto parsed_again = std::move(GgufFile::parse(file, "test.gguf")).value();
      auto planned = planned_weight_bytes(*parsed_again, *open_scalar(), *(*model)->arch, (*model)->dims);
      EXPECT_EQ(*planned, (*model)->weight_bytes) << type->name;
      ++supported;
    } else {
      expect_status(model.status(), Code::kUnsupported, ("tensor blk.0.attn_q.weight: type " + std::string(type->name)).c_str());
      ++refused;
    }
  }
  EXPECT_EQ(supported, 16u);
  EXPECT_EQ(refused, 18u);
}

// A vector is F32, F16 or BF16.
TEST(ModelLoad, AQuantizedVectorIsRefused) {
  GgufModel spec;
  spec.skip_tensor = "output_norm.weight";
  const auto norm = [&](uint32_t type, size_t bytes) {
    return load(with(spec, [&](GgufWriter& w) { w.add_tensor("output_norm.weight", type, {32}, std::vector<uint8_t>(bytes)); }));
  };
  EXPECT_TRUE(norm(30, 64).is_ok());
  expect_status(norm(2, 18).status(), Code::kUnsupported, "tensor output_norm.weight: type Q4_0 is not supported for a vector");
}

// A row of 288 elements is no whole superblock.
TEST(ModelLoad, ARowThatIsNoWholeBlockIsRefused) {
  GgufModel spec;
  spec.width = 288;
  spec.skip_tensor = "blk.0.attn_q.weight";
  const auto bytes = with(spec, [](GgufWriter& w) { w.add_tensor("blk.0.attn_q.weight", 12, {288, 288}, std::vector<uint8_t>(46656)); });
  const Status status = GgufFile::parse(bytes, "test.gguf").take_status();
  expect_status(status, Code::kCorrupt, "tensor blk.0.attn_q.weight: a row of Q4_K is a multiple of 256 elements, found 288");
}

TEST(ModelLoad, HyperParametersOutOfRangeAreNamed) {
  struct Case {
    Code code;
    const char* word;
    void (*change)(GgufModel&);
  };
  const Case cases[] = {
      {Code::kLimit, "llama.block_count", [](GgufModel& m) { m.skip_key = "block_count"; }},
      {Code::kCorrupt, "llama.attention.head_count_kv", [](GgufModel& m) { m.kv_heads = 3; }},
      {Code::kCorrupt, "llama.attention.head_count_kv", [](GgufModel& m) { m.kv_heads = 8; }},
      {Code::kCorrupt, "llama.attention.head_count", [](GgufModel& m) { m.heads = 3, m.kv_heads = 1, m.matrix_type = 0; }},
      {Code::kCorrupt, "llama.rope.dimension_count", [](GgufModel& m) { m.skip_key = "rope.dimension_count"; }},
  };
  for (const Case& c : cases) {
    GgufModel spec;
    c.change(spec);
    const auto bytes = with(spec, [&](GgufWriter& w) {
      if (spec.skip_key == "block_count") w.add_u32("llama.block_count", kLayersMax + 1);
      if (spec.skip_key == "rope.dimension_count") w.add_u32("llama.rope.dimension_count", 10);  // of 8
    });
    expect_status(load(bytes).status(), c.code, c.word);
  }
  for (float eps : {-1.0f, 2.0f, std::numeric_limits<float>::quiet_NaN()}) {
    GgufModel spec;
    spec.skip_key = "attention.layer_norm_rms_epsilon";
    const auto bytes = with(spec, [&](GgufWriter& w) { w.add_f32("llama.attention.layer_norm_rms_epsilon", eps); });
    expect_status(load(bytes).status(), Code::kCorrupt, "rms_epsilon");
  }
  const auto wrong_vocabulary = with(GgufModel(), [](GgufWriter& w) { w.add_u32("llama.vocab_size", 41); });
  expect_status(load(wrong_vocabulary).status(), Code::kCorrupt, "llama.vocab_size");
}

// A file may name its activation, as transformers does: the architecture's own alone is taken.
TEST(ModelLoad, AnotherActivationThanTheArchitecturesIsRefusedByName) {
  for (const auto& [arch, own] : {std::pair{"llama", "silu"}, {"gemma2", "gelu_pytorch_tanh"}, {"arcee", "relu2"}}) {
    for (const std::string found : {"silu", "gelu_pytorch_tanh", "relu2"}) {
      GgufModel spec;
      spec.arch = arch;
      const auto bytes = with(spec, [&](GgufWriter& w) { w.add_string(spec.arch + ".hidden_activation", found); });
      const auto file = std::move(GgufFile::parse(bytes, "test.gguf")).value();
      const Arch* read = nullptr;
      const Status status = read_dims(*file, &read).take_status();
      if (found == own) {
        EXPECT_TRUE(status.is_ok()) << status.message();
        continue;
      }
      const std::string words = spec.arch + ".hidden_activation: activation \"" + found + "\" is not supported, expected " + own;
      expect_status(status, Code::kUnsupported, words.c_str());
    }
  }
}

TEST(ModelLoad, ReportsProgressAndStopsWhenToldTo) {
  GgufModel spec;
  spec.layers = 3;
  const auto bytes = spec.write();
  uint64_t last = 0, total = 0, calls = 0;
  ASSERT_TRUE(load(bytes, [&](uint64_t done, uint64_t all) {
                EXPECT_GE(done, last);
                last = done, total = all, ++calls;
                return true;
              }).is_ok());
  EXPECT_EQ(last, total);
  EXPECT_GT(calls, 10u);
  for (uint64_t stop = 1; stop <= calls; ++stop) {
    uint64_t n = 0;
    const auto model = load(bytes, [&](uint64_t, uint64_t) { return ++n < stop; });
    EXPECT_EQ(model.status().code(), Code::kCancelled);
    EXPECT_EQ(n, stop);
  }
}

// A tiny model whose tensor has this for its last element.
std::vector<uint8_t> with_value(const char* model, const char* tensor, float value) {
  std::ifstream in(std::string(KVRT_SOURCE_DIR "/tests/golden/tiny/") + model + ".gguf", std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  const auto file = std::move(GgufFile::parse(bytes, model)).value();
  const std::span<const uint8_t> data = file->find(tensor)->view.data;
  std::memcpy(bytes.data() + (data.data() - bytes.data()) + data.size() - sizeof value, &value, sizeof value);
  return bytes;
}

// What the file should not have, and the numbers would hide: states that grow, a choice by no number.
TEST(Load, ValuesThatNoModelHas) {
  expect_status(load(with_value("row_granitehybrid", "blk.1.ssm_a", 0.05f)).status(), Code::kCorrupt,
                "tensor blk.1.ssm_a: expected no number above 0: states decay, found 0.05");
  expect_status(load(with_value("row_qwen3next", "blk.0.ssm_a", NAN)).status(), Code::kCorrupt, "blk.0.ssm_a");
  expect_status(load(with_value("row_lfm2moe", "blk.2.exp_probs_b.bias", NAN)).status(), Code::kCorrupt,
                "tensor blk.2.exp_probs_b.bias: expected finite numbers, found nan");
  EXPECT_TRUE(load(with_value("row_granitehybrid", "blk.1.ssm_a", -0.05f)).is_ok());
}

}  // namespace
}  // namespace kvrt
