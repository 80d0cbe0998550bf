// The length of a host's steps, on a virtual machine that is as slow as a real one: it depends on who waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/base/limits.h"
#include "tests/sim/toy.h"

namespace kvrt::test {
namespace {

constexpr uint64_t kMs = 1'000'000, kFixed = 3 * kMs, kRow = kMs / 2;
constexpr uint32_t kContext = 3000;

// A clock that moves when rows are computed, and by nothing else. CPU time is the wall's over `stretch`.
class SlowEnv final : public ToyEnv {
 public:
  SlowEnv() : ToyEnv(1) {}
  uint64_t now_ns() override { return now_; }
  uint64_t cpu_ns() override { return cpu_; }
  void work(uint64_t ns) { cpu_ += ns, now_ += ns * stretch; }
  uint64_t stretch = 1;

 private:
  uint64_t now_ = 1'000'000'000, cpu_ = 0;
};

class SlowRunner final : public ForwardPass {
 public:
  SlowRunner(SlowEnv* env, uint32_t vocab) : env_(env), vocab_(vocab) {}
  Status run(const Step& step, uint8_t*, float* logits, DrawnToken*) override {
    std::fill_n(logits, step.logits_rows.size() * vocab_, 0.0f);
    steps.push_back(step.n_rows());
    env_->work(kFixed + kRow * step.n_rows());
    return {};
  }
  uint64_t bytes() const override { return 0; }
  std::vector<uint32_t> steps;  // their rows

 private:
  SlowEnv* env_;
  uint32_t vocab_;
};

class Steps : public testing::Test {
 protected:
  void open(uint32_t step_ms_max) {
    RuntimeOptions options;
    options.threads = 1;
    runtime_ = std::move(Runtime::open(options, nullptr, &env_)).value();
    ModelParts parts;
    parts.name = "slow";
    parts.tokenizer = std::move(toy_tokenizer({false, false})).value();
    parts.dims = toy_dims(kContext, parts.tokenizer->vocab_size());
    parts.dims.ff = 1 << 16;  // all a row's cost: attention has no part in it
    auto runner = std::make_unique<SlowRunner>(&env_, parts.dims.vocab);
    runner_ = runner.get();
    EngineOptions o;
    o.step_ms_max = step_ms_max;
    engine_ = std::move(Engine::assemble(runtime_, std::make_unique<LoadedModel>(std::move(parts), nullptr), std::move(runner), o)).value();
    run(prompt(600), -1);  // the speed is known then
  }
  // A session that is to say the next token after so many tokens, which are nobody else's.
  Session* prompt(size_t tokens, bool host_samples = false) {
    SessionOptions o;
    o.share = false;
    Session* s = std::move(engine_->sessions().open(o)).value();
    EXPECT_TRUE(engine_->conversations().append(s, std::vector<int32_t>(tokens, 5)).is_ok());
    GenerateOptions g;
    g.max_tokens = host_samples ? 0 : 1;
    g.host_samples = host_samples;
    g.sampling.temperature = 0;
    EXPECT_TRUE(engine_->driver().begin(s, std::move(g)).is_ok());
    runner_->steps.clear();
    return s;
  }
  void run(Session* s, int32_t timeout_ms) {
    for (Event e; e.type != EventType::kDone;) e = std::move(engine_->driver().next(s, timeout_ms)).value();
    engine_->sessions().close(s);
  }
  void answer(Session* s) {  // to the first question of its host
    for (Event e; e.type != EventType::kLogits;) e = std::move(engine_->driver().next(s, -1)).value();
  }
  uint32_t most_rows() const { return *std::max_element(runner_->steps.begin(), runner_->steps.end()); }
  double longest_ms() const { return static_cast<double>(env_.stretch * (kFixed + kRow * most_rows())) / kMs; }

  SlowEnv env_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Engine> engine_;
  SlowRunner* runner_ = nullptr;
};

TEST_F(Steps, APromptAloneIsComputedInFewSteps) {
  open(0);
  run(prompt(2000), -1);
  EXPECT_EQ(most_rows(), kStepRowsMax);
  EXPECT_LE(runner_->steps.size(), 5u);
  env_.stretch = 4;  // the machine has other work
  run(prompt(2000), -1);
  run(prompt(2000), -1);
  EXPECT_LE(longest_ms(), 500);
  EXPECT_GE(longest_ms(), 250);
}

// A prompt alone may take the time of the caller, at least 50 ms, as for a loop that asks for one step.
TEST_F(Steps, WhoCallsSaysHowLongItWaits) {
  open(0);
  run(prompt(2000), 100);
  EXPECT_LE(longest_ms(), 100);
  EXPECT_GE(longest_ms(), 60);
  for (uint32_t ms : {0, 10, 200}) {
    Session* s = prompt(2000);
    while (runner_->steps.size() < 4) engine_->driver().step(ms);
    EXPECT_LE(longest_ms(), std::max(50u, ms));
    EXPECT_GE(longest_ms(), 0.6 * std::max(50u, ms));
    run(s, -1);
  }
}

TEST_F(Steps, WhoeverGeneratesBesideItWaitsForShortOnes) {
  open(0);
  Session *first = prompt(1000), *second = prompt(1000);  // neither decodes
  run(first, -1);
  EXPECT_LE(longest_ms(), 50);
  run(second, -1);
  // One that waits for its host may go on at any time.
  Session* asks = prompt(40, true);
  answer(asks);
  run(prompt(2000), -1);
  EXPECT_LE(longest_ms(), 50);
  EXPECT_GE(runner_->steps.front(), 32u);
  engine_->sessions().close(asks);
  run(prompt(2000), -1);
  EXPECT_EQ(most_rows(), kStepRowsMax);
}

TEST_F(Steps, TheHostsOwnTimeHoldsForAll) {
  open(20);
  run(prompt(2000), -1);
  EXPECT_LE(longest_ms(), 20);
  EXPECT_GE(longest_ms(), 12);
  env_.stretch = 4;
  run(prompt(1000), -1);
  run(prompt(1000), -1);
  EXPECT_LE(longest_ms(), 20);
}

// As long as nobody decodes, a step has 32 rows, whatever the clock says of the machine.
TEST_F(Steps, AreNotCutToNothing) {
  open(0);
  env_.stretch = 8;
  Session *first = prompt(1000), *second = prompt(1000);
  run(first, -1);
  runner_->steps.pop_back();
  for (uint32_t rows : runner_->steps) EXPECT_GE(rows, 32u);
  run(second, -1);
}

}  // namespace
}  // namespace kvrt::test
