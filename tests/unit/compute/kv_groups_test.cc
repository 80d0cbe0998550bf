// How the layers of published models are dealt to groups and units.
#include "runtime/compute/kv_groups.h"

#include <gtest/gtest.h>

#include <set>

namespace kvrt {
namespace {

struct Case {
  const char* model;
  uint32_t layers, full_every, window;  // of full_every layers the last sees everything; 0: none does
  uint32_t full_tables, window_tables, unit_layers;
};

// Layers and windows: the models' cards.
constexpr Case kCases[] = {
    {"Gemma 3 270M", 18, 6, 512, 1, 5, 3}, {"Gemma 3 1B", 26, 6, 512, 1, 6, 4},   {"Gemma 3 27B", 62, 6, 1024, 2, 11, 5},
    {"Gemma 2 2B", 26, 2, 4096, 1, 1, 13}, {"gpt-oss 20B", 24, 2, 128, 1, 1, 12}, {"Olmo 3 32B", 64, 4, 4096, 1, 3, 16},
    {"Phi 3 mini", 32, 0, 2047, 0, 1, 32}, {"Llama 3 8B", 32, 1, 8192, 1, 0, 32},
};

TEST(KvGroups, DealLayersOfPublishedModels) {
  for (const Case& c : kCases) {
    std::vector<uint32_t> windows(c.layers, c.window);
    for (uint32_t i = 0; c.full_every > 0 && i < c.layers; ++i) windows[i] = (i + 1) % c.full_every == 0 ? 0 : c.window;
    const KvGroups kv = deal_layers(windows, {1, 2, 64, 32});
    ASSERT_EQ(kv.groups.size(), (c.full_tables > 0) + (c.window_tables > 0)) << c.model;
    for (const KvGroup& group : kv.groups) EXPECT_EQ(group.unit.layers, c.unit_layers) << c.model;
    for (const KvGroup& group : kv.groups) EXPECT_EQ(group.tables, group.window == 0 ? c.full_tables : c.window_tables) << c.model;
    EXPECT_EQ(kv.tables(), c.full_tables + c.window_tables) << c.model;
    for (const KvGroup& group : kv.groups) {
      EXPECT_LE(10 * (group.tables * group.unit.layers - group.layers), group.layers) << c.model << ": padding";
    }
    std::set<std::pair<uint32_t, uint32_t>> taken;
    for (uint32_t i = 0; i < c.layers; ++i) {
      const KvPlace& at = kv.places[i];
      const KvGroup& group = kv.groups[at.group];
      EXPECT_EQ(group.window, windows[i]) << c.model;
      EXPECT_TRUE(at.table >= group.first_table && at.table < group.first_table + group.tables && at.layer < group.unit.layers) << c.model;
      EXPECT_TRUE(taken.insert({at.table, at.layer}).second) << c.model << ": two layers in one place";
    }
  }
}

struct Shapes {
  uint32_t window, layers, kv_heads, head_dim;
};

std::vector<KvLayer> layers_of(std::initializer_list<Shapes> shapes) {
  std::vector<KvLayer> layers;
  for (const Shapes& s : shapes) layers.insert(layers.end(), s.layers, {s.window, {1, s.kv_heads, s.head_dim, 16}});
  return layers;
}

TEST(KvGroups, LayersOfSeveralShapesShareOnePool) {
  const struct {
    std::vector<KvLayer> layers;
    std::vector<uint32_t> tables, unit_layers;
  } cases[] = {
      {layers_of({{512, 20, 8, 64}, {0, 4, 2, 128}}), {1, 10}, {4, 2}},  // a full layer has half the bytes of another
      {layers_of({{512, 20, 4, 256}, {0, 4, 4, 512}}), {2, 5}, {2, 4}},
      {layers_of({{512, 6, 3, 64}, {0, 2, 4, 64}}), {1, 3}, {2, 2}},  // a quarter of a window's units is padding
      {layers_of({{0, 2, 2, 64}, {0, 4, 1, 64}}), {1, 1}, {2, 4}},    // two groups that keep everything
      {layers_of({{0, 1, 3, 64}, {0, 1, 2, 64}, {64, 1, 1, 64}}), {1, 1, 1}, {1, 1, 3}},
  };
  for (const auto& c : cases) {
    const KvGroups kv = deal_layers(c.layers);
    ASSERT_EQ(kv.groups.size(), c.tables.size());
    std::set<std::pair<uint32_t, uint64_t>> taken;
    for (size_t g = 0; g < kv.groups.size(); ++g) {
      EXPECT_EQ(kv.groups[g].tables, c.tables[g]);
      EXPECT_EQ(kv.groups[g].unit.layers, c.unit_layers[g]);
      EXPECT_EQ(kv.groups[g].unit.block_bytes(), kv.unit_bytes());
    }
    for (size_t i = 0; i < c.layers.size(); ++i) {
      const KvPlace& at = kv.places[i];
      EXPECT_EQ(kv.groups[at.group].window, c.layers[i].window);
      EXPECT_TRUE(kv.unit(at).same_layers(c.layers[i].kv));
      EXPECT_LT(at.layer, kv.unit(at).layers);
      EXPECT_LT(at.table - kv.groups[at.group].first_table, kv.groups[at.group].tables);
      EXPECT_TRUE(taken.insert({at.table, at.layer}).second);
    }
  }
}

TEST(KvGroups, OneGroupIsTheModelAsItIs) {
  const KvGeometry whole{26, 1, 256, 32, KvFormat::kI8};
  const KvGroups kv = one_group(whole);
  EXPECT_EQ(kv.unit_bytes(), whole.block_bytes());
  EXPECT_EQ(kv.tables(), 1u);
  for (uint32_t i = 0; i < whole.layers; ++i) EXPECT_EQ(kv.places[i].layer, i);
}

}  // namespace
}  // namespace kvrt
