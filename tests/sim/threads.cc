// The simulator's threads: each with sessions of its own on one host whose pool is too small for all of them, and one that cancels whom it
// meets. Some draft with another model, of which one thread has sessions, too. Every event is compared with the oracle, as in sim; the host is checked block by block at the end.
//   sim_threads [--seeds K] [--first SEED] [--steps N]     N calls of each thread
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "tests/sim/world.h"

namespace kvrt::test {
namespace {

constexpr int kThreads = 4;
constexpr size_t kOwnMax = 3;  // sessions of a thread

volatile uint64_t current_seed = 0;

void on_alarm(int) {
  char text[64];
  int n = std::snprintf(text, sizeof text, "seed %llu: a call does not come back\n", static_cast<unsigned long long>(current_seed));
  (void)!write(STDOUT_FILENO, text, static_cast<size_t>(n));
  _exit(1);
}

// The sessions that other threads may cancel.
class Register {
 public:
  void add(Session* s) {
    std::lock_guard lock(mu_);
    sessions_.push_back(s);
  }
  void remove(Session* s) {
    std::lock_guard lock(mu_);
    std::erase(sessions_, s);
  }
  // Saves a session beside its thread's own calls. It can be cancelled, not closed, meanwhile.
  void checkpoint_one(Engine* engine, Random* random, Counts* counts) {
    std::lock_guard lock(mu_);
    if (sessions_.empty()) return;
    Session* s = sessions_[random->below(sessions_.size())];
    SaveOptions o;
    o.durability = Durability::kNone;
    o.overwrite = true;
    auto saved = engine->saver().save(s, "s" + std::to_string(random->below(8)), o);
    if (saved.is_ok()) {
      ++(*counts)["checkpoints"];
    } else if (saved.status().code() != Code::kInvalid) {  // it failed
      fail("checkpoint: %s", saved.status().message().c_str());
    }
  }
  void cancel_one(Engine* engine, Random* random) {
    std::lock_guard lock(mu_);
    if (!sessions_.empty()) engine->driver().cancel(sessions_[random->below(sessions_.size())]);
  }

 private:
  std::mutex mu_;
  std::vector<Session*> sessions_;
};

class Worker {
 public:
  Worker(Engine* engine, std::shared_ptr<Store> store, const HostSize& size, uint64_t seed, Register* others,
         std::vector<std::shared_ptr<DraftModel>> drafts)
      : random_(seed), store_(std::move(store)), others_(others) {
    setting_.engine = engine;
    setting_.tokenizer = &engine->model().tokenizer();
    setting_.room = size.room();
    setting_.windows = toy_windows(size.kv().groups);
    setting_.random = &random_;
    setting_.counts = &counts;
    setting_.alone = false;
    setting_.grammars = sim_grammars(*setting_.tokenizer);
    setting_.drafts = std::move(drafts);
  }

  void run(uint64_t steps) {
    try {
      for (uint64_t n = 0; n < steps; ++n) step();
      while (!own_.empty()) {
        while (own_.back()->generating() && !random_.one_in(50)) own_.back()->read(-1);
        close_one(own_.size() - 1);
      }
    } catch (const Failure& f) {
      failure = f.what;
    }
  }

  Counts counts;
  std::string failure;

 private:
  void add(std::unique_ptr<Actor> actor) {
    others_->add(actor->session());
    own_.push_back(std::move(actor));
  }
  void close_one(size_t i) {
    others_->remove(own_[i]->session());
    if (own_[i]->generating()) setting_.note("closed while generating");
    own_[i]->close();
    own_.erase(own_.begin() + static_cast<ptrdiff_t>(i));
  }

  void step() {
    if (own_.empty() || (own_.size() < kOwnMax && random_.one_in(8))) {
      SessionOptions o;
      o.share = !random_.one_in(6);
      o.store = store_;
      return add(std::make_unique<Actor>(&setting_, o, nullptr));
    }
    size_t i = random_.below(own_.size());
    Actor& a = *own_[i];
    uint64_t what = random_.below(100);
    if (what < 3) return close_one(i);
    if (what < 8) return (void)setting_.engine->driver().step(static_cast<uint32_t>(random_.below(2)));
    if (what < 10) return others_->cancel_one(setting_.engine, &random_);
    if (store_ && what < 12) return others_->checkpoint_one(setting_.engine, &random_, &counts);
    if (a.generating()) {
      if (what < 60) a.read(-1);
      if (what >= 60 && what < 80) a.read(2);
      if (what >= 80) a.read(0);
      return;
    }
    if (!a.usable()) return close_one(i);
    a.check();
    if (what < 30) return a.append();
    if (what < 36) return a.append_text();
    if (what < 44) return a.truncate();
    if (what < 48) return a.erase();
    if (what < 58) return a.prefill();
    if (what < 64 && own_.size() < kOwnMax) return add(a.fork(nullptr));
    a.begin();
  }

