// Engine: a model that runs. It owns weights, pool and sessions, and the parts that work on them, each of which is given what it uses.
#pragma once

#include <memory>
#include <string>

#include "runtime/engine/drafting.h"
#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/resources/memory_cost.h"
#include "runtime/engine/session/conversations.h"
#include "runtime/engine/sessions.h"
#include "runtime/engine/snapshot/resumer.h"
#include "runtime/engine/snapshot/shrinker.h"

namespace kvrt {

struct EngineOptions {
  uint32_t block_tokens = 0;              // 0: kBlockTokensDefault
  uint32_t prefill_chunk = 0;             // 0: kStepRowsMax
  uint64_t kv_bytes_max = 0;              // 0: see pool_units
  uint32_t step_ms_max = 0;               // 0: kStepMsDefault, and kLoneStepMs for a prompt alone
  bool kv_populate = false;               // take the pool's pages at once, not on their first use
  Windows windows = Windows::kFreed;      // kKept: of tests alone
  uint64_t boundary_every = kStateEvery;  // likewise another number
  LoadOptions load{};
};

struct EngineInfo {
  bool has_weights = false;
  std::string architecture, name;
  ModelDims dims;
  bool has_template = false;
  ModelKv kv;
  uint64_t file_bytes = 0, weight_bytes = 0, scratch_bytes = 0, pool_bytes = 0;  // scratch: with the logits of a step
  uint32_t units = 0, units_free = 0, units_cached = 0;
  uint64_t sessions = 0;
  double load_ms = 0;
  uint32_t step_ms_max = 0;
};

struct EngineMetrics {
  Counters counters;
  uint64_t sessions = 0, generating = 0, paused = 0;
  uint64_t units = 0, units_used = 0, units_cached = 0, evictions = 0;
};

// Thread-safe, and so are the parts that it gives. EngineLock guards all sessions, the KvCache and the parts of a step.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  static Result<std::shared_ptr<Engine>> open(std::shared_ptr<Runtime> runtime, const ModelSource& source, const EngineOptions& options,
                                              const Progress& progress);
  // `toy`: instead of the model's own forward pass; else null.
  static Result<std::shared_ptr<Engine>> assemble(std::shared_ptr<Runtime> runtime, std::unique_ptr<LoadedModel> model,
                                                  std::unique_ptr<ForwardPass> toy, const EngineOptions& options);
  ~Engine();

  const LoadedModel& model() const { return *model_; }
  const Runtime& runtime() const { return *runtime_; }
  EngineInfo info() const;
  EngineMetrics metrics() const;

  // UNSUPPORTED of a vocabulary alone, which has no sessions, and none of the parts below.
  Status check_sessions() const;
  Sessions& sessions() { return parts_->sessions; }
  Conversations& conversations() { return parts_->conversations; }
  Driver& driver() { return parts_->driver; }
  Saver& saver() { return parts_->saver; }
  Resumer& resumer() { return parts_->resumer; }
  const Shrinker& shrinker() const { return parts_->shrinker; }
  // This model as one that proposes tokens for sessions of `target`.
  Result<std::shared_ptr<DraftModel>> draft_for(const Engine& target);

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  // What works on sessions, in the order in which one uses another.
  struct Parts {
    Parts(const std::shared_ptr<Engine>& engine, const StepOptions& options, uint32_t units);
    KvCache cache;
    StepParts step;
    SessionGate gate;
    KvLoader loader;
    Warmer warmer;
    Saver saver;
    Autosaves autosaves;
    Resumer resumer;
    Shrinker shrinker;
    Sessions sessions;
    Conversations conversations;
    Driver driver;
    Drafting drafting;
  };
  Engine(std::shared_ptr<Runtime> runtime, std::unique_ptr<LoadedModel> model);
  Status make_pool(const EngineOptions& options, std::unique_ptr<ForwardPass> toy);

  const std::shared_ptr<Runtime> runtime_;
  const std::unique_ptr<const LoadedModel> model_;
  double load_ms_ = 0;
  uint32_t step_ms_max_ = 0;
  std::unique_ptr<KvMemory> memory_;
  std::unique_ptr<StepRunner> runner_;
  mutable EngineLock lock_;
  std::unique_ptr<Parts> parts_;  // null, as the two above: a vocabulary alone
};

}  // namespace kvrt
