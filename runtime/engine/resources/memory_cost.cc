#include "runtime/engine/resources/memory_cost.h"

#include <algorithm>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"
#include "runtime/compute/kv_layout.h"

namespace kvrt {

namespace {

using Ull = unsigned long long;

Status check_at_most(const char* field, uint64_t value, uint64_t max, const char* of) {
  if (value <= max) return {};
  return error(Code::kLimit, Detail::kNone, "%s is %llu, %s %llu", field, Ull{value}, of, Ull{max});
}

// The request with its defaults filled in and its fields checked.
Result<PlanRequest> complete(const ModelDims& dims, PlanRequest r) {
  if (!r.sessions) r.sessions = 1;
  if (!r.session_tokens) r.session_tokens = dims.context;
  if (!r.session_tokens) {
    return error(Code::kInvalid, Detail::kNone, "session_tokens is 0, expected a length: a geometry has no context to take it from");
  }
  KVRT_TRY(check_at_most("sessions", r.sessions, kSessionsMax, "the limit is"));
  if (dims.context) KVRT_TRY(check_at_most("session_tokens", r.session_tokens, dims.context, "the model's context is"));
  KVRT_TRY(check_at_most("session_tokens", r.session_tokens, kContextMax, "the limit is"));
  if (r.shared_tokens > r.session_tokens) {
    return error(Code::kInvalid, Detail::kNone, "shared_tokens is %llu, expected at most the %llu of session_tokens", Ull{r.shared_tokens},
                 Ull{r.session_tokens});
  }
  return r;
}

// Units of blocks that sessions with so many common tokens share: full ones of groups that keep everything.
uint64_t shared_units(const KvShape& shape, uint64_t tokens) {
  uint64_t units = 0;
  for (uint32_t g = 0; g < shape.n_groups; ++g) {
    if (shape.groups[g].window == 0) units += tokens / shape.block_tokens * shape.groups[g].units;
  }
  return units;
}

uint64_t token_bytes(const KvGroup& group) { return group.state ? 0 : group.unit.token_bytes() / group.unit.layers * group.layers; }

// The share of a session's bytes that hold tokens and states.
double used_bytes(const ModelKv& kv, uint64_t tokens, uint64_t session_bytes) {
  uint64_t used = 0;
  for (uint32_t g = 0; g < kv.shape.n_groups; ++g) {
    const uint64_t blocks = kv.shape.blocks_for(g, tokens);
    used += kv.shape.groups[g].state ? blocks * kv.state_bytes()
                                     : std::min(tokens, blocks * kv.block_tokens()) * token_bytes(kv.groups.groups[g]);
  }
  return session_bytes > 0 ? static_cast<double>(used) / static_cast<double>(session_bytes) : 1;
}

// The most sessions and tokens that fit into the budget beside weights and scratch. Shared units count once, `own` ones per session.
void fill_budget(const ModelCost& cost, const ModelKv& kv, uint64_t shared, uint64_t own, SessionsPlan* p) {
  const uint64_t fixed = cost.weight_bytes + cost.scratch_bytes + kv.zero_units() * kv.unit_bytes();
  const uint64_t left = p->memory_bytes > fixed ? p->memory_bytes - fixed : 0;
  const uint64_t room = std::min<uint64_t>(left / kv.unit_bytes(), kPoolBlocksMax);
  if (room < kPoolBlocksMin * kv.shape.units()) return;
  if (room >= shared) p->sessions_max = own ? std::min<uint64_t>((room - shared) / own, kSessionsMax) : kSessionsMax;
  p->context_max = std::min<uint64_t>(kv.shape.tokens_in(room), cost.dims.context ? cost.dims.context : kContextMax);
}

}  // namespace

Result<ModelCost> model_cost(const GgufFile& file, const Backend& backend) {
  const Arch* arch = nullptr;
  ModelCost cost;
  KVRT_ASSIGN(cost.dims, read_dims(file, &arch));
  KVRT_ASSIGN(cost.weight_bytes, planned_weight_bytes(file, backend, *arch, cost.dims));
  KVRT_ASSIGN(cost.scratch_bytes, scratch_bytes(cost.dims, backend, kStepRowsMax));
  cost.scratch_bytes += logits_bytes(cost.dims) + backend.step_memory(step_shape(cost.dims, kStepRowsMax));
  return cost;
}

uint64_t ModelKv::token_bytes() const {
  uint64_t bytes = 0;
  for (const KvGroup& group : groups.groups) bytes += kvrt::token_bytes(group);
  return bytes;
}

uint64_t ModelKv::state_bytes() const {
  const StateLayout& s = groups.states;
  return uint64_t{s.layers} * (uint64_t{s.inputs.items} * s.inputs.bytes + uint64_t{s.heads.items} * s.heads.bytes);
}

Status check_formats(const ModelDims& dims, KvFormats formats) {
  if (dims.latent.rank == 0 || formats.k == formats.v) return {};
  return error(Code::kInvalid, Detail::kNone,
               "kv_format is %s, kv_format_v %s: the model's K and V are one row (latents), expected one format", kv_format_name(formats.k),
               kv_format_name(formats.v));
}

ModelKv model_kv(const ModelDims& dims, uint32_t block_tokens, KvFormats formats, uint32_t step_rows, Windows behind) {
  ModelKv kv;
  kv.shape = block_tokens ? block_tokens : kBlockTokensDefault;
  kv.formats = formats;
  std::vector<KvLayer> layers = kv_layers(dims, kv.block_tokens(), formats);
  // Layers of several shapes are groups of the same numbers either way: a chunk carries its group's.
  const auto limits = [&](uint32_t window) { return behind == Windows::kFreed && (dims.context == 0 || window < dims.context); };
  const auto shaped = [](const KvLayer& layer) { return !layer.state.any(); };
  const auto first = std::ranges::find_if(layers, shaped);
  const bool one = std::ranges::all_of(layers, [&](const KvLayer& layer) { return !shaped(layer) || layer.kv.same_layers(first->kv); });
  for (KvLayer& layer : layers) {
    if (one && !limits(layer.window)) layer.window = 0;
  }
  kv.groups = deal_layers(layers);
  for (KvGroup& group : kv.groups.groups) {
    if (!group.state && !limits(group.window)) group.window = 0;
  }
  kv.shape.step_rows = step_rows ? step_rows : kStepRowsMax;
  kv.shape.n_groups = static_cast<uint32_t>(kv.groups.groups.size());
  for (uint32_t g = 0; g < kv.shape.n_groups; ++g) {
    const KvGroup& group = kv.groups.groups[g];
    kv.shape.groups[g] = {group.window, group.state ? kv.groups.states.units : group.tables, group.state};
  }
  return kv;
}

uint64_t logits_bytes(const ModelDims& dims) { return uint64_t{kLogitsRowsMax} * dims.vocab * sizeof(float); }

Result<uint32_t> pool_units(const ModelKv& kv, uint32_t context, uint64_t kv_bytes_max, uint64_t free_bytes) {
  const uint64_t unit = kv.unit_bytes(), zeros = kv.zero_units(), least = (kPoolBlocksMin * kv.shape.units() + zeros) * unit;
  uint64_t bytes = kv_bytes_max;
  if (!bytes) bytes = std::max(least, std::min(free_bytes / 4, (4 * kv.shape.units_for(context) + zeros) * unit));
  if (bytes < least) {
    return error(Code::kLimit, Detail::kNone, "kv_bytes_max is %llu, the KV of %u tokens, the least there is, needs %llu: raise it",
                 Ull{bytes}, kPoolBlocksMin * kv.block_tokens(), Ull{least});
  }
  return static_cast<uint32_t>(std::min<uint64_t>(bytes / unit - zeros, kPoolBlocksMax - zeros));
}

Result<SessionsPlan> plan_sessions(const ModelCost& cost, const ModelKv& kv, const PlanRequest& request) {
  KVRT_ASSIGN(const PlanRequest r, complete(cost.dims, request));
  const KvShape& shape = kv.shape;
  SessionsPlan p;
  p.memory_bytes = r.memory_bytes;
  p.session_units = shape.units_for(r.session_tokens);
  p.session_bytes = p.session_units * kv.unit_bytes();
  p.used = used_bytes(kv, r.session_tokens, p.session_bytes);
  p.waste = 1 - p.used;

  // Only full blocks are shared: the tail of the common tokens is every session's own.
  const uint64_t shared = std::min(shared_units(shape, r.shared_tokens), p.session_units), own = p.session_units - shared;
  p.units = std::max<uint64_t>(shared + r.sessions * own, kPoolBlocksMin * shape.units());
  p.unshared_tokens = r.sessions * r.session_tokens;
  p.stored_tokens = p.unshared_tokens - (shared > 0 ? (r.sessions - 1) * (r.shared_tokens / shape.block_tokens) * shape.block_tokens : 0);
  if (p.units > kPoolBlocksMax) {
    return error(Code::kLimit, Detail::kNone, "sessions x session_tokens need %llu units of KV, the limit is %u", Ull{p.units},
                 kPoolBlocksMax);
  }
  const CheckedSize kv_bytes = CheckedSize(p.units + kv.zero_units()) * kv.unit_bytes();
  if (!kv_bytes.get(UINT64_MAX, &p.kv_bytes) || !(kv_bytes + cost.weight_bytes + cost.scratch_bytes).get(UINT64_MAX, &p.total_bytes)) {
    return error(Code::kLimit, Detail::kNone, "sessions x session_tokens need more than 2^64 bytes");
  }
  fill_budget(cost, kv, shared, own, &p);
  return p;
}

}  // namespace kvrt
