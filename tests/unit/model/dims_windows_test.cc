// Layers of two kinds (Gemma 4): with a window and without, each with heads of its own, of which the last ones read others' K and V.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/model/model.h"
#include "tests/support/gguf_writer.h"

namespace kvrt {
namespace {

using test::GgufModel;
using test::GgufWriter;

constexpr uint32_t kI32 = 5, kBool = 7;

struct Keys {
  std::vector<uint8_t> windows = {1, 1, 0, 1, 1, 0};
  std::vector<int32_t> kv_heads = {2, 2, 1, 2, 2, 1};
  std::vector<int32_t> ffs = {64, 64, 64, 128, 128, 128};
  uint32_t window = 16, shared = 3, k_dim = 8, v_dim = 8, experts = 0, per_layer = 8;
};

Result<ModelDims> read(const Keys& keys) {
  GgufModel spec;
  spec.arch = "gemma4";
  spec.layers = 6;
  spec.skip_key = keys.ffs.empty() ? "attention.head_count_kv" : "feed_forward_length";
  GgufWriter w;
  const std::vector<uint8_t> bytes = spec.write(&w, [&](GgufWriter& writer) {
    const auto key = [](const char* name) { return std::string("gemma4.") + name; };
    if (keys.ffs.empty()) writer.add_array(key("attention.head_count_kv"), kI32, keys.kv_heads);
    if (!keys.ffs.empty()) writer.add_array(key("feed_forward_length"), kI32, keys.ffs);
    if (!keys.windows.empty()) writer.add_array(key("attention.sliding_window_pattern"), kBool, keys.windows);
    writer.add_u32(key("attention.sliding_window"), keys.window);
    writer.add_u32(key("attention.shared_kv_layers"), keys.shared);
    writer.add_u32(key("attention.key_length"), 16);
    writer.add_u32(key("attention.value_length"), 16);
    writer.add_u32(key("attention.key_length_swa"), keys.k_dim);
    writer.add_u32(key("attention.value_length_swa"), keys.v_dim);
    writer.add_u32(key("rope.dimension_count_swa"), 8);
    writer.add_u32(key("embedding_length_per_layer_input"), keys.per_layer);
    writer.add_u32(key("expert_count"), keys.experts);
    writer.add_u32(key("expert_used_count"), 1);
  });
  KVRT_ASSIGN(auto file, GgufFile::parse(bytes, "test.gguf"));
  const Arch* arch = nullptr;
  return read_dims(*file, &arch);
}

TEST(LayerKinds, EachHasHeadsAndARotationOfItsOwn) {
  for (const uint32_t window : {16u, 128u, 4096u}) {  // the context is 128
    Keys keys;
    keys.window = window;
    auto dims = read(keys);
    ASSERT_TRUE(dims.is_ok()) << dims.status().message();
    EXPECT_EQ(dims->attention_scale, 1);
    EXPECT_EQ(dims->per_layer, 8u);
    EXPECT_EQ(dims->ff, 128u);
    EXPECT_EQ(dims->rope.dims, 8u);  // GgufModel's
    EXPECT_EQ(dims->window_rope.dims, 8u);
    const uint32_t owners[] = {0, 1, 2, 1, 1, 2};
    for (uint32_t i = 0; i < 6; ++i) {
      const bool full = i % 3 == 2;
      EXPECT_EQ(dims->window(i), full ? 0 : window) << i;
      EXPECT_EQ(dims->heads_of(i).dim, full ? 16u : 8u) << i;
      EXPECT_EQ(dims->heads_of(i).q_alone, i >= 3) << i;
      EXPECT_EQ(dims->in_width(i), (full ? 16u : 8u) * (i < 3 ? 8 : 4)) << i;
      EXPECT_EQ(dims->kv_layer(i), owners[i]) << i;
      EXPECT_EQ(dims->ff_of(i), i < 3 ? 64u : 128u) << i;
    }
    const std::vector<KvLayer> layers = kv_layers(*dims, 16, {});
    const KvGroups kv = deal_layers(layers);
    EXPECT_EQ(kv.own, 3u);
    for (uint32_t i = 3; i < 6; ++i) EXPECT_EQ(layers[i].of, owners[i]) << i;
  }
}

TEST(LayerKinds, WhatDoesNotFitIsNamed) {
  const struct {
    const char* words;
    std::function<void(Keys*)> change;
  } cases[] = {
      {"sliding_window_pattern: expected a flag for each of 6 layers, found 5", [](Keys* k) { k->windows.pop_back(); }},
      {"sliding_window_pattern: expected a flag for each of 6 layers, found none", [](Keys* k) { k->windows.clear(); }},
      {"attention.sliding_window: ", [](Keys* k) { k->window = 0; }},
      {"attention.shared_kv_layers", [](Keys* k) { k->shared = 6; }},
      {"layer 5 has no K and V, and no layer of its kind before it has any", [](Keys* k) { k->windows = {1, 1, 1, 1, 1, 0}; }},
      {"layer 3 has no K and V, and another count of KV heads than those it reads",
       [](Keys* k) { k->ffs.clear(), k->kv_heads = {2, 2, 1, 4, 2, 1}; }},
      {"attention.key_length_swa", [](Keys* k) { k->k_dim = 17; }},
      {"attention.value_length_swa", [](Keys* k) { k->v_dim = 4; }},
      {"feed_forward_length: expected a number for each of 6 layers, found 5", [](Keys* k) { k->ffs.pop_back(); }},
      {"feed_forward_length: layer 1 has 0", [](Keys* k) { k->ffs[1] = 0; }},
      {"feed_forward_length: an array is not supported beside experts", [](Keys* k) { k->experts = 4; }},
      {"embedding_length_per_layer_input", [](Keys* k) { k->per_layer = 1u << 30; }},
  };
  for (const auto& c : cases) {
    Keys keys;
    c.change(&keys);
    const Status status = read(keys).take_status();
    EXPECT_FALSE(status.is_ok()) << c.words;
    EXPECT_NE(status.message().find(c.words), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace kvrt
