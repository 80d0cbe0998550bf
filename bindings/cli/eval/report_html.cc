// The page loads nothing: its styles and plots are in it.
#include <algorithm>

#include "bindings/cli/eval/report.h"

namespace cli::eval {

namespace {

constexpr const char* kColours[] = {"#4a6fa5", "#c8553d", "#5b8e4d", "#8a5a9e", "#b08a2e", "#3d8f8f"};
constexpr const char* kHead = R"(<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>kvrt eval</title><style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}pre{white-space:pre-wrap;background:#f5f5f5;padding:.6rem;font-size:13px}
.note{color:#777}svg text{font:12px system-ui,sans-serif;fill:currentColor}
@media(prefers-color-scheme:dark){body{background:#1c1c1c;color:#ddd}pre{background:#2a2a2a}th,td{border-color:#444}}
</style></head><body>)";

const char* colour_of(size_t i) { return kColours[i % std::size(kColours)]; }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text, true)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string legend(const EvalReport& report) {
  std::string out = "<p>";
  for (size_t i = 0; i < report.summaries.size(); ++i)
    out += fmt::format("<span style=\"color:{}\">&#9632;</span> {} &nbsp; ", colour_of(i), escaped(report.summaries[i].configuration));
  return out + "</p>\n";
}

// A group of bars for each axis, with the intervals.
std::string scores_plot(const EvalReport& report) {
  const size_t axes = report.summaries.front().axes.size(), each = report.summaries.size();
  constexpr double kHeight = 200, kBar = 12, kLeft = 40, kTop = 10;
  const double group = kBar * static_cast<double>(each) + 16, width = kLeft + group * static_cast<double>(axes) + 10;
  const auto y = [](double share) { return kTop + kHeight * (1 - std::clamp(share, 0.0, 1.0)); };
  std::string out = fmt::format("<svg role=\"img\" aria-label=\"scores by axis\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\">", width,
                                kTop + kHeight + 90);
  for (const double line : {0.0, 0.5, 1.0}) {
    out += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#8884\"/><text x=\"4\" y=\"{:.1f}\">{:.0f}%</text>", kLeft,
        width, y(line), y(line), y(line) + 4, 100 * line);
  }
  for (size_t a = 0; a < axes; ++a) {
    const double x = kLeft + group * static_cast<double>(a) + 8;
    for (size_t i = 0; i < each; ++i) {
      const Mean& m = report.summaries[i].axes[a].score.score;
      const double left = x + kBar * static_cast<double>(i), middle = left + kBar / 2 - 1;
      out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>", left, y(m.value), kBar - 2,
                         y(0) - y(m.value), colour_of(i));
      out += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"currentColor\"/>", middle,
                         y(m.value - m.half_width), y(m.value + m.half_width));
    }
    out += fmt::format("<text transform=\"translate({:.1f},{:.1f}) rotate(40)\">{}</text>", x, kTop + kHeight + 16,
                       escaped(report.summaries.front().axes[a].score.name));
  }
  return out + "</svg>\n";
}

// The divergence of each configuration by the position in a long answer.
std::string divergence_plot(const EvalReport& report) {
  constexpr double kWidth = 600, kHeight = 160, kLeft = 70, kTop = 10;
  double most = 0;
  for (const Summary& s : report.summaries) {
    for (const double part : s.divergence_by_part) most = std::max(most, part);
  }
  if (most <= 0) return "";
  std::string out = fmt::format("<svg role=\"img\" aria-label=\"divergence by position\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\">",
                                kLeft + kWidth + 10, kTop + kHeight + 24);
  out += fmt::format("<text x=\"4\" y=\"{:.0f}\">{:.1e}</text><text x=\"4\" y=\"{:.0f}\">0</text>", kTop + 8, most, kTop + kHeight);
  for (size_t i = 1; i < report.summaries.size(); ++i) {
    const std::vector<double>& parts = report.summaries[i].divergence_by_part;
    std::string points;
    for (size_t p = 0; p < parts.size(); ++p)
      points += fmt::format("{:.1f},{:.1f} ", kLeft + kWidth * (static_cast<double>(p) + 0.5) / static_cast<double>(parts.size()),
                            kTop + kHeight * (1 - parts[p] / most));
    out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>", points, colour_of(i));
  }
  return out + fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">position in the answer, by eighths</text></svg>\n", kLeft, kTop + kHeight + 18);
}

