// KvLoader over a source of chunks that is no store: a std::map.
#include "runtime/engine/sources/kv_loader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "runtime/compute/kv_layout.h"
#include "runtime/engine/step/step_parts.h"

namespace kvrt {
namespace {

// Keeps chunks by key and number.
class MapSource final : public ChunkSource {
 public:
  std::vector<uint32_t> find(std::span<const NodeIn> chain) override {
    EXPECT_FALSE(BooksOnly::held());
    ++finds;
    std::vector<uint32_t> has(chain.size());
    for (size_t i = 0; i < chain.size(); ++i) {
      for (uint32_t number = 0; number < 3; ++number) has[i] |= chunks.contains({chain[i].key.bytes, number}) ? 1u << number : 0;
    }
    if (const std::function<void()> first = std::exchange(on_find, nullptr)) first();
    return has;
  }
  ChunkState read(const NodeIn& node, uint32_t number, uint32_t, std::span<uint8_t> out, std::string*) override {
    EXPECT_FALSE(BooksOnly::held());
    const auto chunk = chunks.find({node.key.bytes, number});
    if (chunk == chunks.end()) return ChunkState::kAbsent;
    EXPECT_EQ(chunk->second.size(), out.size());
    std::copy(chunk->second.begin(), chunk->second.end(), out.begin());
    return ChunkState::kOk;
  }
  uint32_t layout_of(const NodeIn&, uint32_t) override { return 0; }

  std::map<std::pair<std::array<uint8_t, 32>, uint32_t>, std::vector<uint8_t>> chunks;
  std::function<void()> on_find;  // once
  int finds = 0;
};

constexpr uint32_t kLoaderBlock = 8, kLoaderUnits = 64;

// A pool with a cache, and what loads into it: without a model.
class LoaderRig {
 public:
  explicit LoaderRig(Runtime* runtime, std::vector<uint32_t> windows)
      : kv_(kv_of(windows)),
        memory_(kv_, runtime->backend(), std::move(runtime->backend()->alloc(kv_.unit_bytes() * (kLoaderUnits + 1), false)).value()) {
    for (uint64_t i = 0; i < kv_.unit_bytes() * (kLoaderUnits + 1); ++i) memory_.pool()->data()[i] = 0xee;
    loader_ = std::make_unique<KvLoader>(runtime, &memory_, &cache_, &step_.supply);
  }
  static ModelKv kv_of(const std::vector<uint32_t>& windows) {
    ModelKv kv;
    kv.groups = deal_layers(windows, {1, 2, 16, kLoaderBlock, KvFormat::kF16});
    kv.shape = KvShape(kLoaderBlock);
    kv.shape.n_groups = static_cast<uint32_t>(kv.groups.groups.size());
    for (uint32_t g = 0; g < kv.shape.n_groups; ++g) kv.shape.groups[g] = {kv.groups.groups[g].window, kv.groups.groups[g].tables};
    return kv;
  }

  std::unique_ptr<Session> session(size_t tokens) {
    auto s = std::make_unique<Session>(kv_.shape);
    for (size_t i = 0; i < tokens; ++i) s->tokens.push_back(static_cast<int32_t>(i * 7 % 50));
    step_.queue.add(s.get());
    return s;
  }
  void end(Session* s) {
    Lock lock(lock_.mu);
    step_.queue.remove(s);
  }
  KvLoader::Filled fill(Session* s, ChunkSource* source) {
    Lock lock(lock_.mu);
    s->use.pin();
    const KvLoader::Filled filled = loader_->fill(&lock_, s, source, nullptr);
    s->use.unpin();
    return filled;
  }
  // The bytes of a group's block, as a chunk has them on this device.
  std::vector<uint8_t> bytes(const Session& s, uint32_t group, uint32_t i) {
    std::vector<uint8_t> to;
    EXPECT_TRUE(memory_.download(group, cache_.units_of(s.kv.tables[group].block(i)), &to).is_ok());
    return to;
  }
  // Blocks with random bytes for all of the session's tokens.
  void compute(Session* s) {
    std::mt19937 random(1);
    cache_.extend(&s->kv, s->tokens);
    for (uint32_t g = 0; g < kv_.shape.n_groups; ++g) {
      for (uint32_t i = 0; i * kLoaderBlock < s->tokens.size(); ++i) {
        const BlockId block = cache_.alloc(s->kv, g);
        for (const BlockId unit : cache_.units_of(block)) {
          for (uint64_t b = 0; b < kv_.unit_bytes(); ++b) memory_.unit(unit)[b] = static_cast<uint8_t>(random());
        }
        const auto filled = static_cast<uint32_t>(std::min<size_t>(kLoaderBlock, s->tokens.size() - i * kLoaderBlock));
        cache_.replace(&s->kv, g, i, block, filled);
        if (filled == kLoaderBlock) cache_.seal(&s->kv, s->tokens, g, i);
      }
    }
  }
  // The chunks that a save would write of the session's full blocks.
  void store(const Session& s, MapSource* to) {
    for (uint32_t g = 0; g < kv_.shape.n_groups; ++g) {
      for (uint32_t i = 0; i < s.kv.chain.size(); ++i) {
        std::vector<uint8_t> payload = bytes(s, g, i);
        to_payload(memory_.chunk_of(g).geometry, payload, kLoaderBlock);
        to->chunks[{s.kv.chain[i]->key.bytes, chunk_number(memory_.groups(), g)}] = payload;
      }
    }
  }

