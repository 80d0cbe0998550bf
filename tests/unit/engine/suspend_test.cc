// A session that goes on after its suspend, with a store that had no room for its KV.
#include "runtime/engine/engine.h"
#include "runtime/engine/resources/runtime.h"
#include "tests/support/store_proxy.h"
#include "tests/support/store_rig.h"

namespace kvrt {
namespace {

// A store on a full disk: it takes tokens only.
class FullStore final : public test::StoreProxy {
 public:
  using StoreProxy::StoreProxy;
  Result<std::unique_ptr<Save>> begin_save(bool reuse_chunks, const SavedBy& by) override {
    KVRT_ASSIGN(auto save, StoreProxy::begin_save(reuse_chunks, by));
    return std::unique_ptr<Save>(new TokensOnly(std::move(save)));
  }

 private:
  class TokensOnly final : public Save {
   public:
    explicit TokensOnly(std::unique_ptr<Save> save) : save_(std::move(save)) {}
    std::vector<uint32_t> has(std::span<const NodeIn> chain) override { return save_->has(chain); }
    Status put(const ChunkIn&) override { return error(Code::kNoSpace, Detail::kNone, "the disk is full"); }
    Result<Saved> commit(const SessionIn& session) override { return save_->commit(session); }
    uint64_t bytes_written() const override { return save_->bytes_written(); }
    uint64_t chunks_written() const override { return save_->chunks_written(); }

   private:
    const std::unique_ptr<Save> save_;
  };
};

Report prefill_more(Engine* engine, Session* session, size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<int32_t>(i % 40 + 3);
  EXPECT_OK(engine->conversations().append(session, tokens));
  GenerateOptions options;
  options.prefill_only = true;
  EXPECT_OK(engine->driver().begin(session, options));
  for (;;) {
    auto event = engine->driver().next(session, -1);
    EXPECT_OK(event.status());
    if (!event.is_ok() || event->type == EventType::kDone) return event.is_ok() ? event->report : Report();
  }
}

TEST(EngineSuspend, KvThatTheStoreHadNoRoomForIsNotStored) {
  test::TempDir tmp("/dev/shm");
  RuntimeOptions options;
  options.threads = 1;
  auto runtime = *Runtime::open(options, nullptr);
  auto engine = *Engine::open(runtime, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
  SessionOptions session_options;
  session_options.store = std::make_shared<FullStore>(*runtime->open_store(runtime, tmp.path() + "/s", {}));
  session_options.share = false;  // memory keeps nothing of it
  auto session = engine->sessions().open(session_options);
  ASSERT_OK(session.status());
  EXPECT_EQ(prefill_more(engine.get(), *session, 100).prefilled, 100u);
  kvrt::SaveOptions suspend;
  suspend.suspend = true;
  auto saved = engine->saver().save(*session, "ann", suspend);
  ASSERT_OK(saved.status());
  EXPECT_TRUE(saved->left_out);
  EXPECT_EQ(saved->chunks_written, 0u);
  const Report report = prefill_more(engine.get(), *session, 5);
  EXPECT_EQ(report.reuse_stopped, ReuseStop::kNotStored) << static_cast<int>(report.reuse_stopped);
  EXPECT_EQ(report.reuse_stopped_at, 0u);
  EXPECT_EQ(report.prefilled, 105u);
  engine->sessions().close(*session);
}

// Gives block 1 of the session "ann" an item, and all nodes from it on the keys that follow. *items keeps its list.
void add_item(Store* store, const KvGeometry& kv, std::vector<uint8_t>* items) {
  auto saved = store->load("", "ann");
  ASSERT_OK(saved.status());
  *items = test::one_item(3, 1);
  auto save = store->begin_save();
  ASSERT_OK(save.status());
  std::vector<NodeIn> nodes;
  BlockKey parent = saved->root, was_parent = saved->root;
  size_t at = 0;
  for (size_t i = 0; i < saved->keys.size(); at += saved->node_tokens[i++]) {
    NodeIn node{{}, parent, std::span<const int32_t>(saved->tokens).subspan(at, saved->node_tokens[i])};
    if (i == 1) node.items = *items;
    node.key = chain_key(parent, node.tokens, node.items);
    const auto layout = 1 + static_cast<uint32_t>(kv.k.format);
    std::vector<uint8_t> payload(kv.block_bytes());
    ASSERT_EQ(store->read({saved->keys[i], was_parent, node.tokens}, 0, layout, payload, nullptr), ChunkState::kOk);
    ASSERT_OK((*save)->put({node.key, parent, node.tokens, layout, kv.k.cell_bytes(), payload, {}, 0, node.items}));
    was_parent = saved->keys[i];
    parent = node.key;
    nodes.push_back(node);
  }
  SessionIn in;
  in.name = "ann";
  in.id = saved->id;
  in.revision_seen = saved->revision;
  in.root = saved->root;
  in.nodes = nodes;
  in.token_count = saved->token_count;
  in.block_tokens = saved->block_tokens;
  in.model_id = saved->model_id;
  in.manifest = saved->manifest;
  ASSERT_OK((*save)->commit(in).status());
}

// What a later kvrt's items say is not known here: their KV is computed again, and the session is kept.
TEST(EngineSuspend, KvWithItemsIsAHole) {
  test::TempDir tmp("/dev/shm");
  RuntimeOptions options;
  options.threads = 1;
  auto runtime = *Runtime::open(options, nullptr);
  auto engine = *Engine::open(runtime, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
  SessionOptions session_options;
  session_options.store = *runtime->open_store(runtime, tmp.path() + "/s", {});
  session_options.share = false;
  auto session = engine->sessions().open(session_options);
  ASSERT_OK(session.status());
  prefill_more(engine.get(), *session, 100);
  const std::vector<int32_t> tokens = (*session)->tokens;
  kvrt::SaveOptions suspend;
  suspend.suspend = true;
  ASSERT_OK(engine->saver().save(*session, "ann", suspend).status());
  engine->sessions().close(*session);
  Store* const store = session_options.store.get();
  std::vector<uint8_t> items;
  add_item(store, engine->info().kv.groups.groups[0].unit, &items);
  Report report;
  auto resumed = engine->resumer().resume(session_options, "ann", nullptr, &report);
  ASSERT_OK(resumed.status());
  EXPECT_EQ((*resumed)->tokens, tokens);
  EXPECT_EQ(report.reused_disk, 32u) << "the block before it";
  EXPECT_EQ(prefill_more(engine.get(), *resumed, 5).prefilled, 73u);
  engine->sessions().close(*resumed);
  EXPECT_EQ(store->info()->chunks_damaged, 0u);
  EXPECT_EQ(store->load("", "ann")->node_items[1], items);
  EXPECT_EQ(store->stat("", "ann")->chunks_missing, 0u);
  EXPECT_TRUE(store->verify(nullptr)->empty());
}

}  // namespace
}  // namespace kvrt
