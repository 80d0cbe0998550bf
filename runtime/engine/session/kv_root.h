// kv_root: the name before the first block of a session's chain.
#pragma once

#include <memory>
#include <string>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/resources/memory_cost.h"

namespace kvrt {

// A hash of all that a block's bits depend on besides its tokens. KV of a session without a store never leaves this process, so its root has
// no model id. `numerics`: null: the backend's.
Result<BlockKey> kv_root(const Runtime& runtime, const LoadedModel& model, const ModelKv& kv, const std::shared_ptr<Store>& store,
                         const std::string& domain, const char* numerics = nullptr);

}  // namespace kvrt
