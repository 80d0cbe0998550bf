// Evaluation: a run. What was measured goes to the record, and at the end the report is made of it.
#pragma once

#include <chrono>

#include "bindings/cli/eval/choice.h"
#include "bindings/cli/eval/gate.h"
#include "bindings/cli/eval/interview.h"
#include "bindings/cli/eval/record.h"

namespace cli::eval {

class Evaluation {
 public:
  explicit Evaluation(const EvalFlags& flags);
  // The status of a failure that ended the run, without a report.
  kvrt_status run();
  // After a run. The status of the first candidate that broke.
  kvrt_status broken() const { return report_.broken.empty() ? KVRT_OK : report_.broken.front().status; }
  bool holds() const { return flags_.gate.empty() || gate_.holds(report_); }

 private:
  static constexpr uint32_t kTokensBeside = 1536;  // of texts that are not of --tokens, questions, and a long answer
  kvrt_status read_gate();
  kvrt_status begin();
  kvrt_status open(const Configuration& configuration, Model* out);
  kvrt_status check_date(const Model& model);
  kvrt_status measure(size_t index);
  kvrt_status measure_all();
  void leave_aside(size_t index, kvrt_status status);
  kvrt_status answer_cases(const std::string& name, Interview* interview);
  kvrt_status ask_programs(const std::string& name, Interview* interview);
  kvrt_status write_long(const std::string& name, Interview* interview);
  kvrt_status read_along(const std::string& name, Interview* interview);
  kvrt_status read_foreign(const Model& base);  // what the files predict, beside the base
  kvrt_status read_candidate(const std::string& name,
                             const Model& model);  // the same text
  bool knows_window(const std::string& name, uint32_t window);
  void advance(uint64_t rows, bool computed = true);
  uint64_t long_rows() const { return uint64_t{report_.size.decodes} * report_.size.decode_tokens + report_.size.tokens_max; }
  uint64_t rows_of_each() const;
  void sum_up();
  void sum_up_foreign();
  kvrt_status save();
  std::string header() const;

  EvalFlags flags_;
  std::vector<Configuration> configurations_;
  Runtime runtime_;
  Record record_;
  Gate gate_;
  ForeignText foreign_;
  EvalReport report_;
  Place place_;  // of what is being measured
  Progress bar_{"eval"};
  uint64_t done_ = 0, total_ = 0, done_here_ = 0;  // rows, as expected; the last: computed by this process
  std::chrono::steady_clock::time_point start_ = now();
};

}  // namespace cli::eval
