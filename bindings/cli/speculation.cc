// Speculation: what proposes tokens of an answer, and what came of it.
#include <fmt/core.h>

#include "bindings/cli/common.h"

namespace cli {

kvrt_status check_speculation(const SpeculationFlags& flags) {
  if (!flags.draft_max || flags.on()) return KVRT_OK;
  return complain(KVRT_INVALID, "--draft-max limits what is proposed: give --lookup, --draft FILE or --prediction FILE, too");
}

kvrt_status read_prediction(SpeculationFlags& flags) {
  if (kvrt_status s = check_speculation(flags)) return s;
  if (flags.prediction_file.empty()) return KVRT_OK;
  if (flags.prediction_file == "-") return complain(KVRT_INVALID, "--prediction: a file is expected; standard input is for the prompt");
  return read_file(flags.prediction_file, flags.prediction);
}

void speculate(const SpeculationFlags& flags, const Model& draft, kvrt_generate_options& options) {
  options.draft = draft.get();
  options.lookup = flags.lookup;
  options.draft_tokens_max = flags.draft_max;
  options.draft_tokens_min = flags.draft_min;
  if (!flags.prediction_file.empty()) kvrt::assign(options.prediction, options.prediction_size, flags.prediction);
}

std::string speculated(const SpeculationFlags& flags, const kvrt_report& report) {
  return flags.on() ? fmt::format(", {} drafted, {} accepted", report.drafted, report.accepted) : "";
}

}  // namespace cli
