// The memory cost of a model and its sessions. An Engine allocates by these functions, so a plan is true of it.
// Pure: any thread.
#pragma once

#include "runtime/compute/kv_groups.h"
#include "runtime/kv/shape.h"
#include "runtime/model/model.h"

namespace kvrt {

// Resident bytes without the KV pool. Computed from the file's header alone: no tensor is read.
struct ModelCost {
  ModelDims dims;
  uint64_t weight_bytes = 0, scratch_bytes = 0;  // scratch: activations and logits of a step, and the device's own
};
Result<ModelCost> model_cost(const GgufFile& file, const Backend& backend);

// A model's KV: the groups of its layers, and what a session holds of each.
struct ModelKv {
  KvGroups groups;
  KvShape shape{0};
  KvFormats formats;
  uint32_t block_tokens() const { return shape.block_tokens; }
  uint64_t unit_bytes() const { return groups.unit_bytes(); }
  uint64_t token_bytes() const;  // of all layers
  uint64_t state_bytes() const;  // the same, of a state: neither counts what units have beyond it
  // The unit that stands where a table has no KV, if there are windows.
  uint64_t zero_units() const { return shape.has_windows(); }
};
// Of layers with windows what is behind the windows is freed, and there is a group for each window. Tests compare with kKept: all layers are
// one group, which keeps everything.
enum class Windows { kFreed, kKept };
// INVALID where the model's tokens cannot be stored so: latents have one format.
Status check_formats(const ModelDims& dims, KvFormats formats);
// block_tokens 0: kBlockTokensDefault. step_rows 0: kStepRowsMax; the prompt rows of a session in a step.
ModelKv model_kv(const ModelDims& dims, uint32_t block_tokens, KvFormats formats = {}, uint32_t step_rows = 0,
                 Windows windows = Windows::kFreed);
uint64_t logits_bytes(const ModelDims& dims);  // of a step

// The count of units for blocks. kv_bytes_max 0: four contexts, at most a quarter of the free memory.
Result<uint32_t> pool_units(const ModelKv& kv, uint32_t context, uint64_t kv_bytes_max, uint64_t free_bytes);

struct PlanRequest {
  uint64_t sessions = 0;        // 0: 1
  uint64_t session_tokens = 0;  // of each; 0: the model's context
  uint64_t shared_tokens = 0;   // leading tokens that all have in common
  uint64_t memory_bytes = 0;    // the budget
};

struct SessionsPlan {
  uint64_t session_units = 0, session_bytes = 0;    // of one session alone
  double used = 0, waste = 0;                       // share of these bytes that hold tokens and states, and that do not
  uint64_t units = 0, kv_bytes = 0;                 // the pool that holds all sessions, shared units once
  uint64_t stored_tokens = 0, unshared_tokens = 0;  // tokens that the pool has for the sessions, with sharing and without
  uint64_t total_bytes = 0, memory_bytes = 0;       // weights, scratch and pool; the budget
  uint64_t sessions_max = 0, context_max = 0;       // the most such sessions, and the most tokens of one alone, within the budget
};
// dims.context 0 (a geometry without a model): any length up to kContextMax. LIMIT and INVALID name the field of kvrt_plan_options.
Result<SessionsPlan> plan_sessions(const ModelCost& cost, const ModelKv& kv, const PlanRequest& request);

}  // namespace kvrt
