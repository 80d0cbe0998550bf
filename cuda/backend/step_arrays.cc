#include "cuda/backend/step_arrays.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"

namespace kvrt::cuda {
namespace {

constexpr uint64_t kEntriesAtFirst = 64 << 10;  // contexts of 2 million tokens together
constexpr uint32_t kFewTileRows = 4;            // a sequence with fewer rows in the step has them taken one by one

uint64_t aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

StepArrays::Layout StepArrays::lay_out(uint32_t groups, uint32_t tables, uint64_t entries) {
  constexpr uint64_t kRows = kStepRowsMax;
  Layout at{};
  at.positions = at.tokens + aligned(kRows * sizeof(int32_t));
  at.logits_rows = at.positions + aligned(kRows * sizeof(int32_t));
  at.draws = at.logits_rows + aligned(kRows * sizeof(uint32_t));
  at.tiles = at.draws + aligned(kLogitsRowsMax * sizeof(Draw));
  at.stores = at.tiles + aligned(kRows * sizeof(PrefillTile));
  at.state_seqs = at.stores + aligned(groups * kRows * sizeof(uint32_t));
  at.tables_at = at.state_seqs + aligned(kRows * sizeof(DeviceStateSeq));
  at.tables = at.tables_at + aligned(tables * kRows * sizeof(uint32_t));
  at.end = at.tables + entries * sizeof(int32_t);
  return at;
}

uint64_t StepArrays::bytes() { return lay_out(1, 1, kEntriesAtFirst).end; }

Status StepArrays::reserve(DeviceContext* context) { return enlarge(context, bytes()); }

Status StepArrays::enlarge(DeviceContext* context, uint64_t bytes) {
  if (memory_ && bytes <= capacity_) return {};
  memory_.reset();
  capacity_ = 0;
  KVRT_ASSIGN(host_, context->alloc_pinned(bytes));
  KVRT_ASSIGN(memory_, context->alloc(bytes));
  capacity_ = bytes;
  return {};
}

Status StepArrays::put(DeviceContext* context, Stream* stream, const Step& step, bool* moved) {
  KVRT_CHECK(step.n_rows() <= kStepRowsMax && step.draws.size() <= kLogitsRowsMax);
  uint64_t entries = 0;
  for (const StepSeq& seq : step.seqs) entries += uint64_t{seq.n_blocks} * step.n_tables + 2 * uint64_t{step.state_units};
  const Layout at = lay_out(step.n_groups, step.n_tables, entries);
  *moved = !memory_ || at.end > capacity_;
  if (*moved) KVRT_TRY(enlarge(context, lay_out(step.n_groups, step.n_tables, std::max(kEntriesAtFirst, 2 * entries)).end));
  pack(step, at);
  const auto place = [&](uint64_t offset) { return memory_->data() + offset; };
  device_.tokens = reinterpret_cast<const int32_t*>(place(at.tokens));
  device_.positions = reinterpret_cast<const int32_t*>(place(at.positions));
  device_.tables_at = reinterpret_cast<const uint32_t*>(place(at.tables_at));
  device_.stores = reinterpret_cast<const uint32_t*>(place(at.stores));
  device_.logits_rows = reinterpret_cast<const uint32_t*>(place(at.logits_rows));
  device_.state_seqs = reinterpret_cast<const DeviceStateSeq*>(place(at.state_seqs));
  device_.draws = reinterpret_cast<const Draw*>(place(at.draws));
  device_.tables = reinterpret_cast<const int32_t*>(place(at.tables));
  tiles_ = reinterpret_cast<const PrefillTile*>(place(at.tiles));
  const cudaError_t queued = cudaMemcpyAsync(memory_->data(), host_->data(), at.end, cudaMemcpyHostToDevice, stream->handle);
  if (queued != cudaSuccess) return context->failed(queued, "the copy of a step's arrays");
  return {};
}

void StepArrays::pack(const Step& step, const Layout& at) {
  uint8_t* host = host_->data();
  std::copy(step.tokens.begin(), step.tokens.end(), reinterpret_cast<int32_t*>(host + at.tokens));
  std::copy(step.positions.begin(), step.positions.end(), reinterpret_cast<int32_t*>(host + at.positions));
  std::copy(step.logits_rows.begin(), step.logits_rows.end(), reinterpret_cast<uint32_t*>(host + at.logits_rows));
  std::copy(step.draws.begin(), step.draws.end(), reinterpret_cast<Draw*>(host + at.draws));
  auto* tables_at = reinterpret_cast<uint32_t*>(host + at.tables_at);
  auto* stores = reinterpret_cast<uint32_t*>(host + at.stores);
  auto* tables = reinterpret_cast<int32_t*>(host + at.tables);
  uint32_t next = 0;
  for (const StepSeq& seq : step.seqs) {
    for (uint32_t g = 0; g < step.n_groups; ++g) std::fill_n(stores + g * kStepRowsMax + seq.first_row, seq.n_rows, seq.stores >> g & 1);
    for (uint32_t t = 0; t < step.n_tables; ++t) {
      std::fill_n(tables_at + t * kStepRowsMax + seq.first_row, seq.n_rows, next);
      if (seq.n_blocks > 0) std::copy_n(seq.table(t), seq.n_blocks, tables + next);
      next += seq.n_blocks;
    }
  }
  const auto put_units = [&](const int32_t* units) {
    if (!units || step.state_units == 0) return kNoState;
    std::copy_n(units, step.state_units, tables + next);
    return std::exchange(next, next + step.state_units);
  };
  auto* states = reinterpret_cast<DeviceStateSeq*>(host + at.state_seqs);
  std::fill_n(states, kStepRowsMax, DeviceStateSeq{});
  for (const StepSeq& seq : step.seqs) {
    states->first_row = seq.first_row;
    states->n_rows = seq.n_rows;
    states->from_at = put_units(seq.state_from);
    states++->to_at = put_units(seq.state_to);
  }
  last_position_ = 0;
  for (const int32_t p : step.positions) last_position_ = std::max(last_position_, static_cast<uint32_t>(p));
  plan_tiles(step);
  if (n_tiles_ > 0) std::memcpy(host + at.tiles, planned_.data(), planned_.size() * sizeof(PrefillTile));
}

void StepArrays::plan_tiles(const Step& step) {
  planned_.clear();
  few_rows_.clear();
  for (const StepSeq& seq : step.seqs) {
    if (seq.n_rows < kFewTileRows) {
      if (!few_rows_.empty() && few_rows_.back().first + few_rows_.back().n == seq.first_row) {
        few_rows_.back().n += seq.n_rows;
      } else {
        few_rows_.push_back({seq.first_row, seq.n_rows});
      }
      continue;
    }
    for (uint32_t at = 0; at < seq.n_rows; at += kPrefillTileRows) {
      planned_.push_back({seq.first_row + at, std::min(kPrefillTileRows, seq.n_rows - at), seq.first_position + static_cast<int32_t>(at)});
    }
  }
  // Tiles that see most keys come first: shorter ones fill the gaps at the end.
  const auto keys = [](const PrefillTile& tile) { return tile.first_position + static_cast<int32_t>(tile.n); };
  std::stable_sort(planned_.begin(), planned_.end(), [&](const PrefillTile& a, const PrefillTile& b) { return keys(a) > keys(b); });
  n_tiles_ = static_cast<uint32_t>(planned_.size());
}

DeviceStep StepArrays::rows_from(uint32_t first, KvPlace place) const {
  DeviceStep step = device_;
  step.tokens += first;
  step.positions += first;
  step.tables_at += uint64_t{place.table} * kStepRowsMax + first;
  step.stores += uint64_t{place.group} * kStepRowsMax + first;
  return step;
}

}  // namespace kvrt::cuda