  const ModelKv kv_;
  KvMemory memory_;
  EngineLock lock_;
  KvCache cache_{kLoaderUnits, kv_.shape};
  StepParts step_{&cache_, {.context = 1000, .plan = {.prefill_chunk = 16, .rows_max = 16, .logits_max = 4}}};
  std::unique_ptr<KvLoader> loader_;
};

class KvLoaderTest : public testing::TestWithParam<std::vector<uint32_t>> {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.threads = 1;
    runtime_ = *Runtime::open(options, nullptr);
    LoaderRig first(runtime_.get(), GetParam());
    auto s = first.session(44);
    first.compute(s.get());
    first.store(*s, &source_);
    for (uint32_t g = 0; g < first.kv_.shape.n_groups; ++g) {
      for (uint32_t i = 0; i < 5; ++i) want_.push_back(first.bytes(*s, g, i));
    }
    first.end(s.get());
  }

  std::shared_ptr<Runtime> runtime_;
  MapSource source_;
  decltype(MapSource::chunks) lost_;
  std::vector<std::vector<uint8_t>> want_;  // of the full blocks, by group
};

// What a save wrote, a resume has again, to the bit, wherever it comes from.
TEST_P(KvLoaderTest, AMapFillsASession) {
  LoaderRig second(runtime_.get(), GetParam());
  auto s = second.session(44);
  s->stored.resumed_tokens = 44;
  const KvLoader::Filled filled = second.fill(s.get(), &source_);
  EXPECT_EQ(filled.loaded, KvLoader::Loaded::kAll);
  EXPECT_EQ(filled.resident, 0u);
  EXPECT_EQ(s->kv.ready(44), 40u);
  EXPECT_EQ(s->stored.disk_tokens, 40u);
  for (uint32_t g = 0; g < second.kv_.shape.n_groups; ++g) {
    for (uint32_t i = 0; i < 5; ++i) {
      if (s->kv.tables[g].filled(i) == kLoaderBlock) {
        EXPECT_EQ(second.bytes(*s, g, i), want_[g * 5 + i]) << g << " " << i;
      }
    }
  }
  // Another with the same tokens has it from memory.
  auto again = second.session(44);
  const int asked = source_.finds;
  EXPECT_EQ(second.fill(again.get(), &source_).loaded, KvLoader::Loaded::kNothing);
  EXPECT_EQ(again->kv.ready(44), 40u);
  EXPECT_EQ(source_.finds, asked) << "all is resident";
  second.end(again.get());
  second.end(s.get());
}

// Chunks that are gone once they are read stay holes.
TEST_P(KvLoaderTest, AnOldAnswerIsAHole) {
  LoaderRig second(runtime_.get(), GetParam());
  auto s = second.session(44);
  source_.on_find = [&] { lost_.swap(source_.chunks); };
  EXPECT_EQ(second.fill(s.get(), &source_).loaded, KvLoader::Loaded::kAll);
  EXPECT_EQ(s->kv.ready(44), 0u);
  EXPECT_EQ(s->kv.why(0, 44), Hole::kDamaged);
  second.end(s.get());
}

// While the source is asked another session gets the same KV: it is adopted, not read once more.
TEST_P(KvLoaderTest, WhatBecameResidentMeanwhileIsNotRead) {
  LoaderRig second(runtime_.get(), GetParam());
  auto s = second.session(44), other = second.session(44);
  source_.on_find = [&] {
    Lock lock(second.lock_.mu);  // it is free
    second.compute(other.get());
    source_.chunks.clear();
  };
  const KvLoader::Filled filled = second.fill(s.get(), &source_);
  EXPECT_EQ(filled.loaded, KvLoader::Loaded::kNothing);
  EXPECT_EQ(filled.resident, 40u);
  EXPECT_EQ(s->kv.ready(44), 40u);
  EXPECT_EQ(s->stored.disk_tokens, 0u);
  second.end(s.get());
  second.end(other.get());
}

INSTANTIATE_TEST_SUITE_P(Groups, KvLoaderTest,
                         testing::Values(std::vector<uint32_t>{0, 0, 0}, std::vector<uint32_t>{0, 16, 16, 0, 16},
                                         std::vector<uint32_t>{16, 16}));

}  // namespace
}  // namespace kvrt
