// Shrinker: gives cold snapshots of a store KV of few bits in the place of theirs. The store knows no tensors: the model has to be open.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/engine/resources/runtime.h"
#include "runtime/engine/sources/cold_chunks.h"
#include "runtime/engine/sources/kv_memory.h"

namespace kvrt {

struct ShrinkOptions {
  KvFormats to{KvFormat::kI4};
  uint64_t older_than_ms = 0;
  std::optional<std::string> domain{};  // none: all
};

// Sessions are counted once, under what became of them.
struct ShrinkReport {
  uint64_t sessions = 0, converted = 0;
  uint64_t warm = 0;     // saved lately, pinned, open, or saved meanwhile
  uint64_t shared = 0;   // most of their KV is a warm session's, too
  uint64_t inexact = 0;  // converted before
  uint64_t other = 0;    // of another model, KV format or block size, without KV, or damaged
  uint64_t chunks = 0, bytes_written = 0;
  uint64_t bytes_before = 0, bytes_after = 0;  // of the store's chunks
  double ms = 0;
};

// Thread-safe.
class Shrinker {
 public:
  Shrinker(const Runtime* runtime, const LoadedModel* model, const KvMemory* memory)
      : runtime_(*runtime), model_(*model), memory_(*memory) {}

  // Progress is of sessions. What was converted before a failure stays so.
  Result<ShrinkReport> shrink(const std::shared_ptr<Store>& store, const ShrinkOptions& options, const Progress& progress) const;

 private:
  struct Cold;
  enum class Kind { kCold, kWarm, kInexact, kOther };
  struct Run;
  Kind kind_of(const Run& run, const SessionStat& stat, const SessionOut& saved) const;
  Result<std::vector<Cold>> look(Run* run) const;
  Result<Kind> convert(Run* run, const Cold& cold, bool reuse_chunks) const;
  Status put_rounded(Run* run, Store::Save* save, const NodeIn& from, const NodeIn& to, uint64_t position, uint32_t number) const;

  const Runtime& runtime_;
  const LoadedModel& model_;
  const KvMemory& memory_;
};

}  // namespace kvrt
