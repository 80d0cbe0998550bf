// Repair: makes a damaged store sound again, with everything that can be proved. FORMAT.md, "Repair".
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

namespace kvrt {

struct RepairReport {
  enum class Outcome : uint32_t { kSound = 1, kMended = 2, kRebuilt = 3 };  // nothing to do; bad chunks forgotten; a new catalog
  Outcome outcome = Outcome::kSound;
  uint64_t sessions_kept = 0;        // all tokens as they were saved, under their names
  uint64_t sessions_with_holes = 0;  // kept ones with lost chunks, which will be computed again
  uint64_t sessions_recovered = 0;   // under new names: the tokens of lost ones, all or a part
  uint64_t sessions_lost = 0;        // rows that are there and cannot be proved
  uint64_t chunks_kept = 0, chunks_lost = 0, bytes_kept = 0;
  uint64_t chunks_orphaned = 0;  // of lost sessions whose model and domain no session tells
  std::string aside;             // the folder of the replaced files; "": none were
  double ms = 0;
};

struct RepairWatch {
  std::function<bool(uint64_t done, uint64_t total)> progress;  // false stops it, unless it has begun to write: nothing was changed
  std::function<bool(const std::string& line)> note;            // a fault, and its consequence; likewise
};

// Repairs the store at `path`; BUSY while another process or handle has it open. Whenever it fails or is killed, the store is as before or
// as after, and repair can be called again.
Result<RepairReport> repair_store(Env* env, Log* log, const std::string& path, const RepairWatch& watch);

}  // namespace kvrt
