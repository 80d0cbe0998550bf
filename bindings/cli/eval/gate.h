// Gate: bounds that a file sets to figures of a report.
#pragma once

#include "bindings/cli/eval/report.h"

namespace cli::eval {

// Of a JSON object such as {"int8.divergence.mean": {"max": 0.001}, "int8.needle.difference": {"min": -0.05}}.
class Gate {
 public:
  kvrt_status read(const std::string& path);
  // Complains of a figure that is not of these: "int8.needle." and the like are the beginnings of all.
  kvrt_status check(const std::vector<std::string>& beginnings) const;
  // Says each figure that is out of its bounds, or that there is not. True: all hold.
  bool holds(const EvalReport& report) const;

 private:
  struct Bound {
    std::string figure;
    std::optional<double> min, max;
  };
  std::vector<Bound> bounds_;
};

}  // namespace cli::eval
