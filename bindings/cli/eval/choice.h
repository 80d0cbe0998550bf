// Choice: which axes, programs and configurations a run has, and its size, by the options.
#pragma once

#include "bindings/cli/commands.h"
#include "bindings/cli/eval/data.h"
#include "bindings/cli/eval/summary.h"

namespace cli::eval {

inline constexpr const char* kScenario = "scenario";  // in a record: cases that nothing judges

struct Configuration {
  std::string name;  // "int8", or "int8/f16" where K and V differ
  ModelFlags flags;
};

// The base comes first.
kvrt_status choose(const EvalFlags& flags, Size* size, std::vector<Configuration>* configurations, std::vector<DataFile>* data);

}  // namespace cli::eval
