// RowReader: the logits after each token of a text, one row after the other, so that few are in memory.
#pragma once

#include <span>
#include <vector>

#include "bindings/cli/common.h"

namespace cli::eval {

class RowReader {
 public:
  // `what`: "cannot ...", of complaints.
  kvrt_status begin(const Model& model, const std::vector<int32_t>& tokens, const char* what);
  // The row stands until the next call; empty: there are no more. Its position stands in *position when it succeeds. CANCELLED: Ctrl-C
  // came. DEVICE, detail NUMERIC: it holds a NaN or an infinity.
  kvrt_status next(std::span<const float>* row, uint64_t* position);

 private:
  Session session_;
  const char* what_ = nullptr;
  Event event_;
};

}  // namespace cli::eval
