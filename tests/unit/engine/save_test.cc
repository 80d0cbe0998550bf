// A save of the engine, with something going on in its store at the worst moment.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <thread>

#include "runtime/engine/engine.h"
#include "runtime/engine/resources/runtime.h"
#include "runtime/engine/snapshot/manifest.h"
#include "runtime/engine/snapshot/save_plan.h"
#include "tests/support/fault_env.h"
#include "tests/support/store_rig.h"
#include "tests/unit/engine/probe.h"

namespace kvrt {
namespace {

using namespace test;

class EngineSave : public testing::Test {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.threads = 1;
    auto runtime = Runtime::open(options, nullptr, &env_);
    ASSERT_OK(runtime.status());
    runtime_ = *runtime;
    auto store = runtime_->open_store(runtime_, tmp_.path() + "/s", {});
    ASSERT_OK(store.status());
    store_ = *store;
    auto engine = Engine::open(runtime_, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
    ASSERT_OK(engine.status());
    engine_ = *engine;
  }
  Session* open_session() {
    SessionOptions options;
    options.store = store_;
    auto session = engine_->sessions().open(options);
    EXPECT_OK(session.status());
    return *session;
  }
  static std::vector<int32_t> some_ids(size_t count, int32_t seed) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < count; i++) ids.push_back(static_cast<int32_t>((i * 7 + static_cast<size_t>(seed)) % 50 + 3));
    return ids;
  }
  void prefill(Session* session, size_t count, int32_t seed) {
    ASSERT_OK(engine_->conversations().append(session, some_ids(count, seed)));
    GenerateOptions options;
    options.prefill_only = true;
    ASSERT_OK(engine_->driver().begin(session, options));
    for (;;) {
      auto event = engine_->driver().next(session, -1);
      ASSERT_OK(event.status());
      if (event->type != EventType::kDone) continue;
      report_ = event->report;
      return;
    }
  }

  TempDir tmp_{"/dev/shm"};
  FaultPlan plan_;
  FaultEnv env_{posix_env(), &plan_};
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Engine> engine_;
  Report report_;  // of the last prefill
};

// The chunks that a save found in the store are removed before it commits: it writes its own.
TEST_F(EngineSave, SharedChunksRemovedMeanwhile) {
  Session* trunk = open_session();
  prefill(trunk, 100, 1);
  ASSERT_OK(engine_->saver().save(trunk, "trunk", {}).status());
  auto branch = engine_->sessions().fork(trunk, nullptr);
  ASSERT_OK(branch.status());
  prefill(*branch, 60, 2);
  int syncs = 0;
  plan_.on_sync = [&] {
    if (syncs++ == 0) {  // its frames are written
      EXPECT_OK(store_->remove("", "trunk"));
    }
  };
  kvrt::SaveOptions durable;
  durable.durability = Durability::kKv;
  auto saved = engine_->saver().save(*branch, "branch", durable);
  plan_.on_sync = nullptr;
  ASSERT_OK(saved.status());
  EXPECT_GT(syncs, 1) << "one that counted on the trunk's chunks, one that does not";
  EXPECT_EQ(saved->chunks_written, 5u) << "160 tokens";
  auto stat = store_->stat("", "branch");
  ASSERT_OK(stat.status());
  EXPECT_EQ(stat->tokens, 160u);
  EXPECT_EQ(stat->chunks, 5u);
  EXPECT_EQ(stat->chunks_missing, 0u);
  auto faults = store_->verify(nullptr);
  ASSERT_OK(faults.status());
  EXPECT_TRUE(faults->empty());
  engine_->sessions().close(*branch);
  engine_->sessions().close(trunk);
}

