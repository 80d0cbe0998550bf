#include "runtime/compute/cpu/weights.h"

#include <algorithm>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"
#include "runtime/compute/cpu/pack.h"
#include "runtime/compute/quant/block.h"
#include "runtime/compute/quant/quants.h"

namespace kvrt {
namespace {

constexpr uint64_t kPanelAlign = 64;

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

Result<std::unique_ptr<PanelWeight>> PanelWeight::lay_out(std::span<const TensorView> tensors) {
  if (tensors.empty()) return error(Code::kInvalid, Detail::kNone, "a weight of no tensors");
  auto weight = std::make_unique<PanelWeight>();
  uint64_t rows = 0;
  for (const TensorView& tensor : tensors) {
    KVRT_TRY(check_tensor(tensor, tensors[0].cols()));
    WeightPart part{};
    part.type = tensor.type;
    part.row_begin = static_cast<uint32_t>(rows);
    part.rows = static_cast<uint32_t>(tensor.rows());
    part.panels = (part.rows + kPanelRows - 1) / kPanelRows;
    part.first_panel = weight->panels_;
    part.panel_bytes = panel_bytes_of(tensor.type, tensor.cols());
    weight->bytes_ += part_bytes(part);
    rows += part.rows;
    weight->panels_ += part.panels;
    (quant_format(tensor.type) ? weight->quantized_ : weight->plain_) = true;
    weight->parts_.push_back(part);
  }
  if (rows > kVocabMax) return error(Code::kLimit, Detail::kNone, "a weight of %llu rows, at most %u", static_cast<ull>(rows), kVocabMax);
  weight->rows_ = static_cast<uint32_t>(rows);
  weight->cols_ = static_cast<uint32_t>(tensors[0].cols());
  return weight;
}

void PanelWeight::bind(std::shared_ptr<const uint8_t> memory, uint64_t offset) {
  memory_ = std::move(memory);
  for (WeightPart& part : parts_) {
    part.data = memory_.get() + offset;
    offset += part_bytes(part);
  }
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

Status WeightImage::add(std::span<const TensorView> tensors) {
  KVRT_ASSIGN(auto weight, PanelWeight::lay_out(tensors));
  if (weight->bytes() > UINT64_MAX / 2 - bytes_) return error(Code::kLimit, Detail::kNone, "weights of more than 2^63 bytes");
  offsets_.push_back(bytes_);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const WeightPart& part = weight->parts()[i];
    parts_.push_back({tensors[i], bytes_, part.panel_bytes, part.panels});
    bytes_ += part_bytes(part);
  }
  weights_.push_back(std::move(weight));
  return {};
}

uint32_t WeightImage::Part::panels_before(uint64_t at) const {
  if (at <= offset) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(panels, (at - offset + panel_bytes - 1) / panel_bytes));
}

template <typename F>
void WeightImage::for_range(uint64_t begin, uint64_t end, const F& fn) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin, [](uint64_t at, const Part& p) { return at < p.offset; });
  if (part != parts_.begin()) --part;
  for (; part != parts_.end() && part->offset < end; ++part) {
    const uint32_t first = part->panels_before(begin), last = part->panels_before(end);
    if (first < last) fn(*part, first, last);
  }
}

void WeightImage::pack(uint64_t begin, uint64_t end, uint8_t* image, uint64_t base) const {
  for_range(begin, end, [&](const Part& part, uint32_t first, uint32_t last) {
    pack_panels(part.tensor, first, last, image + (part.offset + first * part.panel_bytes - base));
  });
}

std::pair<uint64_t, uint64_t> WeightImage::extent(uint64_t begin, uint64_t end) const {
  std::pair<uint64_t, uint64_t> of{begin, begin};
  for_range(begin, end, [&](const Part& part, uint32_t first, uint32_t last) {
    if (of.first == of.second) of.first = part.offset + first * part.panel_bytes;
    of.second = part.offset + last * part.panel_bytes;
  });
  return of;
}

std::vector<std::span<const uint8_t>> WeightImage::sources(uint64_t begin, uint64_t end) const {
  std::vector<std::span<const uint8_t>> out;
  for_range(begin, end, [&](const Part& part, uint32_t first, uint32_t last) {
    const uint64_t row_bytes = part.tensor.data.size() / part.tensor.rows();
    const uint64_t from = uint64_t{first} * kPanelRows, to = std::min(uint64_t{last} * kPanelRows, part.tensor.rows());
    out.push_back(part.tensor.data.subspan(from * row_bytes, (to - from) * row_bytes));
  });
  return out;
}

// Made-up rows of every type that occurs are packed and hashed: so another layout of panels always gives another key.
Hash256 WeightImage::key(const Hash256& source) const {
  Hasher hasher;
  hasher.add_string("kvrt weights 1").add(source.bytes).add_u64(parts_.size());
  const uint8_t* first = nullptr;
  for (const Part& part : parts_) first = first ? std::min(first, part.tensor.data.data()) : part.tensor.data.data();
  std::vector<bool> seen(kDTypeEnd);
  std::vector<uint8_t> rows, panels;
  for (const Part& part : parts_) {
    const TensorView& t = part.tensor;
    hasher.add_u64(static_cast<uint64_t>(t.type)).add_u64(t.cols()).add_u64(t.rows()).add_u64(part.offset);
    hasher.add_u64(static_cast<uint64_t>(t.data.data() - first));
    if (t.deal.run > 0) hasher.add_u64(t.deal.run);
    for (const RowDeal::Piece& piece : t.deal.pieces) {
      if (piece.rows > 0) hasher.add_u64(piece.first).add_u64(piece.rows);
    }
    if (seen[static_cast<size_t>(t.type)]) continue;
    seen[static_cast<size_t>(t.type)] = true;
    constexpr uint32_t kCols = 512, kRows = kPanelRows + 3;
    const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(t.type));
    rows.resize(uint64_t{kRows} * kCols / info.block_elems * info.block_bytes);
    uint32_t state = 1;
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    panels.assign(2 * panel_bytes_of(t.type, kCols), 0);
    pack_panels({t.type, {kCols, kRows, 1, 1}, rows}, 0, 2, panels.data());
    hasher.add(panels);
  }
  return hasher.finish();
}

std::vector<std::unique_ptr<Weight>> WeightImage::bind(const std::shared_ptr<const uint8_t>& memory) {
  std::vector<std::unique_ptr<Weight>> out;
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i]->bind(memory, offsets_[i]);
    out.push_back(std::move(weights_[i]));
  }
  *this = {};
  return out;
}

}  // namespace kvrt
