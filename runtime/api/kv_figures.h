// The KV of a model, by groups of layers: the fields that kvrt_model_props and kvrt_plan have in common.
#pragma once

#include "include/kvrt.h"
#include "runtime/base/limits.h"
#include "runtime/engine/resources/memory_cost.h"

namespace kvrt::api {

// All zeros for a model without layers.
template <typename Out>
void fill_kv(const ModelKv& kv, Out* out) {
  static_assert(kKvGroupsMax <= KVRT_KV_GROUPS_MAX);
  if (kv.groups.groups.empty()) return;
  const uint32_t T = kv.block_tokens();
  out->block_tokens = T;
  out->kv_bytes_per_token = kv.token_bytes();
  out->unit_bytes = kv.unit_bytes();
  out->kv_groups = kv.shape.n_groups;
  for (uint32_t g = 0; g < kv.shape.n_groups; ++g) {
    const KvGroup& group = kv.groups.groups[g];
    out->kv_group_layers[g] = group.layers;
    out->kv_group_kind[g] = group.state ? KVRT_GROUP_RECURRENT : group.window ? KVRT_GROUP_WINDOW : KVRT_GROUP_EVERYTHING;
    out->kv_group_window[g] = group.state ? 0 : group.window;
    out->kv_group_bytes_per_token[g] = static_cast<uint32_t>(kv.shape.groups[g].units * kv.unit_bytes() / T);
    out->kv_group_tokens_max[g] = group.window ? static_cast<uint32_t>(kv.shape.blocks_for(g, kContextMax) * T) : 0;
  }
}

}  // namespace kvrt::api
