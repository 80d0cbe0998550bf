// Tensors into panels (NUMERICS.md §9), at the speed of memory: 16 rows side by side, eight elements at a time.
#pragma once

#include "runtime/compute/quant/format.h"
#include "runtime/compute/tensor.h"

namespace kvrt {

// Bytes of a panel of `cols` columns.
uint64_t panel_bytes_of(DType type, uint64_t cols);

// Panels [begin, end) of the tensor to `out`, which is zeroed: rows that the last one lacks stay so.
void pack_panels(const TensorView& tensor, uint32_t begin, uint32_t end, uint8_t* out);

}  // namespace kvrt
