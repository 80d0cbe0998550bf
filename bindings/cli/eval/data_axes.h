// The axes of --data: what a configuration makes of its items and texts goes to the record.
#pragma once

#include <functional>

#include "bindings/cli/eval/scorer.h"

namespace cli::eval {

// Rows that were computed, or known from the record.
using Advance = std::function<void(uint64_t rows, bool computed)>;

uint64_t rows_expected(const DataFile& file);
// CANCELLED: Ctrl-C came.
kvrt_status measure_data(const std::vector<DataFile>& data, const std::string& configuration, Scorer* scorer, Record* record,
                         const Advance& advance);

}  // namespace cli::eval
