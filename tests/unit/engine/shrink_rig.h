// A runtime, a store and an engine for tests of conversions to rounded KV, and how close the logits are.
#pragma once

#include <cmath>
#include <map>

#include "runtime/engine/engine.h"
#include "runtime/engine/resources/runtime.h"
#include "tests/support/store_rig.h"

namespace kvrt::test {

inline constexpr uint32_t kShrinkBlock = 16;
using LogitRows = std::map<uint64_t, std::vector<float>>;

inline std::vector<int32_t> words(size_t from, size_t count, size_t seed = 0) {
  std::vector<int32_t> ids;
  for (size_t i = from; i < from + count; ++i) ids.push_back(static_cast<int32_t>((i * i + 7 * i * (seed + 1) + 3 * seed) % 90 + 3));
  return ids;
}

// The mean of KL(exact || other) in nats.
inline double divergence(const LogitRows& exact, const LogitRows& other) {
  double sum = 0;
  for (const auto& [position, row] : exact) {
    const std::vector<float>& there = other.at(position);
    double most = -1e30, most_there = -1e30, total = 0, total_there = 0;
    for (size_t i = 0; i < row.size(); ++i) most = std::max(most, double{row[i]}), most_there = std::max(most_there, double{there[i]});
    for (size_t i = 0; i < row.size(); ++i) total += std::exp(row[i] - most), total_there += std::exp(there[i] - most_there);
    for (size_t i = 0; i < row.size(); ++i) {
      const double p = row[i] - most - std::log(total);
      sum += std::exp(p) * (p - (there[i] - most_there - std::log(total_there)));
    }
  }
  return sum / static_cast<double>(exact.size());
}

// A runtime with a store and an engine of its own: a process, as far as the store is concerned.
struct ShrinkHost {
  explicit ShrinkHost(const std::string& directory, const char* model = "llama_gqa_f32", KvFormats formats = {}, Env* env = posix_env(),
                      const StoreOptions& quota = {}) {
    RuntimeOptions options;
    options.threads = 1;
    runtime = std::move(Runtime::open(options, nullptr, env)).value();
    store = std::move(runtime->open_store(runtime, directory, quota)).value();
    EngineOptions o;
    o.block_tokens = kShrinkBlock;
    o.load.kv_format = formats;
    engine = std::move(Engine::open(runtime, {std::string(KVRT_SOURCE_DIR "/tests/golden/tiny/") + model + ".gguf"}, o, nullptr)).value();
  }
  Session* open() {
    SessionOptions o;
    o.store = store;
    o.share = false;  // what it has, it has from the store
    return std::move(engine->sessions().open(o)).value();
  }
  // Gives the last position's logits.
  LogitRows prefill(Session* s, const std::vector<int32_t>& tokens) {
    EXPECT_OK(engine->conversations().append(s, tokens));
    GenerateOptions o;
    o.prefill_only = true;
    o.logits = WantLogits::kLast;
    EXPECT_OK(engine->driver().begin(s, std::move(o)));
    LogitRows rows;
    for (;;) {
      auto event = engine->driver().next(s, -1);
      EXPECT_OK(event.status());
      if (!event.is_ok()) return rows;
      if (event->type == EventType::kLogits) rows[event->position] = event->logits;
      if (event->type != EventType::kDone) continue;
      report = event->report;
      return rows;
    }
  }
  // Gives those of all these tokens, one by one: only so is the KV before them reused.
  LogitRows follow(Session* s, const std::vector<int32_t>& tokens) {
    LogitRows rows;
    for (const int32_t token : tokens) rows.merge(prefill(s, {token}));
    return rows;
  }
  // Saves a session of these tokens, and closes it.
  void keep(const char* name, const std::vector<int32_t>& tokens) {
    Session* s = open();
    (void)prefill(s, tokens);
    save(s, name);
    engine->sessions().close(s);
  }
  void save(Session* s, const char* name) {
    kvrt::SaveOptions o;
    o.suspend = true;
    EXPECT_OK(engine->saver().save(s, name, o).status());
  }
  Session* resume(const char* name, bool accept) {
    SessionOptions o;
    o.store = store;
    o.share = false;
    o.accept_foreign = accept;
    report = {};
    auto session = engine->resumer().resume(o, name, nullptr, &report);
    EXPECT_OK(session.status());
    return session.is_ok() ? *session : nullptr;
  }
  // What a resumed session goes on with, and closes.
  LogitRows go_on(const char* name, bool accept, const std::vector<int32_t>& tokens) {
    Session* s = resume(name, accept);
    resumed = report;
    inexact = engine->sessions().info(s).inexact;
    const LogitRows rows = follow(s, tokens);
    engine->sessions().close(s);
    return rows;
  }
  Result<ShrinkReport> shrink(KvFormats to = KvFormat::kI4) { return engine->shrinker().shrink(store, {to, 0, std::nullopt}, nullptr); }
  ShrinkReport must_shrink(KvFormats to = KvFormat::kI4) {
    auto done = shrink(to);
    EXPECT_OK(done.status());
    EXPECT_OK(store->gc(nullptr).status());
    auto faults = store->verify(nullptr, nullptr);
    EXPECT_OK(faults.status());
    EXPECT_TRUE(!faults.is_ok() || faults->empty());
    return done.is_ok() ? *done : ShrinkReport();
  }

  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<Store> store;
  std::shared_ptr<Engine> engine;
  Report report, resumed;
  bool inexact = false;
};

}  // namespace kvrt::test