std::string scores_table(const EvalReport& report) {
  std::string out = "<table><tr><th>axis</th><th>n</th>";
  for (size_t i = 0; i < report.summaries.size(); ++i)
    out += fmt::format("<th>{}</th>{}", escaped(report.summaries[i].configuration), i ? "<th>difference</th><th>same</th>" : "");
  out += "</tr>\n";
  const Summary& base = report.summaries.front();
  for (size_t a = 0; a < base.axes.size(); ++a) {
    const AxisSummary& its = base.axes[a];
    out += fmt::format("<tr><td>{}{}</td><td>{}</td>", escaped(its.score.name),
                       its.at_chance ? " <span class=\"note\">(at chance)</span>" : "", its.score.score.n);
    for (size_t i = 0; i < report.summaries.size(); ++i) {
      const AxisSummary& axis = report.summaries[i].axes[a];
      out += fmt::format("<td>{:.1f} &plusmn; {:.1f}</td>", 100 * axis.score.score.value, 100 * axis.score.score.half_width);
      if (i) {
        out += fmt::format("<td>{:+.1f} &plusmn; {:.1f}</td><td>{:.1f} %</td>", 100 * axis.score.difference.value,
                           100 * axis.score.difference.half_width, 100 * axis.agreement.value);
      }
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string texts_table(const EvalReport& report) {
  const Summary& base = report.summaries.front();
  if (base.texts.empty()) return "";
  std::string out = "<h2>Texts, in bits a byte</h2>\n<table><tr><th>text</th><th>tokens</th>";
  for (size_t i = 0; i < report.summaries.size(); ++i)
    out += fmt::format("<th>{}</th>{}", escaped(report.summaries[i].configuration), i ? "<th>difference</th>" : "");
  out += "</tr>\n";
  for (size_t t = 0; t < base.texts.size(); ++t) {
    out += fmt::format("<tr><td>{}</td><td>{}</td>", escaped(base.texts[t].name), base.texts[t].bits_per_byte.n);
    for (size_t i = 0; i < report.summaries.size(); ++i) {
      const TextSummary& text = report.summaries[i].texts[t];
      out += fmt::format("<td>{:.4f} &plusmn; {:.4f}</td>", text.bits_per_byte.value, text.bits_per_byte.half_width);
      if (i) out += fmt::format("<td>{:+.5f} &plusmn; {:.5f}</td>", text.difference.value, text.difference.half_width);
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string divergence_table(const EvalReport& report) {
  std::string out =
      "<table><tr><th>to the base</th><th>KL mean</th><th>KL 99.9 %</th><th>KL most</th><th>flips</th><th>first "
      "differs</th><th>repetition</th><th>length</th>"
      "<th>bytes a token</th></tr>\n";
  for (const Summary& s : report.summaries) {
    out += fmt::format(
        "<tr><td>{}</td><td>{:.3e}</td><td>{:.2e}</td><td>{:.2e}</td><td>{:.2f} %</td><td>{:.1f}</td><td>{:.1f} "
        "%</td><td>{:.2f}</td><td>{}</td></tr>\n",
        escaped(s.configuration), s.divergence.value, s.divergence_999, s.divergence_most, 100 * s.flips.value, s.first_difference.value,
        100 * s.repetition.value, s.length.value, s.bytes_per_token);
  }
  return out + "</table>\n";
}

std::string foreign_table(const EvalReport& report) {
  const ForeignReport& foreign = report.foreign;
  if (foreign.rows.empty()) return "";
  const auto cells = [](const Divergences& d) {
    return fmt::format("<td>{:.3e} &plusmn; {:.1e}</td><td>{:.2e}</td><td>{:.2e}</td><td>{:.2f} %</td>", d.mean.value, d.mean.half_width,
                       d.per_mille_999, d.most, 100 * d.flips.value);
  };
  constexpr const char* kCells = "<th>KL mean</th><th>KL 99.9 %</th><th>KL most</th><th>flips</th>";
  const bool own = !foreign.own_base.empty();
  std::string out = fmt::format("<h2>Beside other programs, on one text</h2>\n<table><tr><th>to {}</th>{}{}{}</tr>\n",
                                escaped(report.summaries.front().configuration), kCells,
                                own ? fmt::format("<th>to {}:</th>", escaped(foreign.own_base)) : "", own ? kCells : "");
  for (const ForeignSummary& row : foreign.rows) {
    out += fmt::format("<tr><td>{}{}</td>{}{}</tr>\n", escaped(row.name), row.foreign ? " *" : "", cells(row.to_base),
                       row.to_own ? "<td></td>" + cells(*row.to_own) : "");
  }
  return out + fmt::format(
                   "</table>\n<p class=\"note\">* Another program's predictions, from a file: without a claim on bits. {} positions of a "
                   "text of {} windows; tokens 16 nats below the best one count as one.</p>\n",
                   foreign.rows.front().to_base.mean.n, foreign.windows);
}

}  // namespace

std::string html_page(const EvalReport& report, const std::string& result_sha256) {
  std::string out = kHead;
  out += fmt::format("<h1>{}</h1><p>Formats of the KV, against {}. Model: SHA-256 <code>{}</code>. Result: SHA-256 <code>{}</code>.</p>\n",
                     escaped(report.model_name), escaped(report.summaries.front().configuration), report.model_sha256, result_sha256);
  for (const Broken& broken : report.broken) out += fmt::format("<p><b>{}</b></p>\n", escaped(what_broke(broken)));
  out += "<h2>Answers that are right</h2>\n" + legend(report) + scores_plot(report) + scores_table(report);
  out +=
      "<p class=\"note\">In percent, with 95 % intervals; differences are of pairs of answers to one question. Same: the answer is the "
      "base's, letter by letter.</p>\n";
  out += texts_table(report);
  out += "<h2>Divergence from the base</h2>\n" + divergence_plot(report) + divergence_table(report);
  out +=
      "<p class=\"note\">KL(base || configuration), in nats, of each token of the base's texts. Flips: another token is the best "
      "one.</p>\n";
  out += foreign_table(report) + "<h2>Answers</h2>\n";
  for (const Sample& sample : report.samples) {
    out += fmt::format("<h3>{}</h3><pre>{}</pre>\n", escaped(sample.scenario),
                       escaped(sample.request.size() > 2000
                                   ? sample.request.substr(0, 1000) + "\n...\n" + sample.request.substr(sample.request.size() - 600)
                                   : sample.request));
    for (size_t i = 0; i < sample.answers.size(); ++i)
      out += fmt::format("<p style=\"color:{}\">{}</p><pre>{}</pre>\n", colour_of(i), escaped(report.summaries[i].configuration),
                         escaped(sample.answers[i]));
  }
  return out + fmt::format("<p class=\"note\">kvrt {}, {}, {}, {} threads</p></body></html>\n", report.version, escaped(report.cpu),
                           report.isa, report.threads);
}

}  // namespace cli::eval
