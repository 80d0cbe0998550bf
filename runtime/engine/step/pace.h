// Pace: the amount of prompt that fits a step's time, by measured speed. Pure arithmetic over its arguments.
#pragma once

#include <array>
#include <cstdint>

namespace kvrt {

// A step's cost is modelled as a fixed part, one for each row that decodes and one for its prompt, in CPU time of the thread that leads it:
// the time of other programs is no property of the model. Wall time is that cost times their ratio in recent steps, so that on a shared
// machine steps do less, and the sessions that wait do not wait longer.
// A prompt's cost is counted in rows at position 0: a row at position p costs 1 + p / context_cost of them, as attention is linear in p.
// Not thread-safe: guarded by its owner's lock.
class Pace {
 public:
  // step_ms_max: the goal for the longest step; 0: kStepMsDefault, and kLoneStepMs for a prompt alone.
  Pace(uint32_t step_ms_max, uint64_t context_cost);

  // The conditions of a step that is planned.
  struct Ask {
    uint32_t decodes = 0;               // rows of sessions that decode
    uint64_t begin = 0;                 // position of the first prompt row
    bool alone = false;                 // that prompt's session is the only one that generates
    uint64_t patience_ns = UINT64_MAX;  // the step's leader accepts one that long
  };
  // The prompt cost that the step may include.
  double budget(const Ask& ask) const;
  double cost(uint64_t begin, uint64_t end) const;
  // The rows from `begin` on, at least one, that cost no more than `budget`.
  uint64_t rows(uint64_t begin, double budget) const;
  // Learns from a step with `decodes` rows of decoding sessions and `cost` of prompt: the leader's CPU time, and the wall time.
  void measured(uint32_t decodes, double cost, uint64_t work_ns, uint64_t wall_ns);

 private:
  using Parts = std::array<double, 3>;  // fixed, decodes, prompt
  static Parts scaled(uint32_t decodes, double cost);
  double predicted(const Parts& scaled) const;
  double row_ns() const;
  double step_ns(const Ask& ask) const;

  uint64_t step_ns_max_;  // 0: the library's default
  uint64_t context_cost_;
  Parts scaled_ns_{};   // work of 1 of each scaled part; all 0: not measured
  double stretch_ = 1;  // wall time over work
  double seen_ns_ = 0;  // the work that stretch_ was measured over
  double most_ = 0;     // the largest prompt cost of a step whose time was as predicted
};

}  // namespace kvrt
