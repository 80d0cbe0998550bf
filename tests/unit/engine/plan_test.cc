// The planner against published figures, against counting one by one, and against the allocations of an Engine.
#include "runtime/engine/resources/memory_cost.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "runtime/base/limits.h"
#include "runtime/base/memory.h"
#include "runtime/engine/engine.h"

namespace kvrt {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

ModelCost geometry(uint32_t layers, uint32_t kv_heads, uint32_t head_dim) {
  ModelCost cost;
  cost.dims.layers = layers;
  cost.dims.kv_heads = kv_heads;
  cost.dims.head_dim = head_dim;
  return cost;
}

SessionsPlan plan(const ModelCost& cost, uint32_t block_tokens, const PlanRequest& request, Windows windows = Windows::kKept) {
  auto p = plan_sessions(cost, model_kv(cost.dims, block_tokens, KvFormat::kF16, 0, windows), request);
  EXPECT_TRUE(p.is_ok()) << p.status().message();
  return p.is_ok() ? *p : SessionsPlan{};
}

TEST(Plan, PublishedBytesPerTokenAndContext) {
  const struct {
    uint32_t layers, kv_heads, head_dim;
    uint64_t per_token, gib_at_131072;
  } published[] = {{32, 32, 128, 524'288, 64}, {40, 40, 128, 819'200, 100}, {80, 8, 128, 327'680, 40}};
  for (const auto& c : published) {
    const ModelCost cost = geometry(c.layers, c.kv_heads, c.head_dim);
    for (uint32_t block_tokens : {16, 32, 64, 128, 256}) {
      const ModelKv kv = model_kv(cost.dims, block_tokens);
      EXPECT_EQ(kv.token_bytes(), c.per_token);
      EXPECT_EQ(kv.unit_bytes(), block_tokens * c.per_token);
      const SessionsPlan p = plan(cost, block_tokens, {1, 131'072, 0, c.gib_at_131072 * kGiB});
      EXPECT_EQ(p.session_bytes, c.gib_at_131072 * kGiB);
      EXPECT_EQ(p.total_bytes, c.gib_at_131072 * kGiB);
      EXPECT_EQ(p.sessions_max, 1u);
      EXPECT_EQ(p.context_max, 131'072u);
      EXPECT_EQ(plan(cost, block_tokens, {1, 131'072, 0, c.gib_at_131072 * kGiB - 1}).sessions_max, 0u);
      EXPECT_EQ(plan(cost, block_tokens, {1, 131'072, 0, c.gib_at_131072 * kGiB - 1}).context_max, 131'072u - block_tokens);
    }
  }
}

TEST(Plan, PublishedBlocksAndWaste) {
  const ModelCost cost = geometry(32, 32, 128);
  const SessionsPlan a = plan(cost, 16, {1, 500, 0, kGiB}), b = plan(cost, 16, {1, 1000, 0, kGiB});
  EXPECT_EQ(a.session_units, 32u);
  EXPECT_NEAR(100 * a.used, 97.7, 0.05);
  EXPECT_EQ(b.session_units, 63u);
  EXPECT_NEAR(100 * b.waste, 0.8, 0.05);
  EXPECT_DOUBLE_EQ(a.used + a.waste, 1);
}

TEST(Plan, PublishedSharing) {
  for (uint32_t block_tokens : {16, 32, 64, 128, 256}) {
    const SessionsPlan p = plan(geometry(32, 32, 128), block_tokens, {1000, 3072, 2048, kGiB});
    EXPECT_EQ(p.stored_tokens, 1'026'048u);
    EXPECT_EQ(p.unshared_tokens, 3'072'000u);
    EXPECT_EQ(p.units, 1'026'048u / block_tokens);
  }
}

TEST(Plan, FewerKvHeadsCostInProportion) {
  const uint64_t mha = model_kv(geometry(4, 32, 64).dims, 0).token_bytes();
  EXPECT_EQ(mha, 2u * 4 * 32 * 64 * 2);
  EXPECT_EQ(model_kv(geometry(4, 8, 64).dims, 0).token_bytes(), mha / 4);
  EXPECT_EQ(model_kv(geometry(4, 1, 64).dims, 0).token_bytes(), mha / 32);
  EXPECT_EQ(model_kv(geometry(4, 1, 64).dims, 0).block_tokens(), 32u);
}

// By the models' cards: the layers that see everything cost bytes in every token, those with a window a sum at most.
TEST(Plan, PublishedWindows) {
  const struct {
    const char* name;
    uint32_t layers, period, window, kv_heads, head_dim, context;
    uint64_t lasting;  // bytes a token
  } published[] = {{"Llama 3 8B", 32, 0, 0, 8, 128, 8192, 131'072},
                   {"Gemma 3 27B", 62, 6, 1024, 16, 128, 131'072, 81'920},
                   {"gpt-oss 20B", 24, 2, 128, 8, 64, 131'072, 24'576}};
  for (const auto& c : published) {
    ModelCost cost = geometry(c.layers, c.kv_heads, c.head_dim);
    cost.dims.context = c.context;
    uint64_t windowed = 0;
    for (uint32_t i = 0; c.period > 0 && i < c.layers; ++i) {
      cost.dims.windows.push_back(i % c.period < c.period - 1 ? c.window : 0);
      windowed += cost.dims.windows[i] > 0;
    }
    const uint64_t layer = uint64_t{2} * c.kv_heads * c.head_dim * 2, lasting = (c.layers - windowed) * layer;
    EXPECT_EQ(lasting, c.lasting) << c.name;
    // A session keeps two windows, the rows of a step, and a block or two that a window begins and ends in.
    const uint64_t all = c.context * lasting, kept = windowed > 0 ? c.window + std::max(c.window, kStepRowsMax) : 0;
    const uint64_t bytes = plan(cost, 32, {1, c.context, 0, kGiB}, Windows::kFreed).session_bytes;
    EXPECT_GE(bytes, all + windowed * kept * layer) << c.name;
    EXPECT_LE(bytes, all + windowed * (kept + 2 * 32) * layer * 11 / 10 + (all / 50) * (windowed > 0)) << c.name;
  }
}

// By the models' cards: layers, each so many-th without a window, the last ones without K and V of their own, KV heads and their dimensions.
TEST(Plan, PublishedLayersOfTwoKinds) {
  const struct {
    const char* name;
    uint32_t layers, period, shared, window_heads, full_heads;
    uint64_t windows, lasting;  // bytes a token in layers with a window, and in the others
  } published[] = {{"Gemma 4 E2B", 35, 5, 20, 1, 1, 12 * 1024, 3 * 2048},
                   {"Gemma 4 E4B", 42, 6, 18, 2, 2, 20 * 2048, 4 * 4096},
                   {"Gemma 4 31B", 60, 6, 0, 16, 4, 50 * 16384, 10 * 8192},
                   {"Gemma 4 26B A4B", 30, 6, 0, 8, 2, 25 * 8192, 5 * 4096}};
  for (const auto& c : published) {
    ModelCost cost = geometry(c.layers, c.window_heads, 512);
    ModelDims& d = cost.dims;
    d.context = 131'072;
    d.shared_kv = c.shared;
    for (uint32_t i = 0; i < c.layers; ++i) {
      const bool full = i % c.period == c.period - 1;
      d.windows.push_back(full ? 0 : 512);
      const uint32_t kv = full ? c.full_heads : c.window_heads, dim = full ? 512 : 256;
      d.layer_heads.push_back({32, kv, dim, dim, false, false, i >= d.own_kv()});
    }
    const ModelKv kv = model_kv(d, 32);
    EXPECT_EQ(kv.token_bytes(), c.windows + c.lasting) << c.name;
    EXPECT_EQ(kv.groups.own, c.layers - c.shared) << c.name;
    const uint64_t bytes = plan(cost, 32, {1, d.context, 0, kGiB}, Windows::kFreed).session_bytes;
    EXPECT_GE(bytes, d.context * c.lasting + 1024 * c.windows) << c.name;
    EXPECT_LE(bytes, d.context * c.lasting + (1024 + 2 * 32) * c.windows * 12 / 10 + d.context * c.lasting / 50) << c.name;
  }
}

// DeepSeek-V3's card: 61 layers, 128 heads of 128 + 64 and 128 dimensions, latents of 512 + 64 numbers.
TEST(Plan, PublishedLatents) {
  ModelDims v3;
  v3.layers = 61;
  v3.heads = 128;
  v3.latent = {512, 64, 1536, 128, 128};
  const uint64_t latents = model_kv(v3, 0).token_bytes();
  EXPECT_EQ(latents, 61u * 576 * 2);
  EXPECT_NEAR(static_cast<double>(model_kv(geometry(61, 128, 128).dims, 0).token_bytes()) / static_cast<double>(latents), 56.9, 0.05);
  EXPECT_NEAR(61.0 * 128 * (192 + 128) * 2 / static_cast<double>(latents), 71.1, 0.05);
  const ModelKv kv = model_kv(v3, 0);
  EXPECT_EQ(kv.groups.groups.size(), 1u);
  EXPECT_EQ(kv.unit_bytes(), 32 * latents) << "a block's unit has no padding";
  EXPECT_EQ(model_kv(v3, 0, KvFormat::kF8).token_bytes(), 61u * (576 + 2));
  EXPECT_EQ(model_kv(v3, 0, KvFormat::kI4).token_bytes(), 61u * (576 / 2 + 18 * 2));
  EXPECT_EQ(check_formats(v3, {KvFormat::kI8, KvFormat::kF16}).code(), Code::kInvalid);
  EXPECT_TRUE(check_formats(v3, KvFormat::kI8).is_ok());
}

// Every block of every session is named by its content: the common prefix gives the same name to all.
struct Counted {
  uint64_t blocks = 0, tokens = 0;
};
Counted count_one_by_one(uint64_t sessions, uint64_t n, uint64_t shared, uint64_t block_tokens) {
  std::set<std::pair<uint64_t, uint64_t>> names;  // session or 0, block
  Counted counted;
  for (uint64_t s = 1; s <= sessions; ++s) {
    for (uint64_t b = 0; b * block_tokens < n; ++b) {
      if (!names.insert({(b + 1) * block_tokens <= shared ? 0 : s, b}).second) continue;
      counted.tokens += std::min(block_tokens, n - b * block_tokens);
    }
  }
  counted.blocks = names.size();
  return counted;
}

TEST(Plan, AgreesWithCountingOneByOne) {
  std::mt19937_64 random(20251121);
  for (int round = 0; round < 400; ++round) {
    ModelCost cost = geometry(2, 2, 16);
    cost.weight_bytes = random() % 5000, cost.scratch_bytes = random() % 5000;
    const uint32_t block_tokens = 16u << random() % 5;
    const ModelKv kv = model_kv(cost.dims, block_tokens);
    const uint64_t n = 1 + random() % 700, shared = random() % (n + 1), sessions = 1 + random() % 9;
    const uint64_t memory = 1 + random() % (60 * kv.unit_bytes());
    const SessionsPlan p = plan(cost, block_tokens, {sessions, n, shared, memory});
    const Counted all = count_one_by_one(sessions, n, shared, block_tokens);
    EXPECT_EQ(p.session_units, count_one_by_one(1, n, shared, block_tokens).blocks);
    EXPECT_EQ(p.units, std::max<uint64_t>(all.blocks, kPoolBlocksMin));
    EXPECT_EQ(p.stored_tokens, all.tokens);
    EXPECT_EQ(p.total_bytes, cost.weight_bytes + cost.scratch_bytes + p.units * kv.unit_bytes());
    const auto fits = [&](uint64_t s, uint64_t tokens, uint64_t common) {
      const uint64_t blocks = std::max<uint64_t>(count_one_by_one(s, tokens, common, block_tokens).blocks, kPoolBlocksMin);
      return cost.weight_bytes + cost.scratch_bytes + blocks * kv.unit_bytes() <= memory;
    };
    EXPECT_TRUE(p.sessions_max == kSessionsMax || !fits(p.sessions_max + 1, n, shared));
    EXPECT_TRUE(p.sessions_max == 0 || fits(std::min<uint64_t>(p.sessions_max, 500), n, shared));
    EXPECT_FALSE(fits(1, p.context_max + 1, 0));
    EXPECT_TRUE(p.context_max == 0 || fits(1, p.context_max, 0));
  }
}

TEST(Plan, WhatIsAbsurdIsNamed) {
  ModelCost model = geometry(2, 2, 16);
  model.dims.context = 1024;
  const ModelCost large = geometry(kLayersMax, kHeadsMax, kHeadDimMax);
  const struct {
    const ModelCost* cost;
    PlanRequest request;
    Code code;
    const char* word;
  } cases[] = {
      {&model, {kSessionsMax + 1, 8, 0, 1}, Code::kLimit, "sessions is 65537"},
      {&model, {UINT64_MAX, 8, 0, 1}, Code::kLimit, "sessions"},
      {&model, {1, 1025, 0, 1}, Code::kLimit, "session_tokens is 1025, the model's context is 1024"},
      {&model, {1, UINT64_MAX, 0, 1}, Code::kLimit, "session_tokens"},
      {&model, {1, 10, 11, 1}, Code::kInvalid, "shared_tokens is 11"},
      {&large, {1, 0, 0, 1}, Code::kInvalid, "session_tokens is 0"},
      {&large, {1, uint64_t{kContextMax} + 1, 0, 1}, Code::kLimit, "session_tokens"},
      {&large, {kSessionsMax, kContextMax, 0, 1}, Code::kLimit, "units of KV"},
      {&large, {4'000, kContextMax, 0, 1}, Code::kLimit, "2^64"},
  };
  for (const auto& c : cases) {
    const Status status = plan_sessions(*c.cost, model_kv(c.cost->dims, 256), c.request).take_status();
    EXPECT_EQ(status.code(), c.code) << c.word << ": " << status.message();
    EXPECT_NE(status.message().find(c.word), std::string::npos) << status.message();
  }
  const SessionsPlan p = plan(model, 256, {});  // all defaults
  EXPECT_EQ(p.unshared_tokens, 1024u);
  EXPECT_EQ(p.session_units, 4u);
  EXPECT_EQ(plan(large, 16, {1, 16, 0, UINT64_MAX}).context_max, kContextMax);
}

// The allocator: buffers of an Engine have the planned bytes, for every tiny model and block size.
TEST(Plan, EngineAllocatesWhatWasPlanned) {
  auto runtime = std::move(Runtime::open({1, ""}, nullptr)).value();
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KVRT_SOURCE_DIR "/tests/golden/tiny")) {
    if (entry.path().extension() != ".gguf" || entry.path().stem() == "vocab_only") continue;
    auto file = std::move(GgufFile::open(entry.path().string())).value();
    const ModelCost cost = std::move(model_cost(*file, *runtime->backend())).value();
    for (uint32_t block_tokens : {0, 16, 32, 64, 128, 256}) {
      for (const Windows windows : {Windows::kKept, Windows::kFreed}) {
        const ModelKv kv = model_kv(cost.dims, block_tokens, KvFormat::kF16, 0, windows);
        if (windows == Windows::kFreed && !kv.shape.has_windows()) continue;
        for (const PlanRequest& request : {PlanRequest{}, {1, 1, 0, 0}, {7, 333, 100, 0}}) {
          const SessionsPlan p = plan(cost, block_tokens, request, windows);
          for (uint64_t slack : {uint64_t{0}, kv.unit_bytes() - 1}) {
            EngineOptions o;
            o.block_tokens = block_tokens;
            o.kv_bytes_max = p.kv_bytes + slack;
            o.windows = windows;
            auto engine = Engine::open(runtime, entry.path().string(), o, nullptr);
            ASSERT_TRUE(engine.is_ok()) << engine.status().message();
            const EngineInfo info = (*engine)->info();
            EXPECT_EQ(info.weight_bytes, cost.weight_bytes);
            EXPECT_EQ(info.scratch_bytes, cost.scratch_bytes);
            EXPECT_EQ(info.pool_bytes, p.kv_bytes);
            EXPECT_EQ(info.units, p.units);
            EXPECT_EQ(info.pool_bytes + info.weight_bytes + info.scratch_bytes, p.total_bytes);
          }
        }
      }
    }
    ++models;
  }
  EXPECT_GE(models, 5);
}

TEST(Plan, ThePoolIsFourContextsOrAQuarterOfTheMemory) {
  const ModelKv small = model_kv(geometry(2, 2, 16).dims, 32), large = model_kv(geometry(80, 8, 128).dims, 32);
  EXPECT_EQ(std::move(pool_units(small, 1000, 0, available_memory())).value(), 4u * 32);
  EXPECT_EQ(std::move(pool_units(small, 1, 0, available_memory())).value(), 4u);
  const uint64_t some = std::move(pool_units(large, kContextMax, 0, available_memory())).value() * large.unit_bytes();
  EXPECT_LE(some, std::max(available_memory() / 3, 2 * large.unit_bytes()));
  EXPECT_EQ(std::move(pool_units(small, 1000, 3 * small.unit_bytes() - 1, 0)).value(), 2u);
  const Status status = pool_units(small, 1000, 2 * small.unit_bytes() - 1, 0).take_status();
  EXPECT_EQ(status.code(), Code::kLimit);
  EXPECT_NE(status.message().find("kv_bytes_max"), std::string::npos);
}

}  // namespace
}  // namespace kvrt