// A damaged chunk costs its own tokens alone, also where a step has time for one chunk only.
TEST_F(EngineSave, DamagedChunkInShortSteps) {
  Session* first = open_session();
  prefill(first, 160, 1);
  ASSERT_OK(engine_->saver().save(first, "long", {}).status());
  engine_->sessions().close(first);
  auto engine = Engine::open(runtime_, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
  ASSERT_OK(engine.status());
  engine_ = *engine;  // with nothing resident
  const auto segments = segment_files(tmp_.path() + "/s");
  ASSERT_EQ(segments.size(), 1u);
  auto bytes = test::read_file(segments[0]);
  bytes[400] ^= 0x55;  // within the first frame's payload
  write_file(segments[0], bytes);
  Session* second = open_session();
  env_.tick_ns = 1'000'000'000;
  prefill(second, 160, 1);
  env_.tick_ns = 0;
  EXPECT_EQ(report_.reused_disk, 160u - 32);
  EXPECT_EQ(report_.reuse_stopped, ReuseStop::kDamaged);
  EXPECT_EQ(report_.reuse_stopped_at, 0u);
  engine_->sessions().close(second);
}

// Rows with a right checksum whose manifest is none: verify finds them as a resume would.
TEST_F(EngineSave, VerifyReadsManifests) {
  Session* good = open_session();
  prefill(good, 100, 1);
  ASSERT_OK(engine_->saver().save(good, "good", {}).status());
  engine_->sessions().close(good);
  const Chain chain(token_run(40));
  ASSERT_OK(save_chain(store_.get(), "bad", chain).status());
  EXPECT_TRUE(store_->verify(nullptr)->empty());
  auto faults = store_->verify(nullptr, check_manifest);
  ASSERT_OK(faults.status());
  ASSERT_EQ(faults->size(), 1u);
  EXPECT_EQ((*faults)[0].session, "bad");
  EXPECT_NE((*faults)[0].what.find("manifest"), std::string::npos) << (*faults)[0].what;
}

// A pool that a save holds most of, and two generations that want the rest: one that waits for blocks does not keep the lock from the save.
TEST_F(EngineSave, WaitingForBlocksKeepsNobodyFromTheLock) {
  EngineOptions options;
  options.kv_bytes_max = 6 * engine_->info().kv.unit_bytes();
  auto engine = Engine::open(runtime_, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, options, nullptr);
  ASSERT_OK(engine.status());
  engine_ = *engine;
  Session *saved = open_session(), *older = open_session(), *younger = open_session();
  prefill(saved, 100, 1);
  ASSERT_OK(engine_->conversations().append(older, some_ids(80, 2)));  // three blocks; there are two
  ASSERT_OK(engine_->conversations().append(younger, some_ids(97, 1)));
  GenerateOptions generate;
  generate.max_tokens = 1;
  std::atomic<int> looks{0};
  env_.on_create = [&](const std::string& path) {
    if (path.rfind(".seg") != path.size() - 4) return;
    ASSERT_OK(engine_->driver().begin(older, generate));
    while (engine_->driver().next(older, 200)->type == EventType::kProgress) continue;
    ASSERT_OK(engine_->driver().begin(younger, generate));
    std::atomic<bool> over{false};
    std::jthread looker([&] {
      while (!over) (void)engine_->metrics(), ++looks;
    });
    while (looks == 0) std::this_thread::yield();
    const int before = looks;
    auto event = engine_->driver().next(younger, 500);
    EXPECT_GT(looks - before, 10) << "nobody else had the lock for half a second";
    over = true;
    ASSERT_OK(event.status());
    EXPECT_EQ(event->type, EventType::kNone);
  };
  ASSERT_OK(engine_->saver().save(saved, "ann", {}).status());
  env_.on_create = nullptr;
  for (Session* s : {older, younger}) {
    auto event = engine_->driver().next(s, -1);
    while (event.is_ok() && event->type != EventType::kDone) event = engine_->driver().next(s, -1);
    ASSERT_OK(event.status());
    EXPECT_EQ(event->report.reason, Reason::kMaxTokens);
  }
  for (Session* s : {saved, older, younger}) engine_->sessions().close(s);
}

TEST_F(EngineSave, PinAndTimeToLiveReachTheStore) {
  Session* session = open_session();
  prefill(session, 40, 1);
  kvrt::SaveOptions options;
  options.ttl_seconds = 100;
  ASSERT_OK(engine_->saver().save(session, "ann", options).status());
  auto stat = store_->stat("", "ann");
  ASSERT_OK(stat.status());
  EXPECT_FALSE(stat->pinned);
  EXPECT_EQ(stat->expires_unix_ms, stat->saved_unix_ms + 100'000);
  options.ttl_seconds = 0;
  options.pin = true;
  ASSERT_OK(engine_->saver().save(session, "ann", options).status());
  stat = store_->stat("", "ann");
  EXPECT_TRUE(stat->pinned);
  EXPECT_GT(stat->expires_unix_ms, 0) << "a save without a time to live keeps the one that was set";
  engine_->sessions().close(session);
}

// A save is no activity: after it an idle session is not due again.
TEST_F(EngineSave, AnIdleSessionThatIsSavedIsNotDueAgain) {
  SessionOptions options;
  options.store = store_;
  options.autosave.idle_ms = 1;
  options.autosave.name = "ann";
  auto opened = engine_->sessions().open(options);
  ASSERT_OK(opened.status());
  prefill(*opened, 40, 1);
  while (engine_->sessions().info(*opened).revision == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Probe::autosaves(*engine_).look(*opened), kNever);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  engine_->sessions().close(*opened);
}

// A plan holds the tail until it is copied; if the device does not give it, the plan is without.
TEST_F(EngineSave, APlanIsWithoutATailThatIsNotCopied) {
  KvCache cache(4, 16);
  Session session(16);
  session.tokens = some_ids(20, 1);
  session.kv.tables[0].set(0, cache.alloc(session.kv), 16);
  session.kv.tables[0].set(1, cache.alloc(session.kv), 4);
  SavePlan plan = plan_save(engine_->model(), &cache, &session, SaveTail::kWhole);
  ASSERT_EQ(plan.nodes.size(), 2u);
  EXPECT_EQ(plan.pending_begin, 20u);
  ASSERT_EQ(plan.tail_blocks.size(), 1u);
  EXPECT_EQ(plan.tail_blocks[0].block, session.kv.tables[0].block(1));
  plan.leave_tail(cache.shape());
  EXPECT_EQ(plan.nodes.size(), 1u);
  EXPECT_EQ(plan.needs.size(), 1u);
  EXPECT_EQ(plan.chunks.size(), 1u);
  EXPECT_EQ(plan.pending_begin, 16u);
  EXPECT_EQ(plan.tail_end, 0u);
  cache.release(&session.kv, 0);
}

// A step that ends for want of memory, after a cancel of its generation: nobody commits it, and the generation is over all the same.
TEST_F(EngineSave, ACancelOutlivesAStepWithoutMemory) {
  struct Starved : ForwardPass {
    std::function<void()> meanwhile;
    Status run(const Step&, uint8_t*, float*, DrawnToken*) override {
      meanwhile();
      throw std::bad_alloc();
    }
    uint64_t bytes() const override { return 0; }
  };
  auto model = LoadedModel::open(runtime_.get(), {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
  ASSERT_OK(model.status());
  auto pass = std::make_unique<Starved>();
  Starved* const starved = pass.get();
  auto engine = Engine::assemble(runtime_, std::move(*model), std::move(pass), {});
  ASSERT_OK(engine.status());
  auto session = (*engine)->sessions().open({});
  ASSERT_OK(session.status());
  ASSERT_OK((*engine)->conversations().append(*session, some_ids(20, 1)));
  ASSERT_OK((*engine)->driver().begin(*session, {}));
  starved->meanwhile = [&] { (*engine)->driver().cancel(*session); };
  EXPECT_THROW((void)(*engine)->driver().next(*session, -1), std::bad_alloc);
  auto event = (*engine)->driver().next(*session, 0);
  ASSERT_OK(event.status());
  EXPECT_EQ(event->type, EventType::kDone);
  EXPECT_EQ(event->report.reason, Reason::kCancelled);
  (*engine)->sessions().close(*session);
}

// A generation that fails counts in the times of those that gave a token, if it gave one.
TEST_F(EngineSave, AFailureAfterTheFirstTokenHasTimes) {
  struct Breaks : ForwardPass {
    int passes = 0;
    Status run(const Step& step, uint8_t*, float* logits, DrawnToken*) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (++passes > 3) return error(Code::kDevice, Detail::kNone, "gone");
      std::fill_n(logits, step.logits_rows.size() * vocab, 0.0F);
      return {};
    }
    uint64_t bytes() const override { return 0; }
    size_t vocab = 0;
  };
  auto model = LoadedModel::open(runtime_.get(), {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
  ASSERT_OK(model.status());
  auto pass = std::make_unique<Breaks>();
  pass->vocab = (*model)->dims().vocab;
  auto engine = Engine::assemble(runtime_, std::move(*model), std::move(pass), {});
  ASSERT_OK(engine.status());
  auto session = (*engine)->sessions().open({});
  ASSERT_OK(session.status());
  ASSERT_OK((*engine)->conversations().append(*session, some_ids(20, 1)));
  GenerateOptions options;
  options.ignore_eos = true;
  ASSERT_OK((*engine)->driver().begin(*session, options));
  auto event = (*engine)->driver().next(*session, -1);
  while (event.is_ok()) event = (*engine)->driver().next(*session, -1);
  EXPECT_EQ(event.status().code(), Code::kDevice);
  const Counters counters = (*engine)->metrics().counters;
  EXPECT_EQ(counters.done[static_cast<size_t>(Reason::kFailed)], 1u);
  EXPECT_EQ(counters.first_tokens, 1u);
  EXPECT_GE(counters.ttft_ms, 1) << "a pass takes that long";
  EXPECT_GE(counters.prefill_ms, 1);
  EXPECT_GE(counters.decode_ms, 1);
  (*engine)->sessions().close(*session);
}

// A session that repair made has no time for its template: it gets that of its resume, and an autosave keeps it.
TEST_F(EngineSave, ARecoveredSessionHasOneTime) {
  Session* session = open_session();
  prefill(session, 64, 1);
  ASSERT_OK(engine_->saver().save(session, "ann", {}).status());
  engine_->sessions().close(session);
  auto saved = store_->load("", "ann");
  ASSERT_OK(saved.status());
  ASSERT_EQ(saved->tokens.size(), 64u);
  std::vector<NodeIn> nodes;
  BlockKey parent = saved->root;
  for (size_t i = 0; i < saved->keys.size(); parent = saved->keys[i++]) {
    nodes.push_back({saved->keys[i], parent, std::span<const int32_t>(saved->tokens).subspan(i * 32, 32)});
  }
  auto save = store_->begin_save(true);
  ASSERT_OK(save.status());
  SessionIn in;
  in.name = "ann";
  in.id = saved->id;
  in.revision_seen = saved->revision;
  in.root = saved->root;
  in.nodes = nodes;
  in.token_count = saved->token_count;
  in.block_tokens = saved->block_tokens;
  in.model_id = saved->model_id;
  ASSERT_OK((*save)->commit(in).status());  // without a manifest
  SessionOptions options;
  options.store = store_;
  options.autosave.every_turn = true;
  const int64_t before = env_.unix_ms() / 1000;
  for (int resume = 0; resume < 2; ++resume) {
    Report report;
    auto resumed = engine_->resumer().resume(options, "ann", nullptr, &report);
    ASSERT_OK(resumed.status());
    EXPECT_GE((*resumed)->arguments.now, before);
    EXPECT_LT((*resumed)->arguments.now, before + 1000);
    engine_->sessions().close(*resumed);
    env_.unix_offset_ms += 1'000'000;
  }
}

// A model is hashed once; each store that its sessions use has the hash for the next process.
TEST_F(EngineSave, EveryStoreGetsTheModelsId) {
  const std::shared_ptr<Store> first = store_;
  engine_->sessions().close(open_session());
  auto second = runtime_->open_store(runtime_, tmp_.path() + "/second", {});
  ASSERT_OK(second.status());
  store_ = *second;
  engine_->sessions().close(open_session());
  auto file = GgufFile::open({KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"});
  ASSERT_OK(file.status());
  const auto place = (*file)->parts()[0].identity;
  Hash256 a, b;
  EXPECT_TRUE(first->cached_model_id({place.device, place.inode, file_id(**file)}, &a));
  EXPECT_TRUE(store_->cached_model_id({place.device, place.inode, file_id(**file)}, &b));
  EXPECT_EQ(a, b);
}

// The slots of a tail that have no token take next to no room, whatever the format.
TEST_F(EngineSave, AShortTailIsSmall) {
  Session* session = open_session();
  prefill(session, 3, 1);
  kvrt::SaveOptions whole;
  whole.suspend = true;
  auto saved = engine_->saver().save(session, "short", whole);
  ASSERT_OK(saved.status());
  EXPECT_EQ(saved->chunks_written, 1u);
  const uint64_t kv = 3 * engine_->info().kv.token_bytes();
  EXPECT_LT(saved->bytes_written, kv + kv / 2 + 1024) << "32 tokens take " << 32 * kv / 3;
  engine_->sessions().close(session);
}

}  // namespace
}  // namespace kvrt
