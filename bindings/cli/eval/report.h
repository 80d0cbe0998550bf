// The report of a run: one JSON object, one self-contained HTML page, a table.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/eval/data.h"
#include "bindings/cli/eval/foreign.h"
#include "bindings/cli/eval/summary.h"

namespace cli::eval {

// An answer that people read, of each configuration.
struct Sample {
  std::string scenario, request;
  std::vector<std::string> answers;
};

// A candidate that could not be measured to its end. It has no figures.
struct Broken {
  std::string configuration;
  kvrt_status status = KVRT_OK;
  Place place;
  std::string message;
};
std::string what_broke(const Broken& broken);  // "int8 broke in needle, case 3, position 100: ..."

// The text of --foreign.
struct ForeignReport {
  std::string tokens_sha256, own_base;  // own_base: of --foreign-base
  uint32_t context = 0, windows = 0;
  std::vector<std::pair<std::string, std::string>> files;  // names and hashes
  std::vector<ForeignSummary> rows;                        // candidates, then files; empty: there is no --foreign
};

struct EvalReport {
  std::string model_name, model_sha256;
  uint64_t model_bytes = 0;
  Size size;
  std::vector<Summary> summaries;  // the base's first
  std::vector<Broken> broken;      // in the order of the candidates
  std::vector<Sample> samples;
  std::vector<DataFile> data;  // of --data
  ForeignReport foreign;
  // Of the machine, in the part of the JSON that may differ from run to run.
  std::string cpu, isa, version;
  uint32_t threads = 0;
  std::vector<double> seconds;                                       // by configuration, as far as this process computed it
  std::vector<uint64_t> rows_here;                                   // likewise, of answers
  std::vector<uint64_t> peak_kv_bytes;                               // likewise
  const Broken* broken_one(const std::string& configuration) const;  // nullptr: it is whole
};

// The part that is the same, bit for bit, on every machine.
std::string result_json(const EvalReport& report);
std::string whole_json(const EvalReport& report, const std::string& result, const std::string& result_sha256);
std::string html_page(const EvalReport& report, const std::string& result_sha256);
void print_table(const EvalReport& report);

// A figure by its name, "int8.needle.score"; false: there is none. The names of all figures, for a message.
bool figure(const EvalReport& report, const std::string& name, double* value);
std::vector<std::string> figure_names(const EvalReport& report);
std::vector<std::string> figure_groups();                    // beside the axes: "divergence"
inline constexpr const char* kForeignText = "foreign_text";  // the group of figures of --foreign

}  // namespace cli::eval
