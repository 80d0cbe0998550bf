// A store that answers late: the engine's lock is free meanwhile, and calls on the sessions that wait for it end well.
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/support/store_proxy.h"
#include "tests/support/store_rig.h"
#include "tests/unit/engine/probe.h"

namespace kvrt {
namespace {

using namespace test;

// Threads come, and go on once the gate is open.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mu_);
    ++came_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for(int threads) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return came_ >= threads; });
  }
  void open() {
    const std::lock_guard lock(mu_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  int came_ = 0;
  bool open_ = false;
};

class LateStore final : public StoreProxy {
 public:
  using StoreProxy::StoreProxy;
  std::vector<uint32_t> find(std::span<const NodeIn> chain) override {
    if (on_find) on_find();
    return StoreProxy::find(chain);
  }
  ChunkState read(const NodeIn& node, uint32_t number, uint32_t layout, std::span<uint8_t> out, std::string* damage) override {
    ++reads;
    return StoreProxy::read(node, number, layout, out, damage);
  }
  std::unique_ptr<OpenName> open_name(std::string_view domain, std::string_view name) override {
    EXPECT_FALSE(BooksOnly::held());
    return StoreProxy::open_name(domain, name);
  }
  std::function<void()> on_find;
  std::atomic<int> reads{0};
};

class EngineLookUp : public testing::Test {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.threads = 1;
    runtime_ = *Runtime::open(options, nullptr);
    store_ = std::make_shared<LateStore>(*runtime_->open_store(runtime_, tmp_.path() + "/s", {}));
    open_engine();
  }
  void open_engine() {
    auto engine = Engine::open(runtime_, {KVRT_SOURCE_DIR "/tests/golden/tiny/llama_gqa_f32.gguf"}, {}, nullptr);
    ASSERT_OK(engine.status());
    engine_ = *engine;
  }
  Session* open_session(bool stored = true) {
    SessionOptions options;
    if (stored) options.store = store_;
    return *engine_->sessions().open(options);
  }
  static std::vector<int32_t> ids(size_t count, int32_t seed) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < count; i++) ids.push_back(static_cast<int32_t>((i * 7 + static_cast<size_t>(seed)) % 50 + 3));
    return ids;
  }
  void begin(Session* session, size_t count, int32_t seed) {
    ASSERT_OK(engine_->conversations().append(session, ids(count, seed)));
    GenerateOptions options;
    options.max_tokens = 3;
    options.ignore_eos = true;
    ASSERT_OK(engine_->driver().begin(session, options));
  }
  Report finish(Session* session) {
    for (;;) {
      auto event = engine_->driver().next(session, -1);
      EXPECT_OK(event.status());
      if (!event.is_ok() || event->type == EventType::kIdle) return {};
      if (event->type == EventType::kDone) return event->report;
    }
  }
  // "ann" has 100 tokens with their KV in the store, and nothing of them is in memory.
  void save_ann() {
    Session* session = open_session();
    begin(session, 100, 1);
    finish(session);
    ASSERT_OK(engine_->conversations().truncate(session, 100));
    ASSERT_OK(engine_->saver().save(session, "ann", {}).status());
    engine_->sessions().close(session);
    engine_.reset();
    open_engine();
  }

  TempDir tmp_{"/dev/shm"};
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<LateStore> store_;
  std::shared_ptr<Engine> engine_;
};

TEST_F(EngineLookUp, ACloseWaitsForItAndOtherCallsDoNot) {
  save_ann();
  Session *looked_up = open_session(), *leader = open_session(false);
  begin(looked_up, 100, 1);
  begin(leader, 20, 5);
  Gate gate;
  store_->on_find = [&] { gate.pass(); };
  std::thread leads([&] { finish(leader); });
  gate.wait_for(1);
  EXPECT_EQ(engine_->metrics().sessions, 2u);  // the lock is free
  EXPECT_EQ(engine_->sessions().info(looked_up).tokens, 100u);
  std::atomic<bool> closed{false};
  std::thread closes([&] {
    engine_->sessions().close(looked_up);
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(closed);
  gate.open();
  closes.join();
  leads.join();
  EXPECT_EQ(engine_->metrics().sessions, 1u);
  engine_->sessions().close(leader);
}

TEST_F(EngineLookUp, ACancelDoesNotWaitAndEndsTheGeneration) {
  save_ann();
  Session* session = open_session();
  begin(session, 100, 1);
  Gate gate;
  store_->on_find = [&] { gate.pass(); };
  Report report;
  std::thread leads([&] { report = finish(session); });
  gate.wait_for(1);
  engine_->driver().cancel(session);
  EXPECT_EQ(engine_->sessions().info(session).state, SessionState::kGenerating);
  gate.open();
  leads.join();
  EXPECT_EQ(report.reason, Reason::kCancelled);
  EXPECT_EQ(report.generated, 0u);
  store_->on_find = nullptr;
  EXPECT_EQ(engine_->sessions().info(session).state, SessionState::kIdle);
  begin(session, 1, 9);
  EXPECT_EQ(finish(session).reason, Reason::kMaxTokens);
  engine_->sessions().close(session);
}

TEST_F(EngineLookUp, TwoResumesOfOneNameAtOnce) {
  save_ann();
  Gate gate;
  store_->on_find = [&] { gate.pass(); };
  Session* resumed[2] = {};
  Report reports[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      SessionOptions options;
      options.store = store_;
      auto session = engine_->resumer().resume(options, "ann", nullptr, &reports[i]);
      EXPECT_OK(session.status());
      resumed[i] = *session;
    });
  }
  gate.wait_for(2);  // both look it up
  gate.open();
  for (auto& thread : threads) thread.join();
  store_->on_find = nullptr;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(reports[i].prompt_tokens, 100u);
    EXPECT_EQ(reports[i].reused_memory + reports[i].reused_disk, 96u);
    EXPECT_EQ(engine_->conversations().tokens(resumed[i]), ids(100, 1));
  }
  std::vector<int32_t> said[2];
  for (int i = 0; i < 2; ++i) {
    begin(resumed[i], 5, 3);
    EXPECT_EQ(finish(resumed[i]).reason, Reason::kMaxTokens);
    said[i] = engine_->conversations().tokens(resumed[i]);
  }
  EXPECT_EQ(said[0], said[1]);
  for (Session* s : resumed) engine_->sessions().close(s);
}

