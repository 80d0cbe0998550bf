// World: one seed's host, store and actors, and the random calls on them. A step is one call on the engine: an operation of a session, the
// taking of one event, or one step of the model. Single-threaded: a seed gives the same run every time.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/engine/resources/memory_cost.h"
#include "tests/sim/actor.h"
#include "tests/sim/guess.h"
#include "tests/sim/probe.h"
#include "tests/sim/stored.h"
#include "tests/sim/toy.h"

namespace kvrt::test {

// A toy host of random size over `env`. runner: of the host, for its hook.
struct HostSize {
  uint32_t block_tokens = 16, blocks = 8, context = 200, prefill_chunk = 0, step_ms_max = 0;
  std::vector<uint32_t> windows = {0, 0};  // by layer
  uint32_t recurrent = 0;                  // layers more, with such a state
  RecurrentDims state;
  std::vector<Heads> layer_heads;  // likewise, or empty
  ModelKv kv() const { return model_kv(dims(0), block_tokens, KvFormat::kF16, prefill_chunk, Windows::kFreed); }
  ModelDims dims(uint32_t vocab) const { return toy_dims(context, vocab, windows, layer_heads, recurrent, state); }
  uint64_t units() const { return blocks * kv().shape.units(); }
  uint64_t room() const { return std::min<uint64_t>(context, kv().shape.tokens_in(units())); }
};
HostSize some_size(Random* random);
std::shared_ptr<Engine> open_toy(const std::shared_ptr<Runtime>& runtime, ToyEnv* env, const HostSize& size, ToyText text, uint64_t seed,
                                 ToyRunner** runner);

class World {
 public:
  World(uint64_t seed, const std::string& dir, Counts* counts, bool trace);
  ~World();
  uint64_t now() const { return now_; }
  std::string describe() const { return probe_->describe(); }
  void run(uint64_t steps);  // and to the end: every generation gets to DONE, everything is closed, and no block is held

 private:
  static constexpr uint64_t kActorsMax = 10;
  void open_host();
  void close_all();
  void restart();
  void reopen_store();
  void check_store(const std::string& domain, const std::string& name);
  void step();
  void session_step(Actor* actor);
  void save(Actor* actor, bool suspend);
  void save_for_room(Actor* actor);
  void squeeze();
  std::vector<uint64_t> blocks_held() const;  // by session; and how many were evicted
  void resume();
  void remove();
  void open_one();
  void close_one();
  void schedule();
  void read_some(Actor* actor);
  void finish_all();
  void open_drafts();
  void close_drafts();
  void check_drafts(bool deep);
  void before_step(const Step& step);
  void note_proposals(const Step& step);
  void settle_proposals(bool between_steps);
  void cancel_in_step();
  void check(bool deep);
  void check_oldest();
  void count_host();
  SessionOptions some_session();
  std::shared_ptr<Bell> some_bell() { return random_.one_in(2) ? std::make_shared<Bell>() : nullptr; }
  Actor* some_actor() { return actors_.empty() ? nullptr : actors_[random_.below(actors_.size())].get(); }

  Random random_, quota_random_, draft_random_;  // the second: of the store's size
  Counts* counts_;
  uint64_t now_ = 0;  // steps so far
  std::string dir_;
  std::string log_;  // the last warning
  ToyEnv env_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Stored> stored_;
  HostSize size_;
  ToyText text_;
  Setting setting_;
  std::shared_ptr<Engine> engine_;
  ToyRunner* runner_ = nullptr;
  std::unique_ptr<Probe> probe_;
  // Another model that drafts, or none, with a pool of its own.
  std::shared_ptr<Engine> draft_;
  ToyRunner* draft_runner_ = nullptr;
  std::unique_ptr<Probe> draft_probe_;
  // A session in the step with proposals, as it was before.
  struct Proposing {
    const Session* session;
    const Generation* generation;
    std::vector<int32_t> proposed;
    uint64_t tokens, accepted;
  };
  std::vector<Proposing> proposing_;
  std::string step_fault_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::map<std::pair<std::string, std::string>, Saved> saved_;  // by domain and name
  uint64_t saves_left_ = 0;
  uint64_t idle_steps_ = 0;                       // the model's steps in a row that did nothing
  uint64_t computed_ = 0;                         // that computed something
  std::pair<uint64_t, uint64_t> oldest_, place_;  // the oldest's order and positions with KV: in steps, and between calls
  uint64_t oldest_since_ = 0;
};

}  // namespace kvrt::test
