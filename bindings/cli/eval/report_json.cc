#include <algorithm>

#include "bindings/cli/eval/report.h"

namespace cli::eval {

namespace {

constexpr int kDigits = 12;

Json mean_json(const Mean& mean) {
  return Json().add("mean", mean.value, kDigits).add("half_width_95", mean.half_width, kDigits).add("n", mean.n);
}

Json score_json(const Score& score) {
  return Json().add("name", score.name).add("score", mean_json(score.score)).add("difference", mean_json(score.difference));
}

Json axis_json(const AxisSummary& axis) {
  Json json = score_json(axis.score);
  if (axis.chance >= 0) json.add("chance", axis.chance, kDigits);
  json.add("base_at_chance", axis.at_chance).add("agreement", mean_json(axis.agreement));
  std::vector<Json> parts;
  for (const Score& part : axis.parts) parts.push_back(score_json(part));
  if (!parts.empty()) json.add("parts", parts);
  return json;
}

// Perplexities are left out where a double has no room for them.
Json text_json(const TextSummary& text) {
  Json json;
  json.add("name", text.name).add("windows", text.windows).add("bytes", text.bytes).add("words", text.words);
  json.add("bits_per_byte", mean_json(text.bits_per_byte)).add("difference", mean_json(text.difference));
  if (const auto value = perplexity(text, text.bytes)) json.add("byte_perplexity", *value, kDigits);
  if (const auto value = perplexity(text, text.words)) json.add("word_perplexity", *value, kDigits);
  return json;
}

Json data_json(const std::vector<DataFile>& data) {
  std::vector<Json> files;
  for (const DataFile& file : data) {
    files.push_back(
        Json().add("name", file.name).add("sha256", file.sha256).add("bytes", file.bytes).add("items", uint64_t{file.items.size()}));
  }
  return Json().add("sha256", sha256_of_data(data)).add("files", files);
}

Json summary_json(const Summary& s) {
  Json json;
  json.add("configuration", s.configuration).add("kv_bytes_per_token", s.bytes_per_token).add("rows", s.rows);
  std::vector<Json> axes, texts, by_part;
  for (const AxisSummary& axis : s.axes) axes.push_back(axis_json(axis));
  for (const double part : s.divergence_by_part) by_part.push_back(Json().add("mean", part, kDigits));
  json.add("axes", axes);
  for (const TextSummary& text : s.texts) texts.push_back(text_json(text));
  if (!texts.empty()) json.add("texts", texts);
  json.add("divergence", mean_json(s.divergence)
                             .add("per_mille_999", s.divergence_999, kDigits)
                             .add("most", s.divergence_most, kDigits)
                             .add("log10", mean_json(s.divergence_log10))
                             .add("by_eighth_of_position", by_part));
  json.add(
      "text_divergence",
      mean_json(s.text_divergence).add("per_mille_999", s.text_divergence_999, kDigits).add("log10", mean_json(s.text_divergence_log10)));
  // The definition of a name that others use, too: docs/EVAL.md.
  if (s.text_divergence.n > 0) {
    json.add("fidelity-kld", Json()
                                 .add("value", s.text_divergence.value, kDigits)
                                 .add("positions", s.text_divergence.n)
                                 .add("tokens_sha256", s.text_tokens_sha256));
  }
  json.add("flips", mean_json(s.flips));
  json.add("decode", Json()
                         .add("tokens_before_first_difference", mean_json(s.first_difference))
                         .add("repetition", mean_json(s.repetition))
                         .add("length_ratio", mean_json(s.length)));
  return json;
}

Json divergences_json(const Divergences& d) {
  return mean_json(d.mean).add("per_mille_999", d.per_mille_999, kDigits).add("most", d.most, kDigits).add("flips", mean_json(d.flips));
}

Json foreign_json(const ForeignReport& foreign) {
  std::vector<Json> files, rows;
  for (const auto& [name, hash] : foreign.files) files.push_back(Json().add("name", name).add("sha256", hash));
  for (const ForeignSummary& row : foreign.rows) {
    Json json = Json().add("configuration", row.name).add("foreign", row.foreign).add("to_base", divergences_json(row.to_base));
    if (row.to_own) json.add("to_own", divergences_json(*row.to_own));
    rows.push_back(json);
  }
  Json json;
  json.add("tokens_sha256", foreign.tokens_sha256).add("windows", uint64_t{foreign.windows}).add("context", uint64_t{foreign.context});
  if (!foreign.own_base.empty()) json.add("own_base", foreign.own_base);
  return json.add("files", files).add("rows", rows);
}

void add_figures(const Divergences& d, const std::string& group, std::vector<std::pair<std::string, double>>* all) {
  all->emplace_back(group + ".mean", d.mean.value);
  all->emplace_back(group + ".per_mille_999", d.per_mille_999);
  all->emplace_back(group + ".most", d.most);
  all->emplace_back(group + ".flips", d.flips.value);
}

Json broken_json(const Broken& broken) {
  Json json;
  json.add("configuration", broken.configuration).add("status", kvrt_status_name(broken.status));
  if (!broken.place.axis.empty()) {
    json.add("axis", broken.place.axis).add("case", uint64_t{broken.place.index}).add("position", broken.place.position);
  }
  return json.add("message", broken.message);
}

std::vector<std::pair<std::string, double>> figures(const EvalReport& report) {
  std::vector<std::pair<std::string, double>> all;
  for (const Summary& s : report.summaries) {
    const auto add = [&](const std::string& name, double value) { all.emplace_back(s.configuration + "." + name, value); };
    for (const AxisSummary& axis : s.axes) {
      add(axis.score.name + ".score", axis.score.score.value);
      add(axis.score.name + ".difference", axis.score.difference.value);
      add(axis.score.name + ".agreement", axis.agreement.value);
      for (const Score& part : axis.parts) {
        add(axis.score.name + "." + part.name + ".score", part.score.value);
        add(axis.score.name + "." + part.name + ".difference", part.difference.value);
      }
    }
    for (const TextSummary& text : s.texts) {
      add(text.name + ".bits_per_byte", text.bits_per_byte.value);
      add(text.name + ".difference", text.difference.value);
      if (const auto one = perplexity(text, text.bytes)) add(text.name + ".byte_perplexity", *one);
      if (const auto one = perplexity(text, text.words)) add(text.name + ".word_perplexity", *one);
    }
    add("divergence.mean", s.divergence.value);
    add("divergence.per_mille_999", s.divergence_999);
    add("divergence.most", s.divergence_most);
    add("divergence.log10", s.divergence_log10.value);
    add("text_divergence.mean", s.text_divergence.value);
    add("text_divergence.per_mille_999", s.text_divergence_999);
    add("text_divergence.log10", s.text_divergence_log10.value);
    if (s.text_divergence.n > 0) add("fidelity-kld", s.text_divergence.value);
    add("flips", s.flips.value);
    add("decode.tokens_before_first_difference", s.first_difference.value);
    add("decode.repetition", s.repetition.value);
    add("decode.length_ratio", s.length.value);
    add("kv_bytes_per_token", static_cast<double>(s.bytes_per_token));
  }
  for (const ForeignSummary& row : report.foreign.rows) {
    const std::string group = row.name + "." + kForeignText;
    add_figures(row.to_base, group, &all);
    if (row.to_own) add_figures(*row.to_own, group + ".to_own", &all);
  }
  return all;
}

}  // namespace

std::string what_broke(const Broken& broken) {
  const Place& place = broken.place;
  if (place.axis.empty()) return fmt::format("{} broke: {}", broken.configuration, broken.message);
  return fmt::format("{} broke in {}, case {}, position {}: {}", broken.configuration, place.axis, place.index, place.position,
                     broken.message);
}

const Broken* EvalReport::broken_one(const std::string& configuration) const {
  const auto found = std::find_if(broken.begin(), broken.end(), [&](const Broken& b) { return b.configuration == configuration; });
  return found == broken.end() ? nullptr : &*found;
}

std::string result_json(const EvalReport& report) {
  std::vector<Json> configurations, samples;
  for (const Summary& s : report.summaries) configurations.push_back(summary_json(s));
  for (const Sample& sample : report.samples) {
    Json answers;
    for (size_t i = 0; i < sample.answers.size(); ++i) answers.add(report.summaries[i].configuration, sample.answers[i]);
    samples.push_back(Json().add("scenario", sample.scenario).add("request", sample.request).add("answers", answers));
  }
  const Size& size = report.size;
  Json json;
  json.add("model", Json().add("name", report.model_name).add("sha256", report.model_sha256).add("bytes", report.model_bytes))
      .add("seed", size.seed)
      .add("tokens_max", uint64_t{size.tokens_max})
      .add("times", uint64_t{size.times})
      .add("decodes", uint64_t{size.decodes})
      .add("decode_tokens", uint64_t{size.decode_tokens});
  if (!report.data.empty()) json.add("data", data_json(report.data));
  json.add("base", report.summaries.front().configuration).add("configurations", configurations);
  std::vector<Json> broken;
  for (const Broken& one : report.broken) broken.push_back(broken_json(one));
  if (!broken.empty()) json.add("broken", broken);
  if (!report.foreign.rows.empty()) json.add("foreign_text", foreign_json(report.foreign));
  return json.add("samples", samples).text();
}

std::string whole_json(const EvalReport& report, const std::string& result, const std::string& result_sha256) {
  std::vector<Json> runs;
  for (size_t i = 0; i < report.summaries.size(); ++i) {
    const double seconds = report.seconds[i];
    runs.push_back(Json()
                       .add("configuration", report.summaries[i].configuration)
                       .add("seconds", seconds)
                       .add("rows_per_second", seconds > 0 ? static_cast<double>(report.rows_here[i]) / seconds : 0.0)
                       .add("kv_bytes_peak", report.peak_kv_bytes[i]));
  }
  const Json run = Json()
                       .add("kvrt", report.version)
                       .add("cpu", report.cpu)
                       .add("isa", report.isa)
                       .add("threads", uint64_t{report.threads})
                       .add("configurations", runs);
  return fmt::format("{{\"kvrt_eval\": 1, \"result_sha256\": \"{}\", \"result\": {}, \"run\": {}}}\n", result_sha256, result, run.text());
}

bool figure(const EvalReport& report, const std::string& name, double* value) {
  for (const auto& [known, of] : figures(report)) {
    if (known != name) continue;
    *value = of;
    return true;
  }
  return false;
}

std::vector<std::string> figure_groups() {
  return {"divergence", "text_divergence", "fidelity-kld", "flips", "decode", "kv_bytes_per_token"};
}

std::vector<std::string> figure_names(const EvalReport& report) {
  std::vector<std::string> names;
  for (const auto& [name, value] : figures(report)) names.push_back(name);
  return names;
}

}  // namespace cli::eval
