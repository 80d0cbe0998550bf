// Attention and KV store of a device: against float64 over K and V as they are stored, against the CPU's bits where they are promised, and
// a row alone against the same row in company.
#include <tuple>

#include "cuda/backend/step_arrays.h"
#include "tests/cuda/attention_support.h"
#ifdef KVRT_CUDA_EMULATION
#include "cuda/emulation/emulator.h"
#endif

namespace kvrt::test {
namespace {

bool on_tensor_cores(KvFormat format) { return format != KvFormat::kF32 && format != KvFormat::kI4; }
bool has_bf16(const KvFormats& formats) { return formats.k == KvFormat::kBF16 || formats.v == KvFormat::kBF16; }

// ---- decode

// The largest power of two in head_dim decides which numbers int8 transforms; 20 and, of bytes, 24 have rows of V that are no whole pieces.
TEST(Decode, WithinBoundOfFloat64AndOfCpu) {
  uint32_t seed = 0;
  for (const KvFormat format : kKvFormats) {
    for (const Shape& shape : {Shape{4, 2, 64, format, 32}, Shape{3, 1, 80, format, 16, 0, 2.0f}, Shape{8, 1, 128, format, 64, 300},
                               Shape{2, 2, 96, format, 128, 40}, Shape{11, 1, 32, format, 256}, Shape{20, 1, 24, format, 16, 5, 1.5f},
                               Shape{2, 1, 256, format, 32}, Shape{5, 1, 20, format, 32, 257}}) {
      World world(shape, {530, 41}, ++seed);
      fill(&world);
      const Batch batch = {{0, 0, 2}, {1, 40, 1}, {0, 255, 2}, {0, 529, 1}, {1, 15, 2}};
      const std::vector<float> got = decode(&world, batch), cpu = on_cpu(&world, batch);
      expect_decode_near(&world, batch, got);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], format == KvFormat::kBF16 ? 1e-4 : 2e-5) << shape << " " << i;
    }
  }
}

TEST(Decode, LargeHeads) {
  for (const KvFormat format : kKvFormats) {
    for (const uint32_t heads : {2u, 9u}) {
      World world({heads, 1, 512, format, 32}, {270}, heads);
      fill(&world);
      const Batch batch = {{0, 100, 1}, {0, 269, 1}};
      expect_decode_near(&world, batch, decode(&world, batch));
      world.stream.stream.shared_max = 64u << 10;  // sm_75's
      expect_decode_near(&world, batch, decode(&world, batch));
      EXPECT_SAME_BITS(on_cpu(&world, {{0, 100, 1}}), decode(&world, {{0, 100, 1}})) << world.shape;  // plain kernels have the CPU's order
    }
  }
}

// Kernels without tensor cores follow the CPU's order: while a row sees one part, its bits are the CPU's.
TEST(Decode, PlainPartHasTheCpusBits) {
  for (const auto& [format, head_dim] : {std::pair{KvFormat::kF32, 64u},
                                         {KvFormat::kF32, 24u},
                                         {KvFormat::kF16, 20u},
                                         {KvFormat::kBF16, 4u},
                                         {KvFormat::kI8, 24u},
                                         {KvFormat::kI8, 40u},
                                         {KvFormat::kF8, 24u},
                                         {KvFormat::kF8, 40u},
                                         {KvFormat::kI4, 24u},
                                         {KvFormat::kI4, 64u},
                                         {KvFormat::kI4, 80u}}) {
    for (const float softcap : {0.0f, 2.0f}) {
      World world({6, 1, head_dim, format, 16, softcap > 0 ? 100u : 0u, softcap}, {256}, head_dim);
      fill(&world);
      const Batch batch = {{0, 0, 2}, {0, 14, 4}, {0, 254, 2}};
      EXPECT_SAME_BITS(on_cpu(&world, batch), decode(&world, batch)) << world.shape;
    }
  }
}

// A row of a latent is K and V. Any format; 44 and 28 are no whole groups of int4.
TEST(Decode, LatentsHaveTheCpusBits) {
  for (const KvFormat format : kKvFormats) {
    for (const auto& [k_dim, v_dim] : {std::pair{40u, 32u}, {44u, 28u}, {576u, 512u}}) {
      Shape shape{6, 1, k_dim, format, 32, 0, 0, v_dim};
      shape.latent = true;
      World world(shape, {300}, k_dim);
      fill(&world);
      const Batch batch = {{0, 0, 2}, {0, 14, 1}, {0, 255, 1}, {0, 299, 1}};
      const std::vector<float> got = decode(&world, batch), cpu = on_cpu(&world, batch);
      EXPECT_SAME_BITS(rows_of(world, cpu, 0, 4), rows_of(world, got, 0, 4)) << shape;  // one part each
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], 2e-5) << shape << " " << i;
    }
  }
}

