#include "runtime/engine/describe/inspect.h"
#include "runtime/engine/resources/memory_cost.h"

#include "runtime/api/boundary.h"
#include "runtime/api/kv_figures.h"
#include "runtime/base/limits.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Result;
using kvrt::Status;

namespace {

// The cost of a geometry that the options give, without a file.
Result<kvrt::ModelCost> cost_of_geometry(const kvrt_plan_options& o) {
  const struct {
    const char* name;
    uint32_t value, max;
  } fields[] = {
      {"layers", o.layers, kvrt::kLayersMax}, {"kv_heads", o.kv_heads, kvrt::kHeadsMax}, {"head_dim", o.head_dim, kvrt::kHeadDimMax}};
  for (const auto& f : fields) {
    if (!f.value) return error(Code::kInvalid, Detail::kNone, "%s is 0: expected a path, or layers, kv_heads and head_dim", f.name);
    if (f.value > f.max) return error(Code::kLimit, Detail::kNone, "%s is %u, the limit is %u", f.name, f.value, f.max);
  }
  kvrt::ModelCost cost;
  cost.dims.layers = o.layers;
  cost.dims.kv_heads = o.kv_heads;
  cost.dims.head_dim = o.head_dim;
  return cost;
}

Result<kvrt::ModelCost> cost_of_file(const kvrt::Runtime& runtime, const char* path, size_t path_size, const kvrt_plan_options& o) {
  std::string name;
  KVRT_TRY(check_path(path, path_size, &name));
  if (o.layers || o.kv_heads || o.head_dim) {
    return error(Code::kInvalid, Detail::kNone, "layers, kv_heads and head_dim are given beside a path: expected one or the other");
  }
  KVRT_ASSIGN(const auto file, kvrt::GgufFile::open(name, runtime.env()));
  return kvrt::model_cost(*file, *runtime.backend());
}

kvrt_plan to_plan(const kvrt::ModelCost& cost, const kvrt::ModelKv& kv, const kvrt::SessionsPlan& s) {
  kvrt_plan p{};
  fill_kv(kv, &p);
  p.layers = cost.dims.layers;
  p.heads = cost.dims.heads;
  p.kv_heads = cost.dims.kv_heads;
  p.head_dim = cost.dims.head_dim;
  p.context_length = cost.dims.context;
  p.fits = s.total_bytes <= s.memory_bytes;
  p.weight_bytes = cost.weight_bytes;
  p.scratch_bytes = cost.scratch_bytes;
  p.session_units = s.session_units;
  p.session_bytes = s.session_bytes;
  p.used = s.used;
  p.waste = s.waste;
  p.units = s.units;
  p.kv_bytes = s.kv_bytes;
  p.stored_tokens = s.stored_tokens;
  p.unshared_tokens = s.unshared_tokens;
  p.total_bytes = s.total_bytes;
  p.memory_bytes = s.memory_bytes;
  p.sessions_max = s.sessions_max;
  p.context_max = s.context_max;
  p.recurrent_bytes = kv.state_bytes();
  const uint64_t boundary = kv.shape.boundary_units();
  p.boundary_bytes = boundary * kv.unit_bytes();
  if (boundary > 0) p.boundaries = kv.shape.boundaries_units(s.kv_bytes / kv.unit_bytes()) / boundary;
  return p;
}

}  // namespace

extern "C" {

kvrt_status kvrt_model_plan(const kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_plan_options* options,
                            kvrt_plan* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    KVRT_TRY(check_output_struct(out, "out"));
    kvrt_plan_options o;
    KVRT_TRY(read_options(options, "kvrt_plan_options", &o));
    KVRT_TRY(check_kv(o.kv_format, o.kv_format_v, o.block_tokens));
    const bool geometry = !path && !path_size;
    KVRT_ASSIGN(const kvrt::ModelCost cost, geometry ? cost_of_geometry(o) : cost_of_file(*held, path, path_size, o));
    const kvrt::KvFormats formats = kv_formats_of(o.kv_format, o.kv_format_v);
    KVRT_TRY(kvrt::check_formats(cost.dims, formats));
    const kvrt::ModelKv kv = kvrt::model_kv(cost.dims, o.block_tokens, formats);
    uint64_t total = 0, budget = o.memory_bytes;
    if (!budget) held->backend()->device_memory(&total, &budget);
    KVRT_ASSIGN(const auto sessions, kvrt::plan_sessions(cost, kv, {o.sessions, o.session_tokens, o.shared_tokens, budget}));
    write_output(out, to_plan(cost, kv, sessions));
    return {};
  });
}

kvrt_status kvrt_model_inspect(const kvrt_runtime* runtime, const char* path, size_t path_size, uint32_t flags, char* json, size_t capacity,
                               size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    KVRT_TRY(check_buffer(json, capacity, needed));
    if (flags & ~uint32_t{KVRT_INSPECT_ALL}) return error(Code::kInvalid, Detail::kNone, "flags is %u, unknown bits are set", flags);
    std::string name;
    KVRT_TRY(check_path(path, path_size, &name));
    KVRT_ASSIGN(const auto file, kvrt::GgufFile::open(name, held->env()));
    KVRT_ASSIGN(const std::string text, kvrt::inspect(*file, *held->backend(), flags & KVRT_INSPECT_ALL));
    return write_buffer(text.data(), text.size(), json, capacity, needed);
  });
}

}  // extern "C"
