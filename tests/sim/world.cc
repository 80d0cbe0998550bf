#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

namespace kvrt::test {

namespace {

constexpr uint64_t kIdleStepsMax = 20;    // in a row, while some session could run
constexpr uint64_t kOldestWaitsMax = 40;  // steps that compute, none of them for the one that began first
constexpr uint64_t kPassedOverMax = 30;   // steps in a row, of a session that nothing keeps from running
constexpr uint64_t kFinishStepsMax = 20'000;

// A session may give up its own windows to go on: those it computes again.
uint64_t progress_of(const Session& s) {
  const uint64_t n = s.tokens.size();
  if (s.kv.shape.has_states()) return n > 0 ? s.kv.restart(n - 1) : 0;
  return s.kv.shape.has_windows() ? s.kv.ready(n) : s.kv.reusable(n);
}

// The store's warnings are of damage, and nothing is damaged here.
class StrictLog final : public Log {
 public:
  explicit StrictLog(std::string* said) : said_(said) {}
  void write(LogLevel level, std::string_view message) override {
    const bool told = message.find("made logits that are not finite") != std::string_view::npos;  // the toy's are once in a while
    if (level <= LogLevel::kWarn && !told) *said_ = message;
  }

 private:
  std::string* said_;
};

}  // namespace

HostSize some_size(Random* random) {
  HostSize size;
  size.block_tokens = 16u << random->below(2);
  size.context = static_cast<uint32_t>(random->between(40, 260));
  const uint64_t most[] = {3, 8, 24, 100};
  size.blocks = static_cast<uint32_t>(random->between(2, most[random->below(4)]));
  const uint32_t chunks[] = {0, 1, 7, 16, 64, 512}, limits[] = {0, 1, 5, 50};
  size.prefill_chunk = chunks[random->below(6)];
  size.step_ms_max = limits[random->below(4)];
  // Half of the models have windows, in two groups or three, or nothing else.
  const auto window = [&] { return static_cast<uint32_t>(random->between(2, 18)); };  // less than any context
  const uint32_t a = window(), b = a + window();
  const std::vector<uint32_t> windows[] = {{0, 0}, {0, 0}, {0, 0}, {0, a, a}, {a, 0, b}, {a, a}};
  size.windows = windows[random->below(6)];
  // A third have layers of several shapes, latents among them: groups of their own, and padded units. Numbers of their own: a seed stays what it was.
  Random shape(size.context * 1000 + size.blocks);
  for (size_t i = 0, mixed = shape.below(3); mixed == 0 && i < size.windows.size(); ++i) {
    const Heads shapes[] = {{2, 2, 2, 2}, {2, 1, 2, 2}, {1, 1, 10, 10}, {2, 1, 6, 4, /*latent=*/true}};
    size.layer_heads.push_back(shapes[shape.below(4)]);
  }
  // A third have recurrent layers.
  if (shape.below(3) == 0) {
    size.recurrent = static_cast<uint32_t>(shape.between(1, 3));
    const RecurrentDims states[] = {{3, 8, 0, 0, 0}, {4, 32, 2, 1, 8}, {2, 48, 3, 1, 4}, {2, 24, 1, 2, 28}};
    size.state = states[shape.below(4)];
  }
  return size;
}

std::shared_ptr<Engine> open_toy(const std::shared_ptr<Runtime>& runtime, ToyEnv* env, const HostSize& size, ToyText text, uint64_t seed,
                                 ToyRunner** runner) {
  ModelParts parts;
  parts.name = "toy";
  auto tokenizer = toy_tokenizer(text);
  SIM_CHECK(tokenizer.is_ok(), "tokenizer: %s", tokenizer.status().message().c_str());
  parts.tokenizer = std::move(tokenizer).value();
  parts.chat_template = kToyTemplate;
  parts.dims = size.dims(parts.tokenizer->vocab_size());
  auto toy = std::make_unique<ToyRunner>(size.kv().groups, parts.dims.vocab, env, seed);
  *runner = toy.get();
  EngineOptions o;
  o.block_tokens = size.block_tokens;
  o.prefill_chunk = size.prefill_chunk;
  o.kv_bytes_max = (size.units() + size.kv().zero_units()) * size.kv().unit_bytes();
  o.step_ms_max = size.step_ms_max;
  o.windows = Windows::kFreed;
  if (size.context % 2 == 1) o.boundary_every = 40;  // as a long session has them
  auto engine = Engine::assemble(runtime, std::make_unique<LoadedModel>(std::move(parts), runtime->log()), std::move(toy), o);
  SIM_CHECK(engine.is_ok(), "assemble: %s", engine.status().message().c_str());
  return std::move(engine).value();
}

World::World(uint64_t seed, const std::string& dir, Counts* counts, bool trace)
    : random_(seed),
      quota_random_(seed ^ 0x57042),
      draft_random_(seed ^ 0xd4af7),
      counts_(counts),
      dir_(dir),
      env_(seed ^ 0xc10c),
      text_{random_.one_in(2), seed % 5 == 1} {
  setting_.trace = trace;
  RuntimeOptions options;
  options.threads = 1;
  auto runtime = Runtime::open(options, std::make_unique<StrictLog>(&log_), &env_);
  SIM_CHECK(runtime.is_ok(), "engine: %s", runtime.status().message().c_str());
  runtime_ = std::move(runtime).value();
  if (!dir_.empty() && random_.one_in(2)) {
    auto store = runtime_->open_store(runtime_, dir_ + "/" + std::to_string(seed), {});
    SIM_CHECK(store.is_ok(), "store: %s", store.status().message().c_str());
    store_ = std::move(store).value();
    saves_left_ = random_.between(4, 24);
  }
  open_host();
}

World::~World() = default;

void World::open_host() {
  uint32_t block_tokens = size_.block_tokens;
  const std::vector<uint32_t> windows = size_.windows;
  const std::vector<Heads> layer_heads = size_.layer_heads;
  const uint32_t recurrent = size_.recurrent;
  const RecurrentDims state = size_.state;
  size_ = some_size(&random_);
  if (computed_ > 0 || !saved_.empty()) {  // the same model again
    size_.windows = windows, size_.layer_heads = layer_heads;
    size_.recurrent = recurrent, size_.state = state;
  }
  if (engine_ == nullptr && !saved_.empty() && !random_.one_in(4)) size_.block_tokens = block_tokens;  // else the stored KV is of no use
  engine_ = open_toy(runtime_, &env_, size_, text_, random_.next(), &runner_);
  probe_ = std::make_unique<Probe>(engine_.get());
  probe_->salted = true;
  runner_->before = [this](const Step& step, uint8_t*) { before_step(step); };
  setting_ = {
      engine_.get(), &engine_->model().tokenizer(), size_.room(), toy_windows(size_.kv().groups), &random_, counts_, setting_.trace, true,
      setting_.quota};
  setting_.grammars = sim_grammars(*setting_.tokenizer);
  open_drafts();
  oldest_since_ = computed_, idle_steps_ = 0;
  place_ = {};
  std::vector<uint32_t> needed;  // of states the last alone
  for (const KvGroup& group : size_.kv().groups.groups) needed.push_back(group.window);
  if (store_) stored_ = std::make_unique<Stored>(store_.get(), needed);
}

// ---- checks

// Runs in the middle of the engine's step: nothing may be thrown through it.
void World::before_step(const Step& step) {
  ++computed_;
  settle_proposals(false);
  if (step_fault_.empty()) step_fault_ = probe_->check_step(step);
  runner_->salts = probe_->salts();
  std::unordered_map<const Session*, Actor*> by_session;
  for (auto& a : actors_) by_session[a->session()] = a.get();
  const Session* oldest = probe_->oldest_runnable();
  bool oldest_runs = false;
  for (const PlannedSeq& seq : probe_->plan().seqs) {
    by_session[seq.session]->rows += seq.run.end - seq.run.begin;
    oldest_runs |= seq.session == oldest;
  }
  std::pair<uint64_t, uint64_t> place;  // the session, and how far it is
  if (oldest) place = {oldest->generation->order, oldest->kv.reusable(oldest->tokens.size())};
  if (oldest_runs || place != oldest_) oldest_ = place, oldest_since_ = computed_;
  uint64_t most = oldest && probe_->waits_for_other(*oldest) ? kOldestWaitsMax * size_.block_tokens : kOldestWaitsMax;
  if (computed_ - oldest_since_ > most && step_fault_.empty()) step_fault_ = "who began first does not get on";
  if (setting_.trace) std::printf("  %s", probe_->describe().c_str());
  setting_.note("copies before a write", probe_->plan().copies.size());
  setting_.note("blocks of another domain", probe_->plan().clears.size());
  // A state is a block of many units.
  const KvShape shape = size_.kv().shape;
  const uint32_t least = shape.has_states() ? shape.units() : 1;
  for (auto& a : actors_) {
    const Session& s = *a->session();
    bool waits = probe_->waits_for_other(s), short_of_blocks = probe_->blocks_left() < least;
    setting_.note("waits for another's block", waits);
    bool due = s.runnable() && s.generation->warmed && !s.use.in_step() && !waits && !short_of_blocks;
    a->passed_over = due ? a->passed_over + 1 : 0;
    if (a->passed_over > kPassedOverMax && step_fault_.empty()) step_fault_ = "a session that could run does not get its turn";
  }
  setting_.note("holes", probe_->holes());
  setting_.note("steps of several sessions", step.seqs.size() > 1);
  setting_.note("steps", 1);
  note_proposals(step);
  cancel_in_step();
  for (const StepSeq& seq : step.seqs) {
    if (seq.state_to)
      setting_.note(!seq.state_from ? "states begun" : *seq.state_from == *seq.state_to ? "states in place" : "states moved");
  }
}

void World::check(bool deep) {
  settle_proposals(true);
  SIM_CHECK(step_fault_.empty(), "in a step: %s", step_fault_.c_str());
  std::string wrong = probe_->check(deep);
  SIM_CHECK(wrong.empty(), "%s", wrong.c_str());
  SIM_CHECK(runner_->faults == 0, "a row found no KV, or in pieces, or another's");
  check_drafts(deep);
  SIM_CHECK(log_.empty(), "logged: %s", log_.c_str());
  for (const Session* s : probe_->parts().queue.sessions()) {
    SIM_CHECK(!s->use.in_step(), "in a step between steps");
    if (!s->generation || s->generation->finished) continue;
    if (s->mailbox.size() >= 64) setting_.note("paused, unread");
    if (!s->generation->admitted && s->generation->order && s->runnable() && computed_) setting_.note("not admitted yet");
  }
}

// The session that began first lends nothing while it can run. Between two calls: nobody stops and goes on again within one.
void World::check_oldest() {
  const Session* oldest = probe_->oldest_runnable();
  std::pair<uint64_t, uint64_t> place;
  if (oldest && !oldest->generation->progress.recompute_all && !oldest->kv.own_only)
    place = {oldest->generation->order, progress_of(*oldest)};
  if (place.first == place_.first) SIM_CHECK(place.second >= place_.second, "who began first had to give up its blocks");
  place_ = place;
}

void World::count_host() {
  EngineMetrics m = engine_->metrics();
  setting_.note("evictions", m.evictions);
  setting_.note("preemptions", m.counters.preemptions);
  setting_.note("proposed", m.counters.speculated.drafted);
  setting_.note("accepted proposals", m.counters.speculated.accepted);
}

// ---- calls

SessionOptions World::some_session() {
  SessionOptions o;
  if (!random_.one_in(4)) o.store = store_;
  if (random_.one_in(4)) o.domain = "other";
  o.share = !random_.one_in(6);
  return o;
}

void World::open_one() {
  if (actors_.size() < kActorsMax) actors_.push_back(std::make_unique<Actor>(&setting_, some_session(), some_bell()));
}

void World::close_one() {
  if (actors_.empty()) return;
  auto i = actors_.begin() + static_cast<ptrdiff_t>(random_.below(actors_.size()));
  if ((*i)->generating()) setting_.note("closed while generating");
  (*i)->close();
  actors_.erase(i);
}

void World::restart() {
  close_all();
  count_host();
  close_drafts();
  engine_.reset();
  stored_.reset();
  reopen_store();
  open_host();
  for (int n = 0; n < 4; ++n) resume();
  setting_.note("restarts");
}

void World::close_all() {
  while (!actors_.empty()) close_one();
  check(true);
  EngineMetrics m = engine_->metrics();
  SIM_CHECK(m.units_used == 0 && m.sessions == 0, "all is closed, and %zu blocks are held", size_t{m.units_used});
}

// ---- the loop

void World::schedule() {
  EngineMetrics before = engine_->metrics();
  uint32_t could = probe_->parts().queue.runnable_count();
  uint32_t left = engine_->driver().step(0);
  SIM_CHECK(left == probe_->parts().queue.runnable_count(), "step says %u are runnable", left);
  EngineMetrics after = engine_->metrics();
  uint64_t done = 0;
  for (int r = 0; r < 8; ++r) done += after.counters.done[r] - before.counters.done[r];
  bool moved = after.counters.steps > before.counters.steps || done > 0;
  idle_steps_ = moved || !could ? 0 : idle_steps_ + 1;
  SIM_CHECK(idle_steps_ < kIdleStepsMax, "%u sessions can run, and nothing happens", could);
}

void World::read_some(Actor* a) {
  if (a->lazy_until > now_) return;
  if (a->generating() && random_.one_in(200)) a->lazy_until = now_ + 200;
  uint64_t n = random_.one_in(3) ? 80 : random_.between(1, 6);
  while (n-- > 0 && a->read(0)) ++now_;
}

void World::session_step(Actor* a) {
  Actor& s = *a;
  if (s.usable()) save_for_room(a);
  if (store_) squeeze();
  if (random_.one_in(60)) return s.cancel();
  if (!s.usable()) {
    if (s.generating() && random_.one_in(40)) {
      save(a, false);
    } else if (s.generating() && random_.one_in(12)) {
      s.read(-1);
    } else if (random_.one_in(20) || !s.generating()) {
      s.refused();
    } else {
      read_some(a);
    }
    return;
  }
  uint64_t what = random_.below(100);
  if (what < 18) return s.append();
  if (what < 22) return s.append_text();
  if (what < 32) return s.append_message();
  if (what < 34) return s.set_messages();
  if (what < 40) return s.truncate();
  if (what < 43) return s.erase();
  if (what < 49) return s.prefill();
  if (what < 84) return s.begin();
  if (what < 87) return save(a, false);
  if (what < 93) return save(a, true);
  if (what < 94 && s.read(0)) fail("an event while nothing runs");
  if (actors_.size() < kActorsMax) actors_.push_back(s.fork(some_bell()));
}

void World::step() {
  uint64_t what = random_.below(1000);
  Actor* a = some_actor();
  if (setting_.trace) std::printf("step %llu: %llu\n", static_cast<unsigned long long>(now_), static_cast<unsigned long long>(what));
  if (!a || what < 15) {
    open_one();
  } else if (what < 27) {
    close_one();
  } else if (what < 37) {
    resume();
  } else if (what < 39) {
    remove();
  } else if (what < (store_ ? 45 : 41)) {
    restart();
    a = nullptr;
  } else if (what < 60) {
    setting_.note("blocks given up at random", probe_->evict(random_.next()));
  } else if (what < 63) {
    env_.advance(random_.below(100'000'000));
  } else if (what < 400) {
    schedule();
  } else if (what < 650 && a->generating()) {
    read_some(a);
  } else {
    session_step(a);
  }
  if (setting_.trace) std::printf("  %s", probe_->describe().c_str());
  check_oldest();
  bool deep = random_.one_in(8);
  check(deep);
  if (deep) {
    probe_->poison();
    if (draft_) draft_probe_->poison();
    for (auto& actor : actors_) actor->check();
  }
  ++now_;
}

void World::finish_all() {
  for (uint64_t n = 0;; ++n) {
    SIM_CHECK(n < kFinishStepsMax, "a generation whose events are read does not end");
    bool left = false;
    for (auto& a : actors_) {
      while (a->generating() && a->read(0)) {
      }
      left |= a->generating();
    }
    if (!left) return;
    schedule();
    check(n % 16 == 0);
    ++now_;
  }
}

void World::run(uint64_t steps) {
  while (now_ < steps) step();
  if (random_.one_in(2)) finish_all();
  for (auto& a : actors_) a->check();
  close_all();
  count_host();
  setting_.note("calls", now_);
}

}  // namespace kvrt::test
