#include "runtime/compute/backend.h"

namespace kvrt {

Result<std::unique_ptr<Weight>> Backend::make_weight(std::span<const TensorView> tensors) {
  const TensorStack stack(tensors.begin(), tensors.end());
  KVRT_ASSIGN(auto weights, make_weights({&stack, 1}, {[](std::span<const uint8_t>) { return Status(); }, nullptr}));
  return std::move(weights[0]);
}

}  // namespace kvrt