// K and V of unlike formats and dimensions; 20 dimensions of V are no whole pieces, f32 has no tensor cores.
TEST(Decode, UnlikeFormatsAndDimensions) {
  uint32_t seed = 50;
  for (const KvFormats formats : unlike_formats(/*f32=*/true)) {
    for (const Shape& shape :
         {Shape{4, 2, 64, formats, 32}, Shape{3, 1, 80, formats, 16, 0, 2.0f, 48}, Shape{8, 1, 24, formats, 64, 300, 0, 128},
          Shape{11, 1, 128, formats, 256, 40, 0, 32}, Shape{2, 1, 256, formats, 32, 0, 0, 20}}) {
      World world(shape, {530, 41}, ++seed);
      fill(&world);
      const Batch batch = {{0, 0, 2}, {1, 40, 1}, {0, 255, 2}, {0, 529, 1}, {1, 15, 2}};
      const std::vector<float> got = decode(&world, batch), cpu = on_cpu(&world, batch);
      expect_decode_near(&world, batch, got);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], has_bf16(formats) ? 1e-4 : 2e-5) << shape << " " << i;
      const bool plain = !on_tensor_cores(formats.k) || !on_tensor_cores(formats.v) || shape.kv().v.bytes() % 16 != 0;
      if (!plain) continue;
      EXPECT_SAME_BITS(rows_of(world, cpu, 0, 3), rows_of(world, got, 0, 3)) << shape;
    }
  }
}

// Splits into more parts than there are, other rows of the step, blocks of another size: no bit of a row changes.
TEST(Decode, SplitsCompanyAndBlocksDoNotShow) {
  for (const KvFormats formats : some_formats()) {
    for (const uint32_t window : {0u, 270u}) {
      std::vector<float> first;
      for (const uint32_t block_tokens : {16u, 32u, 64u, 128u, 256u}) {
        World world({4, 1, 32, formats, block_tokens, window}, {800, 90}, 5);
        fill(&world);
        const Batch batch = {{1, 3, 1}, {0, 600, 1}, {0, 799, 1}, {1, 89, 1}};
        const std::vector<float> together = decode(&world, batch);
        for (uint32_t i = 0; i < batch.size(); ++i) {
          EXPECT_SAME_BITS(rows_of(world, together, i, 1), decode(&world, {batch[i]}, i)) << world.shape << " row " << i;
        }
        if (first.empty()) first = together;
        EXPECT_SAME_BITS(first, together) << world.shape;
      }
    }
  }
}

// Sinks below, among and above the scores, with one part and with many; where kernels keep the CPU's order, one part has its bits.
TEST(Decode, Sinks) {
  for (const auto& [format, head_dim] :
       {std::pair{KvFormat::kF16, 64u}, {KvFormat::kI8, 32u}, {KvFormat::kF32, 24u}, {KvFormat::kF16, 20u}, {KvFormat::kI4, 64u}}) {
    for (const uint32_t window : {0u, 300u}) {
      Shape shape{6, 2, head_dim, format, 32, window};
      shape.sinks = {-30, -1, 0, 0.5f, 2, 40};
      World world(shape, {700, 41}, head_dim);
      fill(&world);
      for (const Batch& batch : {Batch{{0, 0, 2}, {1, 40, 1}, {0, 254, 3}, {0, 699, 1}}, Batch{{1, 40, 1}, {0, 0, 2}}}) {
        const std::vector<float> got = decode(&world, batch), cpu = on_cpu(&world, batch);
        expect_decode_near(&world, batch, got);
        const bool plain = !on_tensor_cores(format) || head_dim == 20;
        if (!plain) continue;
        EXPECT_SAME_BITS(rows_of(world, cpu, 0, 2), rows_of(world, got, 0, 2)) << shape;
      }
    }
  }
}

// A row has more parts than a warp takes at a time when it merges them.
TEST(Decode, LongContext) {
  World world({2, 1, 16, KvFormat::kF16, 256}, {8700}, 9);
  for (uint32_t row = 8192; row < 8700; ++row) {
    for (uint32_t d = 0; d < 16; ++d) world.k(0, row, 0)[d] *= 3;  // the largest scores come last
  }
  fill(&world);
  const Batch batch = {{0, 8191, 2}, {0, 8699, 1}};
  expect_decode_near(&world, batch, decode(&world, batch));
}