// Under the engine's lock neither a store is asked nor a block copied: builds with assertions catch it.
TEST(EngineLookUpDeathTest, NobodyAsksUnderTheLock) {
#ifndef KVRT_ASSERTS
  GTEST_SKIP() << "a build without assertions";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir tmp("/dev/shm");
  const std::shared_ptr<Runtime> runtime = *Runtime::open({}, nullptr);
  const std::shared_ptr<Store> store = *runtime->open_store(runtime, tmp.path() + "/s", {});
  const std::vector<int32_t> tokens(32, 7);
  const NodeIn node{chain_key({}, tokens), {}, tokens};
  std::vector<uint8_t> bytes(64), device(64);
  EngineLock lock;
  const auto held = [&](const auto& call) {
    Lock hold(lock.mu);
    call();
  };
  EXPECT_DEATH(held([&] { (void)store->find({&node, 1}); }), "BooksOnly::held");
  EXPECT_DEATH(held([&] { (void)store->read(node, 0, 0, bytes, nullptr); }), "BooksOnly::held");
  EXPECT_DEATH(held([&] { (void)store->load("", "ann"); }), "BooksOnly::held");
  EXPECT_DEATH(held([&] { (void)store->open_name("", "ann"); }), "BooksOnly::held");
  EXPECT_DEATH(held([&] { (void)runtime->backend()->download(bytes, device.data()); }), "BooksOnly::held");
#endif
}

// The chunks are removed once they were found: what is read then is a hole, and computed.
TEST_F(EngineLookUp, AChunkThatGoesMeanwhileIsComputed) {
  save_ann();
  Session* fresh = open_session(false);
  begin(fresh, 100, 1);
  finish(fresh);
  const std::vector<int32_t> want = engine_->conversations().tokens(fresh);
  engine_->sessions().close(fresh);
  engine_.reset();
  open_engine();
  Session* session = open_session();
  begin(session, 100, 1);
  class Removes final : public StoreProxy {
   public:
    using StoreProxy::StoreProxy;
    std::vector<uint32_t> find(std::span<const NodeIn> chain) override {
      auto found = StoreProxy::find(chain);
      EXPECT_GT(std::ranges::count_if(found, [](uint32_t groups) { return groups != 0; }), 0);
      EXPECT_OK(store_->remove("", "ann"));
      return found;
    }
  };
  session->store = std::make_shared<Removes>(store_);
  const Report report = finish(session);
  EXPECT_EQ(report.reused_disk, 0u);
  EXPECT_EQ(report.prefilled, 100u);
  EXPECT_EQ(engine_->conversations().tokens(session), want);
  engine_->sessions().close(session);
}

// A session may ask for its autosave while others are looked up, and for its name.
TEST_F(EngineLookUp, AnAutosaveBesideALookUp) {
  save_ann();
  SessionOptions options;
  options.store = store_;
  options.autosave.every_turn = true;
  options.autosave.name = "bea";
  Session* saved = *engine_->sessions().open(options);
  begin(saved, 40, 7);
  finish(saved);
  Session* session = open_session();
  begin(session, 100, 1);
  Gate gate;
  store_->on_find = [&] { gate.pass(); };
  std::thread leads([&] { finish(session); });
  gate.wait_for(1);
  while (engine_->sessions().info(saved).revision == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  gate.open();
  leads.join();
  engine_->sessions().close(saved);
  engine_->sessions().close(session);
}

}  // namespace
}  // namespace kvrt
