#include "runtime/engine/session/kv_root.h"

#include "runtime/compute/kv_layout.h"

namespace kvrt {

BlockKey kv_root(const Hash256& model, const ModelKv& kv, std::string_view numerics, std::string_view domain) {
  Hasher hasher;
  hasher.add(model.bytes).add_string(kv_formats_name(kv.formats)).add_u64(kv.block_tokens()).add_string(numerics).add_string(domain);
  return hasher.finish();
}

BlockKey mixed_root(const BlockKey& saved, const BlockKey& own) {
  return Hasher().add_string("kvrt foreign kv").add(saved.bytes).add(own.bytes).finish();
}

}  // namespace kvrt