  Random random_;
  Setting setting_;
  std::shared_ptr<Store> store_;
  Register* others_;
  std::vector<std::unique_ptr<Actor>> own_;
};

// Every session that was saved comes back, and its KV is its tokens'.
std::string resume_all(Engine* engine, const std::shared_ptr<Store>& store) {
  std::vector<Session*> sessions;
  std::string wrong;
  auto list = store->list("", false);
  for (const SessionStat& stat : list.is_ok() ? *list : std::vector<SessionStat>()) {
    SessionOptions o;
    o.store = store;
    Report report;
    auto session = engine->resumer().resume(o, stat.name, nullptr, &report);
    if (!session.is_ok()) wrong = session.status().message();
    if (session.is_ok()) sessions.push_back(*session);
    if (wrong.empty()) wrong = Probe(engine).check(true);
  }
  for (Session* s : sessions) engine->sessions().close(s);
  return wrong;
}

bool run_seed(uint64_t seed, uint64_t steps, const std::string& dir, Counts* total) {
  current_seed = seed;
  alarm(300);
  ToyEnv env(seed);
  auto runtime = Runtime::open({}, nullptr, &env);
  if (!runtime.is_ok()) return false;
  Random random(seed);
  HostSize size = some_size(&random);
  size.blocks = static_cast<uint32_t>(random.between(2, 16));
  const ToyText text{random.one_in(2), seed % 5 == 1};
  ToyRunner* runner = nullptr;
  auto engine = open_toy(*runtime, &env, size, text, seed, &runner);
  std::shared_ptr<Store> store;
  if (seed % 2) {
    auto opened = (*runtime)->open_store(*runtime, dir + "/" + std::to_string(seed), {});
    if (!opened.is_ok()) return false;
    store = *opened;
  }
  HostSize other = some_size(&random);
  other.blocks = static_cast<uint32_t>(random.between(2, 12));
  if (random.one_in(2))
    other.windows = size.windows, other.layer_heads = size.layer_heads, other.recurrent = size.recurrent, other.state = size.state;
  ToyRunner* draft_runner = nullptr;
  auto draft = open_toy(*runtime, &env, other, text, seed + 1, &draft_runner);
  auto model = draft->draft_for(*engine);
  if (!model.is_ok()) return false;
  const std::vector<std::shared_ptr<DraftModel>> drafts = {
      std::make_shared<GuessModel>(&env, toy_windows(size.kv().groups), &engine->model().tokenizer(), seed), *model};
  Register all, drafting;
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t t = 0; t < kThreads; ++t)
    workers.push_back(std::make_unique<Worker>(engine.get(), store, size, random.next(), &all, drafts));
  if (seed % 4 < 2)
    workers.push_back(
        std::make_unique<Worker>(draft.get(), nullptr, other, random.next(), &drafting, std::vector<std::shared_ptr<DraftModel>>()));
  {
    std::vector<std::jthread> threads;
    for (auto& w : workers) threads.emplace_back([&w, steps] { w->run(steps); });
  }
  std::string wrong;
  for (auto& w : workers) {
    if (!w->failure.empty()) wrong = w->failure;
    for (const auto& [what, n] : w->counts) (*total)[what] += n;
  }
  if (wrong.empty()) wrong = Probe(engine.get()).check(true);
  if (wrong.empty()) wrong = Probe(draft.get()).check(true);
  if (wrong.empty() && store) wrong = resume_all(engine.get(), store);
  EngineMetrics m = engine->metrics();
  if (wrong.empty() && (m.units_used || m.sessions)) wrong = "all is closed, and blocks are held";
  if (wrong.empty() && (draft->metrics().units_used || !Probe(draft.get()).parts().queue.sessions().empty()))
    wrong = "the draft holds blocks for nobody";
  if (wrong.empty() && (runner->faults || draft_runner->faults)) wrong = "a row found no KV, or in pieces, or another's";
  (*total)["preemptions"] += m.counters.preemptions;
  (*total)["evictions"] += m.evictions;
  (*total)["proposed"] += m.counters.speculated.drafted;
  (*total)["accepted proposals"] += m.counters.speculated.accepted;
  (*total)["steps of a draft"] += draft->metrics().counters.steps;
  (*total)["steps"] += m.counters.steps;
  if (!wrong.empty()) std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
  if (!wrong.empty()) _exit(1);  // sessions that the others still hold cannot be taken down
  return true;
}

}  // namespace
}  // namespace kvrt::test

int main(int argc, char** argv) {
  uint64_t seeds = 20, first = 1, steps = 400;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t value = strtoull(argv[i + 1], nullptr, 10);
    if (!strcmp(argv[i], "--seeds")) seeds = value;
    if (!strcmp(argv[i], "--first")) first = value;
    if (!strcmp(argv[i], "--steps")) steps = value;
  }
  signal(SIGALRM, kvrt::test::on_alarm);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  kvrt::test::Counts counts;
  bool good = true;
  std::string dir = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/kvrt-sim-XXXXXX" : "kvrt-sim-XXXXXX";
  if (!mkdtemp(dir.data())) return 2;
  for (uint64_t seed = first; seed < first + seeds; ++seed) good &= kvrt::test::run_seed(seed, steps, dir, &counts);
  std::filesystem::remove_all(dir);
  for (const auto& [what, n] : counts) std::printf("  %-32s %llu\n", what.c_str(), static_cast<unsigned long long>(n));
  for (const char* what : {"preemptions", "evictions", "recomputed", "done: cancelled", "checkpoints", "done: eos", "done: max_tokens",
                           "forks", "proposed", "accepted proposals", "steps of a draft"}) {
    if (counts[what]) continue;
    std::printf("never: %s\n", what);
    good = false;
  }
  return good ? 0 : 1;
}
