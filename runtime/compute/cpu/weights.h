// PanelWeight: a matrix as 16-row panels, the layout that every CPU kernel reads (NUMERICS.md §9 says where each element lies).
// WeightImage: the panels of many of them in one run of bytes, which is packed from tensors or mapped from a file.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/threads.h"
#include "runtime/compute/backend.h"

namespace kvrt {

// Rows of one tensor: [row_begin, row_begin + rows) of the weight. The last panel is padded with zeros.
struct WeightPart {
  DType type;
  uint32_t row_begin, rows, panels;
  uint32_t first_panel;  // counted over all parts
  uint64_t panel_bytes;
  const uint8_t* data;
};

// Immutable once bound: any thread.
class PanelWeight final : public Weight {
 public:
  // Tensors stacked by rows. Has no data yet.
  static Result<std::unique_ptr<PanelWeight>> lay_out(std::span<const TensorView> tensors);
  // Its panels lie at memory + offset, bytes() of them.
  void bind(std::shared_ptr<const uint8_t> memory, uint64_t offset);

  uint32_t rows() const override { return rows_; }
  uint32_t cols() const override { return cols_; }
  uint64_t bytes() const override { return bytes_; }
  std::span<const WeightPart> parts() const { return parts_; }
  uint32_t panels() const { return panels_; }
  bool quantized() const { return quantized_; }  // some part wants quantized activations
  bool plain() const { return plain_; }          // some part wants f32 activations

  // Row `row` as dequantize_row gives it, [cols].
  void dequantize(uint32_t row, float* out) const;

 private:
  uint32_t rows_ = 0, cols_ = 0, panels_ = 0;
  uint64_t bytes_ = 0;
  bool quantized_ = false, plain_ = false;
  std::vector<WeightPart> parts_;
  std::shared_ptr<const uint8_t> memory_;
};

// The panels of many weights, one after the other. One thread at a time; the tensors' bytes outlive it.
class WeightImage {
 public:
  Status add(std::span<const TensorView> tensors);
  uint64_t bytes() const { return bytes_; }

  // Packs every panel that begins in [begin, end); `image` is where byte `base` of the image lies. Ranges that do not overlap: any threads.
  void pack(uint64_t begin, uint64_t end, uint8_t* image, uint64_t base = 0) const;
  // The bytes of these panels: from the first one's beginning to the last one's end.
  std::pair<uint64_t, uint64_t> extent(uint64_t begin, uint64_t end) const;
  // The tensors' bytes that this takes, part by part.
  std::vector<std::span<const uint8_t>> sources(uint64_t begin, uint64_t end) const;

  // Names the image's bytes, given that `source` names the tensors': differs where a type, a shape, the order, or the packing itself does.
  Hash256 key(const Hash256& source) const;

  // The weights, in the order in which they were added; the image is empty afterwards.
  std::vector<std::unique_ptr<Weight>> bind(const std::shared_ptr<const uint8_t>& memory);

 private:
  struct Part {
    TensorView tensor;
    uint64_t offset, panel_bytes;
    uint32_t panels;
    uint32_t panels_before(uint64_t at) const;  // counts the panels that begin before image byte `at`
  };
  // fn(part, first panel, end) for the panels that begin in [begin, end).
  template <typename F>
  void for_range(uint64_t begin, uint64_t end, const F& fn) const;

  std::vector<std::unique_ptr<PanelWeight>> weights_;
  std::vector<uint64_t> offsets_;  // the weights' offsets in the image
  std::vector<Part> parts_;        // the parts of all weights, ascending
  uint64_t bytes_ = 0;
};

}  // namespace kvrt