// Slots behind a row's position, stale or never written, and positions before its window: it reads none of them.
TEST(Decode, WhatItDoesNotSeeDoesNotShow) {
  for (const KvFormats formats : some_formats()) {
    const Shape shape{2, 1, 32, formats, 32, 20};
    World only(shape, {300}, 10), more(shape, {300}, 10);
    for (uint32_t row = 0; row < 300; ++row) {
      for (uint32_t d = 0; d < 32 && (row <= 240 || row > 260); ++d) more.k(0, row, 0)[d] *= 50, more.v(0, row, 0)[d] *= 50;
    }
    store(&only, {{0, 241, 20}});
    fill(&more);
    EXPECT_SAME_BITS(decode(&only, {{0, 260, 1}}), decode(&more, {{0, 260, 1}})) << shape;
    if (!cuda::prefill_supported(shape.kv())) continue;
    EXPECT_SAME_BITS(prefill(&only, {{0, 260, 1}}), prefill(&more, {{0, 260, 1}})) << shape;
  }
}

// One large query and values of all sizes: numbers are brought to the range of 16 bits before they are rounded to it.
TEST(Decode, RangesOfSixteenBitNumbers) {
  for (const KvFormats formats : some_formats()) {
    World world({2, 1, 64, formats, 32}, {200}, 6);
    for (uint32_t row = 0; row < 200; ++row) {
      const float size = row % 3 == 0 ? 300.0f : row % 3 == 1 ? 1e-3f : 1.0f;
      for (uint32_t d = 0; d < 64; ++d) {
        world.q(0, row, 0)[d] *= 1e6f;
        world.q(0, row, 1)[d] *= 1e-6f;
        world.k(0, row, 0)[d] *= 1e-6f;
        world.v(0, row, 0)[d] *= size;
      }
    }
    fill(&world);
    const Batch batch = {{0, 199, 1}};
    // Scores are small; V is 100 on the average.
    expect_near(&world, batch, decode(&world, batch), Queries::kExact, 1e-4, has_bf16(formats) ? 0x1p-14 : 0x1p-19);
  }
}

// ---- prefill

TEST(Prefill, WithinBoundOfFloat64AndOfCpu) {
  uint32_t seed = 100;
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kBF16, KvFormat::kI8, KvFormat::kF8}) {
    for (const Shape& shape : {Shape{2, 2, 64, format, 32}, Shape{3, 1, 80, format, 16, 0, 2.0f}, Shape{4, 1, 128, format, 64, 100},
                               Shape{8, 1, 16, format, 128, 3}, Shape{1, 1, 256, format, 256}, Shape{1, 1, 144, format, 16, 65, 3.0f}}) {
      if (!cuda::prefill_supported(shape.kv())) continue;
      World world(shape, {170, 33, 1}, ++seed);
      fill(&world);
      const Batch batch = {{1, 0, 33}, {0, 60, 110}, {2, 0, 1}};
      const std::vector<float> got = prefill(&world, batch), cpu = on_cpu(&world, batch);
      expect_prefill_near(&world, batch, got);
      // Rows are near the CPU's too, whose queries are not rounded.
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], format == KvFormat::kBF16 ? 3e-2 : 4e-3) << shape << " " << i;
    }
  }
}

TEST(Prefill, UnlikeFormatsAndDimensions) {
  uint32_t seed = 80;
  for (const KvFormats formats : unlike_formats(/*f32=*/false)) {
    if (!on_tensor_cores(formats.k) || !on_tensor_cores(formats.v)) continue;
    for (const Shape& shape :
         {Shape{2, 2, 64, formats, 32}, Shape{3, 1, 80, formats, 16, 0, 2.0f, 48}, Shape{4, 1, 32, formats, 64, 100, 0, 128},
          Shape{2, 1, 128, formats, 256, 3, 0, 16}, Shape{1, 1, 256, formats, 32}}) {
      World world(shape, {170, 33, 1}, ++seed);
      fill(&world);
      const Batch batch = {{1, 0, 33}, {0, 60, 110}, {2, 0, 1}};
      const std::vector<float> got = prefill(&world, batch), cpu = on_cpu(&world, batch);
      expect_prefill_near(&world, batch, got);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], cpu[i], has_bf16(formats) ? 3e-2 : 4e-3) << shape << " " << i;
    }
  }
}

