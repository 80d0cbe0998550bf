// kv_root: the name before the first block of a session's chain.
#pragma once

#include <string_view>

#include "runtime/base/hash.h"
#include "runtime/engine/resources/memory_cost.h"

namespace kvrt {

// A hash of all that a block's bits depend on besides its tokens. `model`: its identity; zeros for a session without a store, whose KV never
// leaves this process.
BlockKey kv_root(const Hash256& model, const ModelKv& kv, std::string_view numerics, std::string_view domain);

// The root of KV of which some was made under one root and some under another: no exact session has it.
BlockKey mixed_root(const BlockKey& saved, const BlockKey& own);

}  // namespace kvrt
