// One script of answers with and without proposals: all events, reports and units are the same.
#include <gtest/gtest.h>

#include <bit>

#include "tests/sim/guess.h"
#include "tests/sim/world.h"

namespace kvrt::test {
namespace {

// All of an event that is not a time, nor a count of proposals.
std::string spell(const Event& e) {
  std::string s = std::to_string(static_cast<uint32_t>(e.type)) + " " + std::to_string(e.token) + " " + std::to_string(e.position) + " '" +
                  e.text + "' " + std::to_string(std::bit_cast<uint32_t>(e.logprob)) + " " + std::to_string(e.done) + "/" +
                  std::to_string(e.total);
  for (const TokenValue& top : e.top) s += " " + std::to_string(top.token) + ":" + std::to_string(std::bit_cast<uint32_t>(top.value));
  const Report& r = e.report;
  for (const uint64_t n : {static_cast<uint64_t>(r.reason), r.prompt_tokens, r.reused_memory, r.reused_disk, r.prefilled, r.generated,
                           static_cast<uint64_t>(r.reuse_stopped), r.reuse_stopped_at, uint64_t{r.stop_string_tokens}, r.seed, r.kv_units,
                           r.kv_bytes, r.pool_bytes.begin, r.pool_bytes.prefilled, r.pool_bytes.end, r.recomputed})
    s += " " + std::to_string(n);
  return s;
}

GenerateOptions some_answer(Random* random, const std::vector<SimGrammar>& grammars) {
  GenerateOptions o;
  o.max_tokens = static_cast<uint32_t>(random->between(1, 60));
  o.sampling.temperature = random->one_in(2) ? 0 : 0.8f;
  o.sampling.seed = 7;
  if (random->one_in(3)) o.sampling.repetition_penalty = 1.3f, o.sampling.frequency_penalty = 0.4f;
  if (random->one_in(4)) o.sampling.penalty_window = 5;
  if (random->one_in(3)) o.sampling.top_logprobs = 3;
  if (random->one_in(3)) o.stop_strings = {"ab", "es"};
  o.ignore_eos = random->one_in(2);
  if (!o.ignore_eos && random->one_in(2)) o.ask.kind = GrammarKind::kGbnf, o.ask.source = grammars[random->below(grammars.size())].source;
  return o;
}

struct Told {
  std::vector<std::string> lines;
  uint64_t drafted = 0, accepted = 0;
};

Told run(uint64_t seed, bool speculates) {
  Told told;
  Random random(seed);
  ToyEnv env(seed);
  auto runtime = std::move(Runtime::open({}, nullptr, &env)).value();
  HostSize size = some_size(&random);
  size.recurrent = 0;
  size.context = 200;
  size.blocks = 40;
  ToyRunner* runner = nullptr;
  const auto engine = open_toy(runtime, &env, size, {false, seed % 5 == 1}, seed, &runner);
  const auto grammars = sim_grammars(engine->model().tokenizer());
  const auto guess = std::make_shared<GuessModel>(&env, toy_windows(size.kv().groups), &engine->model().tokenizer(), seed);
  std::vector<Session*> sessions = {std::move(engine->sessions().open({})).value()};
  for (int turn = 0; turn < 4; ++turn) {
    Session* s = sessions.back();
    std::vector<int32_t> prompt(random.between(1, 30));
    for (int32_t& token : prompt) token = static_cast<int32_t>(random.below(engine->model().tokenizer().vocab_size()));
    GenerateOptions o = some_answer(&random, grammars);
    const bool unread = random.one_in(3);
    const uint64_t proposals = random.between(1, kDraftTokensMax);
    if (speculates) o.speculation = {turn % 2 == 0, "abab tide mist", guess, kDraftTokensMax, static_cast<uint32_t>(proposals)};
    told.lines.emplace_back(engine->conversations().append(s, prompt).message());
    if (!engine->driver().begin(s, o).is_ok()) break;
    while (unread && engine->driver().step(0) > 0) continue;
    for (;;) {
      auto event = engine->driver().next(s, -1);
      if (event.is_ok() && event->type == EventType::kProgress) continue;  // by the clock
      told.lines.push_back(event.is_ok() ? spell(*event) : event.status().message());
      if (event.is_ok() && event->type != EventType::kDone) continue;
      if (event.is_ok()) told.drafted += event->report.drafted, told.accepted += event->report.accepted;
      break;
    }
    const SessionInfo info = engine->sessions().info(s);
    told.lines.push_back(std::to_string(info.tokens) + " tokens, " + std::to_string(info.kv_tokens) + " with KV, units " +
                         std::to_string(info.kv_units) + ", used " + std::to_string(engine->metrics().units_used));
    const std::string wrong = Probe(engine.get()).check(true);
    EXPECT_EQ(wrong, "");
    if (info.state != SessionState::kIdle) break;
    if (turn == 1) sessions.push_back(std::move(engine->sessions().fork(s, nullptr)).value());
  }
  EXPECT_EQ(runner->faults, 0u);
  for (Session* s : sessions) engine->sessions().close(s);
  EXPECT_EQ(engine->metrics().units_used, 0u);
  return told;
}

TEST(Speculation, ChangesNothing) {
  uint64_t drafted = 0, accepted = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Told plain = run(seed, false), told = run(seed, true);
    ASSERT_EQ(told.lines.size(), plain.lines.size()) << "seed " << seed;
    for (size_t i = 0; i < plain.lines.size(); ++i) ASSERT_EQ(told.lines[i], plain.lines[i]) << "seed " << seed;
    drafted += told.drafted;
    accepted += told.accepted;
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(drafted, accepted + 500);
}

}  // namespace
}  // namespace kvrt::test
