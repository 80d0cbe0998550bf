// Where a chunk's bytes lie in the pool: every layer of a group once, in the model's order.
#include "runtime/engine/sources/kv_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvrt {
namespace {

KvGroups groups_of(std::vector<uint32_t> windows, KvFormat format = KvFormat::kF16) { return deal_layers(windows, {1, 2, 16, 32, format}); }

TEST(KvChunks, HaveEachLayerOnce) {
  std::vector<uint32_t> gemma(26, 512);
  for (uint32_t i = 5; i < 26; i += 6) gemma[i] = 0;
  std::vector<KvGroups> models;
  for (const auto& windows : {std::vector<uint32_t>(7, 0), std::vector<uint32_t>(7, 64), gemma, {0, 8, 8}, {8, 0, 16}})
    models.push_back(groups_of(windows, KvFormat::kI8));
  const KvLayer wide{0, {1, 2, 16, 32}}, narrow{8, {1, 3, 16, 32}};
  models.push_back(deal_layers(std::vector{wide, narrow, narrow, wide, narrow}));
  for (const KvGroups& kv : models) {
    for (uint32_t number = kv.one_shape() ? 0 : 1; number <= kv.groups.size(); ++number) {
      const KvChunk chunk = kv_chunk(kv, number);
      uint64_t at = 0;
      size_t part = 0;
      const uint64_t layer = chunk.geometry.layer_bytes();
      for (uint32_t i = 0; i < kv.places.size(); ++i) {
        const KvPlace& place = kv.places[i];
        if (number != kAllLayers && place.group != number - 1) continue;
        while (part < chunk.parts.size() && at >= chunk.parts[part].in_chunk + chunk.parts[part].bytes) ++part;
        ASSERT_LT(part, chunk.parts.size());
        const ChunkPart& p = chunk.parts[part];
        EXPECT_EQ(p.group, place.group);
        EXPECT_EQ(p.unit + kv.groups[p.group].first_table, place.table);
        EXPECT_EQ(p.in_unit + (at - p.in_chunk), place.layer * layer);
        at += layer;
      }
      EXPECT_EQ(chunk.geometry.block_bytes(), at);
    }
  }
}

TEST(KvChunks, OfOneGroupAreWhatTheyWere) {
  const KvGroups kv = groups_of({0, 0, 0});
  EXPECT_EQ(chunk_number(kv, 0), kAllLayers);
  const KvChunk chunk = kv_chunk(kv, kAllLayers);
  ASSERT_EQ(chunk.parts.size(), 1u);
  EXPECT_EQ(chunk.parts[0].bytes, kv.unit_bytes());
  EXPECT_EQ(groups_stored(kv, {0, 1}), (std::vector<uint32_t>{0, 1}));
}

TEST(KvChunks, AChunkOfAllLayersHasEveryGroup) {
  const KvGroups kv = groups_of({0, 8, 8});
  EXPECT_EQ(chunk_number(kv, 0), 1u);
  EXPECT_EQ(chunk_number(kv, 1), 2u);
  EXPECT_EQ(groups_stored(kv, {0, 1, 2, 4, 6, 5}), (std::vector<uint32_t>{0, 3, 1, 2, 3, 3}));
}

TEST(KvChunks, NoChunkHasLayersOfSeveralShapes) {
  const KvGroups kv = deal_layers(std::vector<KvLayer>{{0, {1, 2, 16, 32}}, {8, {1, 4, 16, 32}}});
  EXPECT_EQ(groups_stored(kv, {0, 1, 2, 4, 6, 5}), (std::vector<uint32_t>{0, 0, 1, 2, 3, 2}));
  EXPECT_TRUE(kv_chunk(kv, kAllLayers).parts.empty());
}

// FORMAT.md, layout 512: per layer the runs of channels, then per layer the heads; nothing of what lies between them in the pool.
TEST(KvChunks, OfStatesHaveTheirItemsInOrder) {
  const StateNeed need{96, 3, 3, 512};  // three runs of 32 channels
  const KvLayer attention{0, {1, 2, 16, 32}}, recurrent{0, {0, 0, 0, 32}, need};
  const KvGroups kv = deal_layers(std::vector{recurrent, attention, recurrent, recurrent, recurrent, recurrent});
  const KvChunk chunk = kv_chunk(kv, 2);
  EXPECT_EQ(chunk.layout(), 512u);
  EXPECT_EQ(payload_cell_bytes(chunk.geometry), 4u);
  EXPECT_EQ(payload_scratch_bytes(chunk.geometry), 0u);
  std::vector<int32_t> units(kv.states.units);
  for (uint32_t u = 0; u < units.size(); ++u) units[u] = static_cast<int32_t>(7 + 2 * u);
  uint64_t at = 0;
  const auto expect_item = [&](const StateItems& kind, uint32_t layer, uint32_t item, uint64_t bytes) {
    EXPECT_EQ(kind.bytes, bytes);
    const auto part = std::ranges::find_if(chunk.parts, [&](const ChunkPart& p) { return at >= p.in_chunk && at < p.in_chunk + p.bytes; });
    ASSERT_NE(part, chunk.parts.end());
    const uint64_t in_pool = static_cast<uint64_t>(units[part->unit]) * kv.unit_bytes() + part->in_unit + (at - part->in_chunk);
    EXPECT_EQ(in_pool, state_offset(kv.states, kind, units.data(), layer, item)) << "layer " << layer << ", item " << item;
    at += bytes;
  };
  for (uint32_t layer = 0; layer < 5; ++layer) {
    for (uint32_t run = 0; run < 3; ++run) expect_item(kv.states.inputs, layer, run, 2 * 32 * sizeof(float));
  }
  for (uint32_t layer = 0; layer < 5; ++layer) {
    for (uint32_t head = 0; head < 3; ++head) expect_item(kv.states.heads, layer, head, 512);
  }
  EXPECT_EQ(chunk.geometry.block_bytes(), at);
  EXPECT_EQ(groups_needed(kv)[1].window, 1u) << "the last node's chunk alone";
  EXPECT_TRUE(kv_chunk(kv, kAllLayers).parts.empty());
}

}  // namespace
}  // namespace kvrt
