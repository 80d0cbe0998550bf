#include "runtime/compute/cpu_weights.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"
#include "runtime/compute/cpu_kernels.h"
#include "runtime/compute/quant_block.h"
#include "runtime/compute/quants.h"

namespace kvrt {
namespace {

constexpr uint64_t kPanelAlign = 64;

uint64_t panel_bytes_of(DType type, uint64_t cols) {
  if (const QuantFormat* format = quant_format(type)) return cols / format->unit_elems() * format->unit_bytes();
  return cols * kPanelRows * dtype_info(static_cast<uint32_t>(type))->block_bytes;
}

void pack_quantized(const QuantFormat& format, const uint8_t* row, uint32_t lane, uint32_t cols, uint8_t* panel) {
  const uint32_t block_bytes = dtype_info(static_cast<uint32_t>(format.type))->block_bytes;
  RawBlock raw[8];
  for (uint32_t i = 0; i < cols; i += format.unit_elems(), row += block_bytes, panel += format.unit_bytes()) {
    decode_unit(format.type, row, raw);
    for (uint32_t b = 0; b < format.unit_blocks; ++b) write_lane(format, raw[b], b, lane, panel);
  }
}

void pack_plain(const uint8_t* row, uint32_t lane, uint32_t cols, uint32_t elem, uint8_t* panel) {
  for (uint32_t k = 0; k < cols; ++k) std::memcpy(panel + (uint64_t{k} * kPanelRows + lane) * elem, row + uint64_t{k} * elem, elem);
}

void pack_panel(const TensorView& tensor, uint32_t panel_index, uint8_t* panel) {
  const uint32_t cols = static_cast<uint32_t>(tensor.cols());
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(tensor.type));
  const QuantFormat* format = quant_format(tensor.type);
  const uint64_t row_bytes = uint64_t{cols} / info.block_elems * info.block_bytes;
  const uint64_t first = uint64_t{panel_index} * kPanelRows;
  for (uint32_t lane = 0; lane < kPanelRows && first + lane < tensor.rows(); ++lane) {
    const uint8_t* row = tensor.data.data() + (first + lane) * row_bytes;
    if (format) {
      pack_quantized(*format, row, lane, cols, panel);
    } else {
      pack_plain(row, lane, cols, info.block_bytes, panel);
    }
  }
}

uint64_t part_bytes(const WeightPart& part) { return (part.panel_bytes * part.panels + kPanelAlign - 1) & ~(kPanelAlign - 1); }

using ull = unsigned long long;

Status check_tensor(const TensorView& tensor, uint64_t cols) {
  const DTypeInfo* info = dtype_info(static_cast<uint32_t>(tensor.type));
  if (info == nullptr) return error(Code::kUnsupported, Detail::kNone, "weight of type %u", static_cast<unsigned>(tensor.type));
  if (tensor.cols() != cols || cols == 0 || cols > kWidthMax || cols % info->block_elems != 0) {
    return error(Code::kInvalid, Detail::kFormat, "weight of type %s has %llu columns, expected %llu, at most %u and a multiple of %u",
                 info->name, static_cast<ull>(tensor.cols()), static_cast<ull>(cols), kWidthMax, info->block_elems);
  }
  const CheckedSize want = CheckedSize(cols / info->block_elems * info->block_bytes) * tensor.rows();
  uint64_t bytes;
  if (tensor.rows() == 0 || tensor.rows() > kVocabMax || !want.get(tensor.data.size(), &bytes) || bytes != tensor.data.size()) {
    return error(Code::kInvalid, Detail::kFormat, "weight of type %s with %llu x %llu elements has %llu bytes", info->name,
                 static_cast<ull>(tensor.rows()), static_cast<ull>(cols), static_cast<ull>(tensor.data.size()));
  }
  return {};
}

}  // namespace

Result<uint64_t> PanelWeight::lay_out(std::span<const TensorView> tensors) {
  if (tensors.empty()) return error(Code::kInvalid, Detail::kNone, "a weight of no tensors");
  uint64_t bytes = 0, rows = 0;
  for (const TensorView& tensor : tensors) {
    KVRT_TRY(check_tensor(tensor, tensors[0].cols()));
    WeightPart part{};
    part.type = tensor.type;
    part.row_begin = static_cast<uint32_t>(rows);
    part.rows = static_cast<uint32_t>(tensor.rows());
    part.panels = (part.rows + kPanelRows - 1) / kPanelRows;
    part.first_panel = panels_;
    part.panel_bytes = panel_bytes_of(tensor.type, tensor.cols());
    bytes += part_bytes(part);
    rows += part.rows;
    panels_ += part.panels;
    (quant_format(tensor.type) ? quantized_ : plain_) = true;
    parts_.push_back(part);
  }
  if (rows > kVocabMax) return error(Code::kLimit, Detail::kNone, "a weight of %llu rows, at most %u", static_cast<ull>(rows), kVocabMax);
  rows_ = static_cast<uint32_t>(rows);
  cols_ = static_cast<uint32_t>(tensors[0].cols());
  return bytes;
}

Result<uint64_t> PanelWeight::bytes_of(std::span<const TensorView> tensors) { return PanelWeight().lay_out(tensors); }

Result<std::unique_ptr<PanelWeight>> PanelWeight::make(std::span<const TensorView> tensors, HostArena* arena, ThreadPool* pool) {
  auto weight = std::make_unique<PanelWeight>();
  KVRT_ASSIGN(const uint64_t bytes, weight->lay_out(tensors));
  KVRT_ASSIGN(weight->memory_, arena->take(bytes));
  uint8_t* at = weight->memory_.data;
  for (size_t i = 0; i < tensors.size(); ++i) {
    WeightPart& part = weight->parts_[i];
    const TensorView& tensor = tensors[i];
    part.data = at;
    pool->parallel_for(part.panels,
                       [&part, &tensor, at](uint32_t panel, uint32_t) { pack_panel(tensor, panel, at + panel * part.panel_bytes); });
    at += part_bytes(part);
  }
  return weight;
}

void PanelWeight::dequantize(uint32_t row, float* out) const {
  size_t i = 0;
  while (row >= parts_[i].row_begin + parts_[i].rows) ++i;
  const WeightPart& part = parts_[i];
  const uint32_t lane = (row - part.row_begin) % kPanelRows;
  const uint8_t* panel = part.data + (row - part.row_begin) / kPanelRows * part.panel_bytes;
  if (const QuantFormat* format = quant_format(part.type)) {
    for (uint32_t k = 0; k < cols_; panel += format->unit_bytes()) {
      for (uint32_t b = 0; b < format->unit_blocks; ++b, k += kQuantBlock) {
        dequantize_block(*format, to_numbers(*format, read_lane(*format, panel, b, lane)), out + k);
      }
    }
    return;
  }
  const uint32_t bytes = dtype_info(static_cast<uint32_t>(part.type))->block_bytes;
  for (uint32_t k = 0; k < cols_; ++k) dequantize_row(part.type, panel + (uint64_t{k} * kPanelRows + lane) * bytes, 1, out + k);
}

}  // namespace kvrt
