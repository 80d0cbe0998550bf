// How long the engine's lock is held: the CPU time of its holders while sessions are resumed, saved and decoded, all at once.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>

#include "tests/support/golden_rig.h"
#include "tests/support/store_rig.h"
#include "tests/unit/engine/probe.h"

namespace kvrt {
namespace {

using namespace test;

uint64_t thread_cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The mutex guards what it notes.
class HoldTimes final : public HoldWatch {
 public:
  void begin() override { began_ns_ = thread_cpu_ns(); }
  void end() override { times_ns.push_back(thread_cpu_ns() - began_ns_); }
  std::vector<uint64_t> times_ns;

 private:
  uint64_t began_ns_ = 0;
};

// Computes nothing: each token is followed by the same one.
class NoPass final : public ForwardPass {
 public:
  explicit NoPass(uint32_t vocab) : vocab_(vocab) {}
  Status run(const Step& step, uint8_t*, float* logits, DrawnToken*) override {
    std::fill_n(logits, step.logits_rows.size() * vocab_, 0.0f);
    for (size_t row = 0; row < step.logits_rows.size(); ++row) logits[row * vocab_ + 20] = 10;
    return {};
  }
  uint64_t bytes() const override { return 0; }

 private:
  const uint32_t vocab_;
};

constexpr uint32_t kLongTokens = 4000;
#if defined(KVRT_ASSERTS)
constexpr uint64_t kHoldMaxUs = UINT64_MAX;  // slower, as sanitizers are
#else
constexpr uint64_t kHoldMaxUs = 200;
#endif

class HoldTimesTest : public testing::Test {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.threads = 1;
    runtime_ = *Runtime::open(options, nullptr);
    store_ = *runtime_->open_store(runtime_, tmp_.path() + "/s", {});
    open_engine();
  }
  void open_engine() {
    auto file = GgufFile::open(test::tiny("llama_gqa_f32.gguf"));
    ASSERT_OK(file.status());
    auto tiny = LoadedModel::open(runtime_.get(), {test::tiny("llama_gqa_f32.gguf")}, {}, nullptr);
    ASSERT_OK(tiny.status());
    ModelParts parts;
    parts.name = "no pass";
    parts.tokenizer = std::move(make_tokenizer(**file)).value();
    parts.dims = (*tiny)->dims();
    parts.dims.context = 2 * kLongTokens;
    auto pass = std::make_unique<NoPass>(parts.tokenizer->vocab_size());
    EngineOptions engine_options;
    engine_options.kv_bytes_max = uint64_t{256} << 20;
    auto engine = Engine::assemble(runtime_, std::make_unique<LoadedModel>(std::move(parts), nullptr), std::move(pass), engine_options);
    ASSERT_OK(engine.status());
    engine_ = *engine;
  }
  Session* open_session() {
    SessionOptions options;
    options.store = store_;
    return *engine_->sessions().open(options);
  }
  // A session with so many tokens that no other has, and their KV.
  Session* long_session(uint32_t number, uint32_t count) {
    Session* s = open_session();
    std::vector<int32_t> ids;
    for (uint32_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * 7 + number * (i / 32 + 1)) % 50 + 3));
    EXPECT_OK(engine_->conversations().append(s, ids));
    GenerateOptions options;
    options.prefill_only = true;
    EXPECT_OK(engine_->driver().begin(s, options));
    finish(s);
    return s;
  }
  uint64_t measure(uint32_t first);
  void finish(Session* s) {
    for (;;) {
      auto event = engine_->driver().next(s, -1);
      ASSERT_OK(event.status());
      if (event->type == EventType::kDone) return;
    }
  }

  TempDir tmp_{"/dev/shm"};
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Engine> engine_;
};

// The time of 99.9 % of the holds, in microseconds, at most. `first`: another number at each call.
uint64_t HoldTimesTest::measure(uint32_t first) {
  constexpr uint32_t kResumes = 15, kSaves = 8, kDecodes = 8, kAnswer = 400;
  for (uint32_t i = 0; i < kResumes; ++i) {
    Session* s = long_session(first + i, kLongTokens);
    EXPECT_OK(engine_->saver().save(s, "s" + std::to_string(first + i), {}).status());
    engine_->sessions().close(s);
  }
  engine_.reset();
  open_engine();
  HoldTimes holds;
  std::vector<Session*> decoding, saved, resumed(kResumes);
  for (uint32_t i = 0; i < kDecodes; ++i) decoding.push_back(long_session(first + 100 + i, 100));
  for (uint32_t i = 0; i < kSaves; ++i) saved.push_back(long_session(first + 200 + i, kLongTokens));
  Probe::lock(*engine_).mu.watch(&holds);
  std::vector<std::thread> threads;
  for (Session* s : decoding) {
    threads.emplace_back([&, s] {
      GenerateOptions options;
      options.max_tokens = kAnswer;
      options.ignore_eos = true;
      EXPECT_OK(engine_->driver().begin(s, options));
      finish(s);
    });
  }
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = t; i < kResumes; i += 3) {
        SessionOptions options;
        options.store = store_;
        Report report;
        auto session = engine_->resumer().resume(options, "s" + std::to_string(first + i), nullptr, &report);
        ASSERT_OK(session.status());
        EXPECT_EQ(report.reused_disk + report.reused_memory, kLongTokens);
        resumed[i] = *session;
      }
    });
  }
  for (uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = t; i < kSaves; i += 2) EXPECT_OK(engine_->saver().save(saved[i], "t" + std::to_string(first + i), {}).status());
    });
  }
  for (auto& thread : threads) thread.join();
  Probe::lock(*engine_).mu.watch(nullptr);
  for (const auto* sessions : {&decoding, &saved, &resumed}) {
    for (Session* s : *sessions) engine_->sessions().close(s);
  }
  std::vector<uint64_t>& times = holds.times_ns;
  std::ranges::sort(times);
  const auto at = [&](double share) { return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))] / 1000; };
  std::printf("%zu holds: median %zu us, 99 %% %zu us, 99.9 %% %zu us, longest %zu us\n", times.size(), size_t{at(0.5)}, size_t{at(0.99)},
              size_t{at(0.999)}, size_t{at(1)});
  EXPECT_GT(times.size(), 1000u);
  return at(0.999);
}

// Where a machine is shared, the time that others took may count as a holder's: of three tries one has to do.
TEST_F(HoldTimesTest, ResumesSavesAndDecodesTogether) {
  uint64_t least = measure(0);
  for (uint32_t again = 1; again < 3 && least > kHoldMaxUs; ++again) least = std::min(least, measure(1000 * again));
  EXPECT_LE(least, kHoldMaxUs);
}

}  // namespace
}  // namespace kvrt
