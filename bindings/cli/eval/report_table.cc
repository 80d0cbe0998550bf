#include <algorithm>

#include "bindings/cli/eval/report.h"

namespace cli::eval {

namespace {

constexpr size_t kNameWidth = 12;

// Names of files of --data may be longer than those of axes.
size_t name_width(const Summary& base) {
  size_t width = kNameWidth;
  for (const AxisSummary& axis : base.axes) width = std::max(width, printable(axis.score.name).size());
  for (const TextSummary& text : base.texts) width = std::max(width, printable(text.name).size());
  return width;
}

void print_texts(const EvalReport& report, size_t width) {
  const Summary& base = report.summaries.front();
  if (base.texts.empty()) return;
  put("\n{:<{}} {:>7} {:>16}", "bits a byte", width, "tokens", base.configuration);
  for (size_t i = 1; i < report.summaries.size(); ++i) put(" {:>10} {:>20}", report.summaries[i].configuration, "difference");
  put("\n");
  for (size_t t = 0; t < base.texts.size(); ++t) {
    const TextSummary& its = base.texts[t];
    put("{:<{}} {:>7} {:>16}", printable(its.name), width, its.bits_per_byte.n,
        fmt::format("{:.4f} +/- {:.4f}", its.bits_per_byte.value, its.bits_per_byte.half_width));
    for (size_t i = 1; i < report.summaries.size(); ++i) {
      const TextSummary& text = report.summaries[i].texts[t];
      put(" {:>10.4f} {:>20}", text.bits_per_byte.value,
          fmt::format("{:.5f} +/- {:.5f}", text.difference.value, text.difference.half_width));
    }
    put("\n");
  }
}

std::string percent(const Mean& m) { return fmt::format("{:.1f} +/- {:.1f}", 100 * m.value, 100 * m.half_width); }

void print_foreign(const EvalReport& report) {
  const ForeignReport& foreign = report.foreign;
  if (foreign.rows.empty()) return;
  size_t width = kNameWidth;
  for (const ForeignSummary& row : foreign.rows) width = std::max(width, printable(row.name).size() + 2 * row.foreign);
  const auto cells = [](const Divergences& d) {
    put(" {:>10.2e} {:>11.2e} {:>11.2e} {:>7.2f}%", d.mean.value, d.per_mille_999, d.most, 100 * d.flips.value);
  };
  put("\n{:<{}} {:>10} {:>11} {:>11} {:>8}", "one text", width, "KL mean", "KL 99.9 %", "KL most", "flips");
  if (!foreign.own_base.empty()) put("   {:>10} {:>11} {:>11} {:>8}", "the same to", printable(foreign.own_base), "", "");
  put("\n");
  for (const ForeignSummary& row : foreign.rows) {
    put("{:<{}}", printable(row.name) + (row.foreign ? " *" : ""), width);
    cells(row.to_base);
    if (row.to_own) put("  ");
    if (row.to_own) cells(*row.to_own);
    put("\n");
  }
  put("* another program's, from a file: without a claim on bits; {} positions\n", foreign.rows.front().to_base.mean.n);
}

}  // namespace

void print_table(const EvalReport& report) {
  const Summary& base = report.summaries.front();
  tell("{} with KV in {}: {} bytes a token, {} rows", report.model_name, base.configuration, base.bytes_per_token, base.rows);
  const size_t width = name_width(base);
  put("\n{:<{}} {:>5} {:>14}", "right, in %", width, "n", base.configuration);
  for (size_t i = 1; i < report.summaries.size(); ++i) put(" {:>14} {:>14} {:>7}", report.summaries[i].configuration, "difference", "same");
  put("\n");
  for (size_t a = 0; a < base.axes.size(); ++a) {
    put("{:<{}} {:>5} {:>14}", printable(base.axes[a].score.name), width, base.axes[a].score.score.n, percent(base.axes[a].score.score));
    for (size_t i = 1; i < report.summaries.size(); ++i) {
      const AxisSummary& axis = report.summaries[i].axes[a];
      put(" {:>14} {:>14} {:>6.1f}%", percent(axis.score.score), percent(axis.score.difference), 100 * axis.agreement.value);
    }
    put("{}\n", base.axes[a].at_chance ? "  (the model is at chance: only \"same\" tells)" : "");
  }
  print_texts(report, width);
  put("\n{:<12} {:>10} {:>11} {:>11} {:>8} {:>13} {:>11} {:>8}\n", "to the base", "KL mean", "KL 99.9 %", "KL most", "flips",
      "first differs", "repetition", "length");
  for (size_t i = 1; i < report.summaries.size(); ++i) {
    const Summary& s = report.summaries[i];
    put("{:<12} {:>10.2e} {:>11.2e} {:>11.2e} {:>7.2f}% {:>13.1f} {:>10.1f}% {:>8.2f}\n", s.configuration, s.divergence.value,
        s.divergence_999, s.divergence_most, 100 * s.flips.value, s.first_difference.value, 100 * s.repetition.value, s.length.value);
  }
  print_foreign(report);
  for (size_t i = 1; i < report.summaries.size(); ++i) {
    const Summary& s = report.summaries[i];
    put("\n{}: {} bytes a token ({:.2f} of {}'s), {} rows\n", s.configuration, s.bytes_per_token,
        static_cast<double>(s.bytes_per_token) / static_cast<double>(std::max<uint64_t>(base.bytes_per_token, 1)), base.configuration,
        s.rows);
  }
  for (const Broken& broken : report.broken) {
    put("\n");
    tell("{}", what_broke(broken));
  }
}

}  // namespace cli::eval
