// A save's copy of a session's last block: the device gives it without the engine's lock, while the session goes on.
#include <algorithm>
#include <functional>

#include "runtime/compute/kv_layout.h"
#include "runtime/engine/snapshot/saver.h"
#include "runtime/engine/step/step_parts.h"
#include "tests/support/backend_proxy.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

using namespace test;

class TailBackend final : public BackendProxy {
 public:
  using BackendProxy::BackendProxy;
  Status download(std::span<uint8_t> host, const uint8_t* device) override {
    EXPECT_FALSE(BooksOnly::held());
    if (const auto first = std::exchange(on_download, nullptr)) KVRT_TRY(first());
    return BackendProxy::download(host, device);
  }
  std::function<Status()> on_download;  // the first one
};

constexpr uint32_t kTailBlock = 16, kTailTokens = 12, kTailUnits = 8;

class SaveTailTest : public testing::Test {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.threads = 1;
    runtime_ = *Runtime::open(options, nullptr);
    store_ = *runtime_->open_store(runtime_, tmp_.path() + "/s", {});
    model_ = std::move(LoadedModel::open(runtime_.get(), {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr)).value();
    const ModelKv kv = model_kv(model_->dims(), kTailBlock);
    backend_ = std::make_unique<TailBackend>(runtime_->backend());
    auto pool = runtime_->backend()->alloc(kv.unit_bytes() * kTailUnits, false);
    memory_ = std::make_unique<KvMemory>(kv, backend_.get(), std::move(pool).value());
    cache_ = std::make_unique<KvCache>(kTailUnits, kv.shape);
    step_ = std::make_unique<StepParts>(cache_.get(),
                                        StepOptions{.context = 256, .plan = {.prefill_chunk = 16, .rows_max = 16, .logits_max = 4}});
    gate_ = std::make_unique<SessionGate>(runtime_->env(), model_.get(), cache_.get());
    saver_ = std::make_unique<Saver>(&lock_, runtime_.get(), model_.get(), memory_.get(), cache_.get(), &step_->queue, gate_.get());
    session_ = std::make_unique<Session>(kv.shape);
    session_->store = store_;
    for (uint32_t i = 0; i < kTailBlock + kTailTokens; ++i) session_->tokens.push_back(static_cast<int32_t>(i % 40 + 3));
    for (uint32_t i = 0; i < 2; ++i) {
      const BlockId block = cache_->alloc(session_->kv);
      for (uint64_t b = 0; b < kv.unit_bytes(); ++b) memory_->unit(block)[b] = static_cast<uint8_t>(b * 7 + i);
      session_->kv.tables[0].set(i, block, i == 0 ? kTailBlock : kTailTokens);
      cache_->overwritten(block, session_->kv);
    }
    step_->queue.add(session_.get());
    tail_ = session_->kv.tables[0].block(1);
    ASSERT_TRUE(memory_->download(0, cache_->units_of(tail_), &want_).is_ok());
    to_payload(memory_->chunk_of(0).geometry, want_, kTailTokens);
  }
  void TearDown() override {
    step_->queue.remove(session_.get());
    EXPECT_EQ(cache_->used_count(), 0u);
  }
  // The tail's chunk in the store; empty: it has none.
  std::vector<uint8_t> stored_tail() {
    const auto tokens = std::span<const int32_t>(session_->tokens);
    const BlockKey first = chain_key(session_->kv.root, tokens.first(kTailBlock));
    const auto tail = tokens.subspan(kTailBlock, kTailTokens);
    std::vector<uint8_t> bytes(want_.size());
    const ChunkState state = store_->read({chain_key(first, tail), first, tail}, 0, memory_->chunk_of(0).layout(), bytes, nullptr);
    return state == ChunkState::kOk ? bytes : std::vector<uint8_t>();
  }
  uint32_t refs(uint32_t i) const { return cache_->refs(session_->kv.tables[0].block(i)); }

