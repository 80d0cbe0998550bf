#include <algorithm>
#include <functional>

#include "bindings/cli/eval/summary.h"
#include "bindings/cli/eval/windows.h"

namespace cli::eval {

namespace {

constexpr uint32_t kTogether = 64;  // tokens of a text whose figures count as one: neighbours depend on each other

constexpr double kMostNats = 700;  // whose exp a double holds

// What the likelihood of a choice is divided by.
using Length = std::function<double(const std::string& choice)>;

// By item: the choice that is the most likely.
std::vector<size_t> chosen(const DataFile& file, const Measured& measured, const Length& length) {
  std::vector<size_t> all;
  for (uint32_t i = 0; i < file.items.size(); ++i) {
    std::vector<double> scores = measured.answers.at({file.name, i}).scores;
    for (size_t c = 0; c < scores.size(); ++c) scores[c] /= length(file.items[i].choices[c]);
    all.push_back(best_of(scores));
  }
  return all;
}

std::vector<double> right(const DataFile& file, const std::vector<size_t>& choices) {
  std::vector<double> all;
  for (size_t i = 0; i < choices.size(); ++i) all.push_back(choices[i] == file.items[i].answer ? 1 : 0);
  return all;
}

// By item: how likely the right choice is if one of them is to come.
std::vector<double> probabilities(const DataFile& file, const Measured& measured) {
  std::vector<double> all;
  for (uint32_t i = 0; i < file.items.size(); ++i) {
    const std::vector<double>& scores = measured.answers.at({file.name, i}).scores;
    double sum = 0;  // of what the others are to the right one; beyond a double's range it may as well be the end of it
    for (const double score : scores) sum += exp_of(std::min(score - scores[file.items[i].answer], kMostNats));
    all.push_back(1 / sum);
  }
  return all;
}

// The names are lm-eval's: acc, acc_norm (by characters), acc_bytes.
AxisSummary summarize_choices(const DataFile& file, const Measured& base, const Measured& measured) {
  const std::pair<const char*, Length> parts[] = {
      {"acc", [](const std::string&) { return 1.0; }},
      {"acc_norm", [](const std::string& choice) { return static_cast<double>(characters_in(choice)); }},
      {"acc_bytes", [](const std::string& choice) { return static_cast<double>(choice.size()); }}};
  AxisSummary out;
  for (const auto& [name, length] : parts) {
    const std::vector<double> its = right(file, chosen(file, base, length)), mine = right(file, chosen(file, measured, length));
    out.parts.push_back({name, mean_of(mine), difference(its, mine, {})});
  }
  const std::vector<double> before = probabilities(file, base), now = probabilities(file, measured);
  out.parts.push_back({"probability", mean_of(now), difference(before, now, {})});
  out.score = out.parts[0];
  out.score.name = file.name;
  for (const Item& item : file.items) out.chance += 1 / static_cast<double>(item.choices.size()) / static_cast<double>(file.items.size());
  out.at_chance = at_chance(mean_of(right(file, chosen(file, base, parts[0].second))), out.chance);
  const std::vector<size_t> its = chosen(file, base, parts[0].second), mine = chosen(file, measured, parts[0].second);
  std::vector<double> same;
  for (size_t i = 0; i < mine.size(); ++i) same.push_back(mine[i] == its[i] ? 1 : 0);
  out.agreement = mean_of(same);
  return out;
}

std::vector<double> nats_of(const DataFile& file, const Measured& measured, uint64_t* windows) {
  std::vector<double> all;
  for (*windows = 0;; ++*windows) {
    const auto found = measured.answers.find({file.name, static_cast<uint32_t>(*windows)});
    if (found == measured.answers.end()) return all;
    for (const double score : found->second.scores) all.push_back(-score);
  }
}

Mean scaled(Mean mean, double by) {
  mean.value *= by;
  mean.half_width *= by;
  return mean;
}

TextSummary summarize_text(const DataFile& file, const Measured& base, const Measured& measured) {
  TextSummary out;
  out.name = file.name;
  out.bytes = file.text.size();
  out.words = words_in(file.text);
  const std::vector<double> its = nats_of(file, base, &out.windows), mine = nats_of(file, measured, &out.windows);
  std::vector<uint32_t> together;
  for (size_t i = 0; i < mine.size(); ++i) together.push_back(static_cast<uint32_t>(i) / kTogether);
  for (const double nats : mine) out.nats += nats;
  const double by = static_cast<double>(mine.size()) / static_cast<double>(out.bytes) / log_of(2);
  out.bits_per_byte = scaled(mean_of(mine, together), by);
  out.difference = scaled(difference(its, mine, together), by);
  return out;
}

}  // namespace

std::optional<double> perplexity(const TextSummary& text, uint64_t pieces) {
  const double nats = text.nats / static_cast<double>(pieces);
  if (nats > kMostNats) return std::nullopt;
  return exp_of(nats);
}

void summarize_data(const std::vector<DataFile>& data, const Measured& base, const Measured& measured, Summary* out) {
  for (const DataFile& file : data) {
    if (file.is_text())
      out->texts.push_back(summarize_text(file, base, measured));
    else
      out->axes.push_back(summarize_choices(file, base, measured));
  }
}

}  // namespace cli::eval
