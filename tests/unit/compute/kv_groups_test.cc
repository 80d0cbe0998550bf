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

// A layer that reads what another one leaves behind has that one's place, and takes no room.
TEST(KvGroups, LayersThatShareHaveOnePlace) {
  std::vector<KvLayer> layers = layers_of({{512, 4, 1, 256}, {0, 1, 1, 512}, {512, 4, 1, 256}, {0, 1, 1, 512}});
  const KvGroups alone = deal_layers(layers);
  const uint32_t of[] = {8, 9, 8};
  for (const uint32_t i : of) layers.push_back({layers[i].window, layers[i].kv, {}, i});
  const KvGroups kv = deal_layers(layers);
  EXPECT_EQ(kv.unit_bytes(), alone.unit_bytes());
  EXPECT_EQ(kv.tables(), alone.tables());
  EXPECT_EQ(kv.own, 10u);
  ASSERT_EQ(kv.groups.size(), 2u);
  EXPECT_EQ(kv.groups[0].layers, 2u);
  EXPECT_EQ(kv.groups[1].layers, 8u);
  for (uint32_t i = 0; i < 3; ++i) {
    const KvPlace &at = kv.places[10 + i], &other = kv.places[of[i]];
    EXPECT_TRUE(at.layer == other.layer && at.table == other.table && at.group == other.group) << i;
  }
}

struct Recurrent {
  const char* model;
  uint32_t layers;
  std::set<uint32_t> attention;  // layers with KV
  uint32_t kv_heads, head_dim;
  StateNeed state;
  uint64_t unit_bytes;
  StateItems inputs, heads;
  uint32_t units;
};

// Layers, heads and states: the models' cards. Blocks of 32 tokens in f16.
const Recurrent kRecurrent[] = {
    {"LFM2 1.2B", 16, {2, 5, 8, 10, 12, 14}, 8, 64, {2048, 3, 0, 0}, 6 * 65536, {32, 512, 768, 0}, {}, 1},
    {"Granite 4.0 H Tiny",
     40,
     {5, 15, 25, 35},
     4,
     128,
     {3328, 4, 48, 64 * 128 * 4},
     4 * 65536,
     {52, 768, 341, 0},
     {48, 32768, 8, 6},
     6 + 216},
    {"Qwen3-Next 80B A3B",
     48,
     {3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47},
     2,
     256,
     {8192, 4, 32, 128 * 128 * 4},
     12 * 65536,
     {128, 768, 1024, 0},
     {32, 65536, 12, 5},
     5 + 96},
    {"channels of 8, and no KV", 3, {}, 0, 0, {24, 3, 2, 4096}, 4096, {3, 64, 64, 0}, {2, 4096, 1, 1}, 1 + 6},
    {"a head larger than all KV", 4, {3}, 1, 16, {16, 4, 1, 65536}, 65536, {1, 192, 341, 0}, {1, 65536, 1, 1}, 1 + 3},
    {"a head as large as two layers' KV", 8, {1, 3, 5, 7}, 1, 64, {16, 4, 1, 16384}, 32768, {1, 192, 170, 0}, {1, 16384, 2, 1}, 1 + 2},
};

std::vector<KvLayer> layers_of(const Recurrent& c) {
  std::vector<KvLayer> layers;
  for (uint32_t i = 0; i < c.layers; ++i) {
    layers.push_back(c.attention.contains(i) ? KvLayer{0, {1, c.kv_heads, c.head_dim, 32}} : KvLayer{0, {0, 0, 0, 32}, c.state});
  }
  return layers;
}

void expect_items(const StateItems& found, const StateItems& expected, const char* model) {
  EXPECT_EQ(found.items, expected.items) << model;
  EXPECT_EQ(found.bytes, expected.bytes) << model;
  EXPECT_EQ(found.bytes % 64, 0u) << model;
  if (expected.items == 0) return;
  EXPECT_EQ(found.per_unit, expected.per_unit) << model;
  EXPECT_EQ(found.first_unit, expected.first_unit) << model;
}

TEST(KvGroups, LayersWithStatesAreTheLastGroup) {
  for (const Recurrent& c : kRecurrent) {
    const std::vector<KvLayer> layers = layers_of(c);
    const KvGroups kv = deal_layers(layers);
    ASSERT_EQ(kv.groups.size(), c.attention.empty() ? 1u : 2u) << c.model;
    const KvGroup& group = kv.groups.back();
    EXPECT_TRUE(group.state && group.window == 1 && group.tables == 0 && group.first_table == kv.tables()) << c.model;
    EXPECT_EQ(kv.tables(), c.attention.empty() ? 0u : 1u) << c.model;
    EXPECT_TRUE(group.unit.layers == 0 && group.unit.block_tokens == 32) << c.model;
    EXPECT_EQ(kv.unit_bytes(), c.unit_bytes) << c.model;
    for (const KvGroup& each : kv.groups) EXPECT_EQ(each.unit.block_bytes(), c.unit_bytes) << c.model;
    EXPECT_EQ(kv.states.unit_bytes, c.unit_bytes) << c.model;
    EXPECT_EQ(kv.states.layers, group.layers) << c.model;
    EXPECT_EQ(kv.states.units, c.units) << c.model;
    expect_items(kv.states.inputs, c.inputs, c.model);
    expect_items(kv.states.heads, c.heads, c.model);
    uint32_t recurrent = 0;
    for (uint32_t i = 0; i < c.layers; ++i) {
      const KvPlace& at = kv.places[i];
      EXPECT_EQ(kv.groups[at.group].state, layers[i].state.any()) << c.model;
      if (!layers[i].state.any()) continue;
      EXPECT_EQ(at.layer, recurrent++) << c.model;
      EXPECT_EQ(at.table, 0u) << c.model;
    }
    EXPECT_EQ(recurrent, group.layers) << c.model;
  }
}

TEST(KvGroups, NoTwoItemsOfAStateOverlap) {
  for (const Recurrent& c : kRecurrent) {
    const KvGroups kv = deal_layers(layers_of(c));
    std::vector<int32_t> units(kv.states.units);
    for (size_t i = 0; i < units.size(); ++i) units[i] = static_cast<int32_t>(units.size() - i);  // in no order of theirs
    std::set<std::pair<uint64_t, uint64_t>> taken;                                                // begin, end
    for (const StateItems& kind : {kv.states.inputs, kv.states.heads}) {
      for (uint32_t layer = 0; layer < kv.states.layers; ++layer) {
        for (uint32_t j = 0; j < kind.items; ++j) {
          const uint64_t at = state_offset(kv.states, kind, units.data(), layer, j);
          EXPECT_EQ(at / c.unit_bytes, (at + kind.bytes - 1) / c.unit_bytes) << c.model;
          EXPECT_TRUE(taken.insert({at, at + kind.bytes}).second) << c.model;
        }
      }
    }
    for (auto it = taken.begin(); std::next(it) != taken.end(); ++it) EXPECT_LE(it->second, std::next(it)->first) << c.model;
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