  TempDir tmp_{"/dev/shm"};
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<TailBackend> backend_;
  std::unique_ptr<KvMemory> memory_;
  EngineLock lock_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<StepParts> step_;
  std::unique_ptr<SessionGate> gate_;
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Session> session_;
  BlockId tail_ = kNoBlock;
  std::vector<uint8_t> want_;  // the tail's payload
};

TEST_F(SaveTailTest, AForkAndAWriterMeanwhileDoNotShow) {
  std::unique_ptr<Session> copy;
  backend_->on_download = [&]() -> Status {
    Lock lock(lock_.mu);
    EXPECT_TRUE(session_->use.tail_read());
    EXPECT_EQ(refs(1), 2u);
    copy = std::make_unique<Session>(session_->kv);
    copy->tokens = session_->tokens;
    step_->queue.add(copy.get());
    cache_->share(copy->kv);
    StepPlan plan;
    const KvRun run{kTailBlock + kTailTokens - 1, kTailBlock + kTailTokens, 1};
    for (Session* writer : {session_.get(), copy.get()}) {
      EXPECT_EQ(step_->supply.make_writable(writer, run, &plan), run.end);
      const BlockId own = writer->kv.tables[0].block(1);
      EXPECT_NE(own, tail_);
      std::fill_n(memory_->unit(own), memory_->kv().unit_bytes(), uint8_t{0xcc});
    }
    EXPECT_EQ(plan.copies.size(), 2u);
    for (const BlockCopy& made : plan.copies) cache_->drop(made.from);
    EXPECT_EQ(cache_->refs(tail_), 1u) << "the save's";
    return {};
  };
  auto saved = saver_->save(session_.get(), "ann", {});
  ASSERT_OK(saved.status());
  EXPECT_EQ(saved->tokens, session_->tokens.size());
  EXPECT_FALSE(saved->left_out);
  EXPECT_FALSE(session_->use.tail_read());
  EXPECT_EQ(stored_tail(), want_);
  EXPECT_EQ(session_->stored.tail_end, kTailBlock + kTailTokens);
  EXPECT_EQ(cache_->used_count(), 3u) << "the tail as it was is free: a full block, and two tails";
  step_->queue.remove(copy.get());
}

TEST_F(SaveTailTest, WithoutAWriterTheBlockStaysTheSessions) {
  ASSERT_OK(saver_->save(session_.get(), "ann", {}).status());
  EXPECT_EQ(session_->kv.tables[0].block(1), tail_);
  EXPECT_EQ(refs(0), 1u);
  EXPECT_EQ(refs(1), 1u);
  EXPECT_EQ(stored_tail(), want_);
}

TEST_F(SaveTailTest, ASuspendedSessionHasGivenUpItsBlocks) {
  kvrt::SaveOptions options;
  options.suspend = true;
  ASSERT_OK(saver_->save(session_.get(), "ann", options).status());
  EXPECT_EQ(session_->state, SessionState::kSuspended);
  EXPECT_EQ(cache_->used_count(), 0u);
  EXPECT_EQ(stored_tail(), want_);
}

TEST_F(SaveTailTest, ATailThatTheDeviceDoesNotGiveIsLeftOut) {
  const auto fails = [] { return error(Code::kDevice, Detail::kNone, "it is gone"); };
  backend_->on_download = fails;
  kvrt::SaveOptions whole;
  whole.durability = Durability::kKv;
  EXPECT_EQ(saver_->save(session_.get(), "ann", whole).status().code(), Code::kDevice);
  EXPECT_EQ(store_->stat("", "ann").status().code(), Code::kNotFound);
  EXPECT_FALSE(session_->use.in_save());
  backend_->on_download = fails;
  auto saved = saver_->save(session_.get(), "ann", {});
  ASSERT_OK(saved.status());
  EXPECT_TRUE(saved->left_out);
  EXPECT_EQ(saved->tokens, session_->tokens.size());
  EXPECT_EQ(saved->chunks_written, 1u);
  EXPECT_EQ(session_->stored.tail_end, 0u);
  EXPECT_TRUE(stored_tail().empty());
  EXPECT_EQ(refs(1), 1u);
}

}  // namespace
}  // namespace kvrt
