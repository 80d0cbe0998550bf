// Pace: how much prompt fits a step's time, by measured speed. Pure arithmetic over what it is told.
#pragma once

#include <array>
#include <cstdint>

namespace kvrt {

// What a step costs is modelled as a fixed part, one for each row that decodes and one for its prompt, in CPU time of the thread that leads
// it: what other programs take is no property of the model. The wall's time is that times what it was lately, so that on a machine that is
// shared steps get shorter, and those who wait do not wait longer.
// Cost of a prompt is counted in rows at position 0: a row at position p costs 1 + p / context_cost of them, attention being linear in p.
// Not thread-safe: guarded by its owner's lock.
class Pace {
 public:
  // step_ms_max: no step takes longer, as far as that can be; 0: kStepMsDefault, and a prompt alone kLoneStepMs.
  Pace(uint32_t step_ms_max, uint64_t context_cost);

  // What a step is planned for.
  struct Ask {
    uint32_t decodes = 0;               // rows of sessions that decode
    uint64_t begin = 0;                 // position of the first prompt row
    bool alone = false;                 // nobody but that prompt's session generates
    uint64_t patience_ns = UINT64_MAX;  // who computes the step waits so long gladly
  };
  // The prompt cost that the step may take on.
  double budget(const Ask& ask) const;
  double cost(uint64_t begin, uint64_t end) const;
  // The rows from `begin` on, at least one, that cost no more than `budget`.
  uint64_t rows(uint64_t begin, double budget) const;
  // A step with `decodes` rows of decoding sessions and `cost` of prompt took so long: CPU time of the thread that led it, and the wall's.
  void measured(uint32_t decodes, double cost, uint64_t work_ns, uint64_t wall_ns);

 private:
  using Parts = std::array<double, 3>;  // fixed, decodes, prompt
  static Parts units(uint32_t decodes, double cost);
  double predicted(const Parts& units) const;
  double row_ns() const;
  double step_ns(const Ask& ask) const;

  uint64_t step_ns_max_;  // 0: the library's default
  uint64_t context_cost_;
  Parts unit_ns_{};     // work of a unit; all 0: not measured
  double stretch_ = 1;  // the wall's time over work
  double seen_ns_ = 0;  // work that this is of
  double most_ = 0;     // the largest prompt cost that a step took on and that went as predicted
};

}  // namespace kvrt