// Rows alone, in tiles of any size, in steps of their own, in blocks of any size: the same bits.
TEST(Prefill, TilesChunksAndBlocksDoNotShow) {
  for (const KvFormats formats : some_formats()) {
    for (const auto& [head_dim, window] : {std::pair{48u, 0u}, {128u, 70u}, {192u, 20u}}) {
      std::vector<float> first;
      for (const uint32_t block_tokens : {16u, 64u, 256u}) {
        const Shape shape{2, 1, head_dim, formats, block_tokens, window};
        if (!cuda::prefill_supported(shape.kv())) continue;
        World world(shape, {150, 20}, 7);
        fill(&world);
        const std::vector<float> whole = prefill(&world, {{0, 0, 150}});
        if (first.empty()) first = whole;
        EXPECT_SAME_BITS(first, whole) << world.shape;
        const uint32_t tile = block_tokens == 16 ? 1 : block_tokens == 64 ? 7 : 50;
        EXPECT_SAME_BITS(whole, prefill(&world, {{0, 0, 150}}, tile)) << world.shape << " tile " << tile;
        const std::vector<float> later = prefill(&world, {{1, 3, 9}, {0, 77, 60}});
        EXPECT_SAME_BITS(rows_of(world, whole, 77, 60), rows_of(world, later, 9, 60)) << world.shape;
      }
    }
  }
}

TEST(Prefill, Sinks) {
  for (const KvFormats formats : {KvFormats(KvFormat::kF16), {KvFormat::kBF16}, {KvFormat::kI8}, {KvFormat::kF8, KvFormat::kBF16}}) {
    for (const uint32_t window : {0u, 30u}) {
      Shape shape{6, 2, 64, formats, 32, window};
      shape.sinks = {-30, -1, 0, 0.5f, 2, 40};
      World world(shape, {150}, 5);
      fill(&world);
      const std::vector<float> whole = prefill(&world, {{0, 0, 150}});
      expect_prefill_near(&world, {{0, 0, 150}}, whole);
      EXPECT_SAME_BITS(whole, prefill(&world, {{0, 0, 150}}, 7)) << shape;
    }
  }
}

// K and V of a later position of the same step are nothing to a row, be they infinite.
TEST(Prefill, UnseenInfinitiesDoNotShow) {
  for (const KvFormats formats :
       {KvFormats(KvFormat::kF16), {KvFormat::kBF16}, {KvFormat::kI8, KvFormat::kF16}, {KvFormat::kF8, KvFormat::kBF16}}) {
    World world({2, 1, 64, formats, 16}, {100}, 8);
    fill(&world);
    const std::vector<float> want = prefill(&world, {{0, 0, 100}});
    world.v(0, 83, 0)[5] = INFINITY;
    world.k(0, 90, 0)[7] = NAN;
    fill(&world);
    for (const uint32_t tile : {64u, 30u}) {
      const std::vector<float> got = prefill(&world, {{0, 0, 100}}, tile);
      EXPECT_SAME_BITS(rows_of(world, want, 0, 83), rows_of(world, got, 0, 83));
      for (const uint32_t row : {83u, 89u, 99u}) EXPECT_FALSE(std::isfinite(rows_of(world, got, row, 1)[5])) << row;
    }
  }
}

// Tiles that see most keys come first in the list, of whichever sequence they are.
TEST(Prefill, LongestTilesComeFirst) {
  auto context = std::move(cuda::DeviceContext::open(0)).value();
  cuda::StepArrays arrays;
  TestStream stream;
  const std::vector<int32_t> blocks(40);
  std::vector<StepSeq> seqs;
  std::vector<int32_t> positions;
  for (const auto& [first, n] : {std::pair{0, 150}, {900, 70}, {300, 5}, {250, 64}, {0, 1}}) {
    seqs.push_back({static_cast<uint32_t>(positions.size()), static_cast<uint32_t>(n), first, blocks.data(), 40});
    for (int32_t i = 0; i < n; ++i) positions.push_back(first + i);
  }
  const std::vector<int32_t> tokens(positions.size());
  bool moved = false;
  ASSERT_TRUE(arrays.put(context.get(), stream, {seqs, tokens, positions, {}}, &moved).is_ok());
  std::vector<cuda::PrefillTile> tiles(arrays.n_tiles());
  ASSERT_EQ(cudaStreamSynchronize(stream.stream.handle), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(tiles.data(), arrays.tiles(), tiles.size() * sizeof(cuda::PrefillTile), cudaMemcpyDeviceToHost), cudaSuccess);
  std::vector<int32_t> keys;
  for (const cuda::PrefillTile& tile : tiles) keys.push_back(tile.first_position + static_cast<int32_t>(tile.n));
  EXPECT_EQ(keys, (std::vector<int32_t>{970, 964, 314, 305, 150, 128, 64}));
}

