// PanelWeight: a matrix as 16-row panels, the layout that every CPU kernel reads (NUMERICS.md §9 says where each element lies).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/threads.h"
#include "runtime/compute/backend.h"
#include "runtime/compute/cpu_memory.h"

namespace kvrt {

// Rows of one tensor: [row_begin, row_begin + rows) of the weight. The last panel is padded with zeros.
struct WeightPart {
  DType type;
  uint32_t row_begin, rows, panels;
  uint32_t first_panel;  // counted over all parts
  uint64_t panel_bytes;
  const uint8_t* data;
};

// Immutable once made: any thread.
class PanelWeight final : public Weight {
 public:
  static Result<std::unique_ptr<PanelWeight>> make(std::span<const TensorView> tensors, HostArena* arena, ThreadPool* pool);

  // bytes() of what make would make.
  static Result<uint64_t> bytes_of(std::span<const TensorView> tensors);

  uint32_t rows() const override { return rows_; }
  uint32_t cols() const override { return cols_; }
  uint64_t bytes() const override { return memory_.bytes; }
  std::span<const WeightPart> parts() const { return parts_; }
  uint32_t panels() const { return panels_; }
  bool quantized() const { return quantized_; }  // some part wants quantized activations
  bool plain() const { return plain_; }          // some part wants f32 activations

  // Row `row` as dequantize_row gives it, [cols].
  void dequantize(uint32_t row, float* out) const;

 private:
  Result<uint64_t> lay_out(std::span<const TensorView> tensors);  // all but the data; the bytes it takes

  uint32_t rows_ = 0, cols_ = 0, panels_ = 0;
  bool quantized_ = false, plain_ = false;
  std::vector<WeightPart> parts_;
  HostPiece memory_;
};

}  // namespace kvrt
