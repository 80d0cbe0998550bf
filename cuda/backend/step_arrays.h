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
  // Makes room for the largest step of a model of one group, of long contexts. The copy before it must be over.
  Status reserve(DeviceContext* context);
  static uint64_t bytes();  // on the device, except for extremely long contexts
  // Queues the copy of `step`. *moved: the arrays have new places. The copy before it must be over.
  Status put(DeviceContext* context, Stream* stream, const Step& step, bool* moved);
  const DeviceStep& device() const { return device_; }  // of the first table and group
  // The arrays of the rows [first, ...), for a layer there.
  DeviceStep rows_from(uint32_t first, KvPlace place) const;
  const PrefillTile* tiles() const { return tiles_; }
  uint32_t n_tiles() const { return n_tiles_; }
  std::span<const AttentionRun> few_rows() const { return few_rows_; }  // rows of sequences that have too few for a tile
  uint32_t last_position() const { return last_position_; }             // the largest

 private:
  struct Layout {
    uint64_t tokens, positions, logits_rows, draws, tiles, stores, state_seqs, tables_at, tables, end;
  };
  // `entries`: of all block tables together, and units of states. The places of a model's arrays, the tables' own among them, do not depend on it.
  static Layout lay_out(uint32_t groups, uint32_t tables, uint64_t entries);
  Status enlarge(DeviceContext* context, uint64_t bytes);
  void pack(const Step& step, const Layout& at);
  void plan_tiles(const Step& step);

  uint64_t capacity_ = 0;
  std::unique_ptr<Buffer> host_, memory_;
  DeviceStep device_;
  const PrefillTile* tiles_ = nullptr;
  uint32_t n_tiles_ = 0, last_position_ = 0;
  std::vector<PrefillTile> planned_;
  std::vector<AttentionRun> few_rows_;
};

}  // namespace kvrt::cuda
