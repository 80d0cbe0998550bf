// StepCosts: what a step of so many rows costs, by measured times. Pure arithmetic over its arguments.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/limits.h"

namespace kvrt {

// Of steps whose rows are of sessions that decode, in ns of the leader's work (see Pace). Not thread-safe: guarded by its owner's lock.
class StepCosts {
 public:
  static constexpr uint32_t kRowsMax = kLogitsRowsMax;
  void measured(uint32_t rows, uint64_t work_ns);
  double of(uint32_t rows) const;  // 0: nothing was measured. Between two counts of rows that were, on a line between these

 private:
  double times(uint32_t rows) const;
  uint32_t step_ = 0;                                    // measured
  std::array<uint32_t, kRowsMax + 1> steps_{}, seen_{};  // by rows: the last one; how many
  double ns_ = 0;                                        // of a step of one row, as fast as the machine is now
  std::array<double, kRowsMax + 1> times_{};             // a step of so many rows over one of one row; 0: not measured
};

}  // namespace kvrt
