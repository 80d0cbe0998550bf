// StepArrays: a step's host arrays in device memory, at fixed places: one copy per step, packed in pinned memory.
#pragma once

#include <memory>
#include <vector>

#include "cuda/backend/device_context.h"
#include "cuda/kernels/kernels.h"

namespace kvrt::cuda {

// The rows of a step that attention takes in one way: row by row, or in tiles.
struct AttentionRun {
  uint32_t first, n;  // rows
};

class StepArrays {
 public:
  // Makes room for the largest step whose block tables have so many entries together. The copy before it must be over.
  Status reserve(DeviceContext* context, uint64_t tables = 0);
  static uint64_t bytes();  // on the device, except for extremely long contexts
  // Queues the copy of `step`. *moved: the arrays have new places. The copy before it must be over.
  Status put(DeviceContext* context, Stream* stream, const Step& step, bool* moved);
  const DeviceStep& device() const { return device_; }
  // The arrays of the rows [first, ...).
  DeviceStep rows_from(uint32_t first) const;
  const PrefillTile* tiles() const { return tiles_; }
  uint32_t n_tiles() const { return n_tiles_; }
  std::span<const AttentionRun> few_rows() const { return few_rows_; }  // rows of sequences that have too few for a tile
  uint32_t last_position() const { return last_position_; }             // the largest

 private:
  struct Layout {
    uint64_t tokens, positions, tables_at, stores, logits_rows, draws, tiles, tables, end;
  };
  static Layout lay_out(uint64_t rows_max, uint64_t tables);
  void pack(const Step& step, const Layout& at);
  void plan_tiles(const Step& step, const uint32_t* tables_at);

  uint64_t tables_max_ = 0;
  std::unique_ptr<Buffer> host_, memory_;
  DeviceStep device_;
  const PrefillTile* tiles_ = nullptr;
  uint32_t n_tiles_ = 0, last_position_ = 0;
  std::vector<PrefillTile> planned_;
  std::vector<AttentionRun> few_rows_;
};

}  // namespace kvrt::cuda