#ifdef KVRT_CUDA_EMULATION
// And the kernel begins them in that order. Emulated, blocks run one after the other: of two tiles of the same rows, the output of the last
// one stays. Backwards that is the first.
TEST(Prefill, BeginsTilesInTheirOrder) {
  for (const uint32_t head_dim : {64u, 128u}) {
    World world({2, 1, head_dim}, {300}, 3);
    fill(&world);
    const Batch batch = {{0, 200, 16}};
    const BatchOnDevice on(&world, batch);
    const cuda::PrefillTile longest{0, 16, 200}, shortest{0, 16, 0};
    const auto run = [&](const std::vector<cuda::PrefillTile>& tiles) {
      const DeviceArray<cuda::PrefillTile> on_device(tiles);
      const DeviceArray<float> out(uint64_t{16} * world.shape.q_width());
      cuda::prefill_attention(world.stream, world.shape.kv(), world.pool.get(), kLayer, on.step, on_device.get(),
                              static_cast<uint32_t>(tiles.size()), world.shape.params(), on.x.get(), world.shape.stride(), out.get());
      return out.to_host();
    };
    EXPECT_NE(first_difference(run({longest}), run({shortest})), -1);
    const bool backwards = emulation::modes_of_environment().order == emulation::Order::kBackwards;
    EXPECT_SAME_BITS(run({longest, shortest}), run({backwards ? longest : shortest}));
  }
}
#endif

TEST(Prefill, SaysWhatItSupports) {
  EXPECT_TRUE(cuda::prefill_supported({1, 1, 80, 32, KvFormat::kF16}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, 80, 32, KvFormat::kF32}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, {64, KvFormat::kI8}, {64, KvFormat::kI4}, 32}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, 24, 32, KvFormat::kF16}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, 512, 32, KvFormat::kI8}));
  EXPECT_TRUE(cuda::prefill_supported({1, 1, 128, 32, KvFormat::kF8}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, 144, 32, KvFormat::kF8}));
  EXPECT_TRUE(cuda::prefill_supported({1, 1, {128, KvFormat::kI8}, {64, KvFormat::kF16}, 32}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, {128, KvFormat::kI8}, {64, KvFormat::kF32}, 32}));
  EXPECT_FALSE(cuda::prefill_supported({1, 1, {64, KvFormat::kF16}, {272, KvFormat::kI8}, 32}));
}

// ---- the store

// The CPU's bytes, of extremes too, in every slot of the pool; rows whose K and V are there already write nothing.
void expect_cpus_bytes(const Shape& shape) {
  World world(shape, {37, 20}, shape.head_dim);
  const uint32_t last = shape.kv_heads - 1;
  const float extremes[] = {65520.0f, 1e-7f, 2049.0f, 0.0f, -65519.0f, 1e-40f, 3.4e38f, INFINITY, -INFINITY, NAN};
  for (uint32_t i = 0; i < std::size(extremes); ++i) {
    world.k(0, i, 0)[5] = world.v(0, i, last)[6] = extremes[i];
  }
  for (uint32_t d = 0; d < shape.v_dim; ++d) world.v(0, 20, 0)[d] = 0, world.v(0, 21, 0)[d] *= 1e-6f;
  for (uint32_t d = 0; d < shape.head_dim; ++d) {
    world.k(0, 22, last)[d] *= 1e9f;
    world.k(0, 23, 0)[d] = d % 2 == 0 ? 0.0f : -0.0f;
    world.k(0, 24, last)[d] *= -1e-5f;
  }
  std::vector<uint8_t> want = world.pool.to_host();
  const auto backend = open_backend("scalar");
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t n = i == 0 ? 37 : 19;
    const std::vector<int32_t> positions(n);
    const StepSeq seq{0, n, 0, world.blocks[i].data(), static_cast<uint32_t>(world.blocks[i].size())};
    backend->run({}, [&] {
      backend->kv_store(shape.kv(), want.data(), {kLayer}, {{&seq, 1}, positions, positions, {}}, 0, n, world.k(i, 0, 0), world.v(i, 0, 0),
                        shape.stride());
    });
  }
  store(&world, {{1, 0, 19}, {0, 0, 37}, {1, 19, 1, false}});
  expect_same_bytes(shape, want, world.pool.to_host());
}

TEST(KvStore, HasTheCpusBytes) {
  for (const KvFormats formats : some_formats()) {
    for (const auto& [head_dim, v_dim] : {std::pair{24u, 24u}, {64u, 64u}, {80u, 80u}, {128u, 40u}, {512u, 512u}}) {
      expect_cpus_bytes({2, 2, head_dim, formats, 16, 0, 0, v_dim});
    }
    Shape latent{2, 1, 576, formats, 16, 0, 0, 512};
    latent.latent = true;
    if (formats.k == formats.v) expect_cpus_bytes(latent);
  }
}

}  // namespace
}  // namespace kvrt::test
