// KV from a store that makes logits that are not finite: it is dropped and computed again, and nobody meets it a second time.
#include <gtest/gtest.h>

#include "runtime/compute/numerics.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/resources/runtime.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

constexpr uint16_t kNan = 0x7e00, kInfinity = 0x7c00;

struct Way {
  const char* isa;
  KvFormat format;
  bool key;  // the poison is in K, else in V
  uint16_t poison;
};

class Poisoned : public testing::TestWithParam<Way> {
 protected:
  static constexpr uint32_t kTokens = 210, kAnswer = 12;

  std::string dir() const { return tmp_.path() + "/s"; }
  bool open() {
    engine_.reset(), store_.reset(), runtime_.reset();
    RuntimeOptions options;
    options.threads = 1;
    options.isa = GetParam().isa;
    auto runtime = Runtime::open(options, nullptr);
    if (!runtime.is_ok()) return false;
    runtime_ = *runtime;
    store_ = *runtime_->open_store(runtime_, dir(), {});
    EngineOptions engine;
    engine.load.kv_format = GetParam().format;
    engine_ = *Engine::open(runtime_, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, engine, nullptr);
    return true;
  }
  SessionOptions with_store() const {
    SessionOptions options;
    options.store = store_;
    return options;
  }
  static std::vector<int32_t> prompt() {
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < kTokens; i++) ids.push_back(static_cast<int32_t>(i * 7 % 50 + 3));
    return ids;
  }
  std::vector<int32_t> answer(Session* session) {
    GenerateOptions options;
    options.max_tokens = kAnswer;
    options.ignore_eos = true;
    options.generation_prompt = false;
    std::vector<int32_t> tokens;
    EXPECT_OK(engine_->driver().begin(session, options));
    for (;;) {
      auto event = engine_->driver().next(session, -1);
      EXPECT_OK(event.status());
      if (!event.is_ok()) return tokens;
      if (event->type == EventType::kToken) tokens.push_back(event->token);
      if (event->type != EventType::kDone) continue;
      report_ = event->report;
      return tokens;
    }
  }
  // Chunk `index` of session "a" becomes one whose first token's numbers are not, under a right checksum.
  void forge(size_t index) {
    auto saved = store_->load("", "a");
    ASSERT_OK(saved.status());
    const KvGeometry kv = engine_->info().kv.groups.groups[0].unit;
    std::vector<NodeIn> nodes;
    BlockKey parent = saved->root;
    size_t at = 0;
    for (size_t i = 0; i < saved->keys.size(); at += saved->node_tokens[i++]) {
      nodes.push_back({saved->keys[i], parent, std::span<const int32_t>(saved->tokens).subspan(at, saved->node_tokens[i])});
      parent = saved->keys[i];
    }
    const auto layout = 1 + static_cast<uint32_t>(kv.k.format);
    std::vector<uint8_t> payload(kv.block_bytes());
    ASSERT_EQ(store_->read(nodes[index], 0, layout, payload, nullptr), ChunkState::kOk);
    // f16: the elements themselves; int8 and fp8: their scales, which follow. One number per head of the first layer.
    const size_t T = kv.block_tokens, dim = kv.k.dim, keys = kv.kv_heads * dim * T, plane = 2 * keys * kv.k.cell_bytes();
    for (uint32_t head = 0; head < kv.kv_heads; ++head) {
      const size_t scales = plane + ((GetParam().key ? 0 : kv.kv_heads) + head) * T * 2;
      const size_t elements = 2 * (GetParam().key ? head * dim * T : keys + head * T * dim);
      std::memcpy(payload.data() + (kv.k.scale_bytes() ? scales : elements), &GetParam().poison, 2);
    }
    ASSERT_EQ(store_->discard(std::span(nodes).first(index + 1), "to be forged"), index + 1);
    auto save = store_->begin_save(false);
    ASSERT_OK(save.status());
    const uint32_t width = kv.k.cell_bytes();
    ASSERT_OK((*save)->put({nodes[index].key, nodes[index].parent, nodes[index].tokens, layout, width, payload}));
    SessionIn in;
    in.name = "a";
    in.id = saved->id;
    in.revision_seen = saved->revision;
    in.root = saved->root;
    in.nodes = nodes;
    in.token_count = saved->token_count;
    in.block_tokens = saved->block_tokens;
    in.model_id = saved->model_id;
    in.manifest = saved->manifest;
    ASSERT_OK((*save)->commit(in).status());
    ASSERT_TRUE(store_->verify(nullptr)->empty()) << "checksums are right";
  }
  void save_one(std::vector<int32_t>* want) {
    auto session = engine_->sessions().open(with_store());
    ASSERT_OK(session.status());
    ASSERT_OK(engine_->conversations().append(*session, prompt()));
    kvrt::SaveOptions suspend;
    suspend.suspend = true;
    GenerateOptions prefill;
    prefill.prefill_only = true;
    ASSERT_OK(engine_->driver().begin(*session, prefill));
    while (engine_->driver().next(*session, -1)->type != EventType::kDone) {
    }
    ASSERT_OK(engine_->saver().save(*session, "a", {}).status());
    *want = answer(*session);
    ASSERT_EQ(want->size(), kAnswer);
    engine_->sessions().close(*session);
  }

  TempDir tmp_{"/dev/shm"};
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Engine> engine_;
  Report report_;  // of the last answer
};

