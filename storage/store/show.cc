// StoreImpl: what is only looked at.
#include "storage/store/store_impl.h"

namespace kvrt {

std::vector<uint64_t> StoreImpl::chunk_bytes(std::span<const BlockKey> keys) {
  std::vector<uint64_t> bytes(keys.size());
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < keys.size(); i++) {
    if (!bad_.empty() && bad_.count(keys[i]) != 0) continue;
    auto at = catalog_.find(keys[i]);
    if (at.is_ok() && at->has_value()) bytes[i] = (*at)->bytes;
  }
  return bytes;
}

}  // namespace kvrt
