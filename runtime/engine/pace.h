// Pace: how much prompt fits a step's time, by measured speed. Pure arithmetic over what it is told.
#pragma once

#include <cstdint>

namespace kvrt {

// Cost is counted in rows at position 0: a row at position p costs 1 + p / context_cost of them, attention being linear in p.
// Not thread-safe: guarded by its owner's lock.
class Pace {
 public:
  Pace(uint32_t step_ms_max, uint64_t context_cost) : step_ns_(uint64_t{step_ms_max} * 1'000'000), context_cost_(context_cost) {}

  // The prompt cost that a step may take on beside `decodes` rows of other sessions.
  double budget(uint32_t decodes) const;
  double cost(uint64_t begin, uint64_t end) const;
  // The rows from `begin` on, at least one, that cost no more than `budget`.
  uint64_t rows(uint64_t begin, double budget) const;
  // A step with `decodes` rows of decoding sessions and `cost` of prompt took so long.
  void measured(uint32_t decodes, double cost, uint64_t elapsed_ns);

 private:
  double decode_ns(uint32_t decodes) const;

  uint64_t step_ns_, context_cost_;
  double row_ns_ = 0;          // of cost 1; 0: not measured
  double decode_step_ns_ = 0;  // of a step of decodes alone
  double decode_rows_ = 0;     // in it
  double most_ = 0;            // the largest prompt cost that a step took on
};

}  // namespace kvrt
