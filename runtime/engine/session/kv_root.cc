#include "runtime/engine/session/kv_root.h"

#include "runtime/compute/kv_layout.h"
#include "runtime/engine/resources/runtime.h"

namespace kvrt {

Result<BlockKey> kv_root(const Runtime& runtime, const LoadedModel& model, const ModelKv& kv, const std::shared_ptr<Store>& store,
                         const std::string& domain, const char* numerics) {
  Hash256 id;
  if (store) {
    KVRT_ASSIGN(id, model.id(runtime, store));
  }
  Hasher hasher;
  hasher.add(id.bytes)
      .add_string(kv_formats_name(kv.formats))
      .add_u64(kv.block_tokens())
      .add_string(numerics ? numerics : runtime.backend()->numerics());
  hasher.add_string(domain);
  return hasher.finish();
}

}  // namespace kvrt
