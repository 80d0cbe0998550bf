#include <algorithm>

#include "bindings/cli/eval/report.h"

namespace cli::eval {

namespace {

std::string percent(const Mean& m) { return fmt::format("{:.1f} +/- {:.1f}", 100 * m.value, 100 * m.half_width); }

}  // namespace

void print_table(const EvalReport& report) {
  const Summary& base = report.summaries.front();
  tell("{} with KV in {}: {} bytes a token, {} rows", report.model_name, base.configuration, base.bytes_per_token, base.rows);
  put("\n{:<12} {:>5} {:>14}", "right, in %", "n", base.configuration);
  for (size_t i = 1; i < report.summaries.size(); ++i) put(" {:>14} {:>14} {:>7}", report.summaries[i].configuration, "difference", "same");
  put("\n");
  for (size_t a = 0; a < base.axes.size(); ++a) {
    put("{:<12} {:>5} {:>14}", base.axes[a].score.name, base.axes[a].score.score.n, percent(base.axes[a].score.score));
    for (size_t i = 1; i < report.summaries.size(); ++i) {
      const AxisSummary& axis = report.summaries[i].axes[a];
      put(" {:>14} {:>14} {:>6.1f}%", percent(axis.score.score), percent(axis.score.difference), 100 * axis.agreement.value);
    }
    put("{}\n", base.axes[a].at_chance ? "  (the model is at chance: only \"same\" tells)" : "");
  }
  put("\n{:<12} {:>10} {:>11} {:>11} {:>8} {:>13} {:>11} {:>8}\n", "to the base", "KL mean", "KL 99.9 %", "KL most", "flips",
      "first differs", "repetition", "length");
  for (size_t i = 1; i < report.summaries.size(); ++i) {
    const Summary& s = report.summaries[i];
    put("{:<12} {:>10.2e} {:>11.2e} {:>11.2e} {:>7.2f}% {:>13.1f} {:>10.1f}% {:>8.2f}\n", s.configuration, s.divergence.value,
        s.divergence_999, s.divergence_most, 100 * s.flips.value, s.first_difference.value, 100 * s.repetition.value, s.length.value);
  }
  for (size_t i = 1; i < report.summaries.size(); ++i) {
    const Summary& s = report.summaries[i];
    put("\n{}: {} bytes a token ({:.2f} of {}'s), {} rows\n", s.configuration, s.bytes_per_token,
        static_cast<double>(s.bytes_per_token) / static_cast<double>(std::max<uint64_t>(base.bytes_per_token, 1)), base.configuration,
        s.rows);
  }
}

}  // namespace cli::eval