TEST_P(Poisoned, IsComputedAgainOnceAndForgotten) {
  if (!open()) GTEST_SKIP() << GetParam().isa;
  std::vector<int32_t> want;
  save_one(&want);
  ASSERT_TRUE(open());
  forge(0);
  ASSERT_TRUE(open());
  Report resumed;
  auto one = engine_->resumer().resume(with_store(), "a", nullptr, &resumed);
  ASSERT_OK(one.status());
  ASSERT_GT(resumed.reused_disk, 0u);
  auto other = engine_->resumer().resume(with_store(), "a", nullptr, &resumed);
  ASSERT_OK(other.status());
  EXPECT_EQ(answer(*one), want);
  EXPECT_GT(report_.reused_disk, 0u);
  EXPECT_GE(report_.recomputed, 32u) << "what was reused, at least";
  EXPECT_EQ(report_.reuse_stopped, ReuseStop::kDamaged);
  EXPECT_EQ(report_.reuse_stopped_at, 0u);
  EXPECT_EQ(answer(*other), want) << "who shares the block";
  EXPECT_GT(store_->info()->chunks_damaged, 0u);
  kvrt::SaveOptions over;
  ASSERT_OK(engine_->saver().save(*one, "a", over).status());
  engine_->sessions().close(*one);
  engine_->sessions().close(*other);
  ASSERT_TRUE(open());
  auto healed = engine_->resumer().resume(with_store(), "a", nullptr, &resumed);
  ASSERT_OK(healed.status());
  EXPECT_EQ(resumed.reused_disk, resumed.prompt_tokens - 1) << "the last token has no KV yet";
  (void)answer(*healed);
  EXPECT_EQ(report_.recomputed, 0u);
  engine_->sessions().close(*healed);
}

INSTANTIATE_TEST_SUITE_P(Every, Poisoned,
                         testing::Values(Way{"scalar", KvFormat::kF16, true, kNan}, Way{"scalar", KvFormat::kF16, false, kNan},
                                         Way{"scalar", KvFormat::kF16, false, kInfinity}, Way{"scalar", KvFormat::kI8, true, kNan},
                                         Way{"scalar", KvFormat::kI8, false, kNan}, Way{"avx2", KvFormat::kF16, true, kNan},
                                         Way{"avx2", KvFormat::kF16, false, kNan}, Way{"avx2", KvFormat::kF16, false, kInfinity},
                                         Way{"avx2", KvFormat::kI8, true, kNan}, Way{"avx2", KvFormat::kI8, false, kNan},
                                         Way{"avx512", KvFormat::kF16, true, kNan}, Way{"avx512", KvFormat::kF16, false, kNan},
                                         Way{"avx512", KvFormat::kI8, true, kNan}, Way{"avx512", KvFormat::kF16, false, kInfinity}),
                         [](const auto& p) {
                           return std::string(p.param.isa) + (p.param.format == KvFormat::kF16 ? "F16" : "Int8") +
                                  (p.param.key ? "Key" : "Value") + (p.param.poison == kNan ? "Nan" : "Infinity");
                         });

}  // namespace
}  // namespace kvrt
