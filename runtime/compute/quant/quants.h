// Each GGUF type as the format defines it: dequantize one row. The reference for every kernel and for the self-check.
#pragma once

#include <cstdint>

#include "runtime/compute/tensor.h"

namespace kvrt {

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);  // to nearest, ties to even; overflow to infinity
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);  // likewise
uint8_t f32_to_e4m3(float f);   // likewise; |f| at most 448
float e8m0_to_f32(uint8_t e);   // the scale of MXFP4, for values stored doubled

// `row` holds n elements (n a multiple of the type's block) in file layout. Bit-equal to PyPI gguf's dequantize.
void dequantize_row(DType type, const uint8_t* row, uint64_t n, float* out);
// Row `row` of a table.
void dequantize_row(const TensorView& table, int32_t row, float* out);

}  // namespace kvrt
