#include "bindings/cli/eval/summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "bindings/cli/eval/files.h"

namespace cli::eval {

namespace {

constexpr size_t kParts = 8, kRun = 8;
constexpr uint32_t kNear = 32;  // positions so near each other may be hard together: they count as one case of an interval
constexpr double kLog10E = 0x1.bcb7b1526e50ep-2;
constexpr double kNoChance = -1;  // of a program's axis: nobody knows

// The scores of all answers of an axis: of each part by its name, and of the whole answer.
struct Scores {
  std::vector<double> whole;
  std::vector<uint32_t> cases;  // by answer: what depends on one document, or one conversation
  std::vector<std::pair<std::string, std::vector<double>>> parts;
  std::vector<std::string> texts;
};

std::vector<double>& part_of(Scores* scores, const std::string& name) {
  for (auto& [known, values] : scores->parts) {
    if (known == name) return values;
  }
  return scores->parts.emplace_back(name, std::vector<double>()).second;
}

Scores scores_of(const Size& size, const Axis& axis, const Measured& measured) {
  Scores out;
  for (uint32_t i = 0; i < cases_of(size, axis); ++i) {
    const Case about = axis.make(size.seed, i, size.tokens_max);
    const Answers& answers = measured.answers.at({axis.name, i});
    for (size_t q = 0; q < about.questions.size(); ++q) {
      const std::vector<Part>& parts = about.questions[q].parts;
      if (parts.empty()) continue;  // only tells something
      double sum = 0;
      for (const Part& part : parts) {
        const double score = part.judge(answers.texts[q]);
        part_of(&out, part.name).push_back(score);
        sum += score;
      }
      out.whole.push_back(sum / static_cast<double>(parts.size()));
      out.cases.push_back(i);
      out.texts.push_back(answers.texts[q]);
    }
  }
  // Parts come in the order of the case: sorted, so that the order of results does not depend on the first case.
  std::sort(out.parts.begin(), out.parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

Scores scores_of_program(const std::string& name, const Measured& measured) {
  const Answers& answers = measured.answers.at({name, 0});
  return {answers.scores, {}, {}, answers.texts};
}

AxisSummary summarize_scores(const std::string& name, double chance, const Scores& of_base, const Scores& mine) {
  AxisSummary out;
  const std::span<const uint32_t> cases = mine.cases;  // of every part, too: each answer of an axis has all of them; a program's have none
  out.score = {name, mean_of(mine.whole, mine.cases), difference(of_base.whole, mine.whole, mine.cases)};
  for (size_t p = 0; mine.parts.size() > 1 && p < mine.parts.size(); ++p) {
    const auto& [part, values] = mine.parts[p];
    out.parts.push_back({part, mean_of(values, cases), difference(of_base.parts[p].second, values, cases)});
  }
  std::vector<double> same;
  for (size_t i = 0; i < mine.texts.size(); ++i) same.push_back(i < of_base.texts.size() && mine.texts[i] == of_base.texts[i] ? 1 : 0);
  out.agreement = mean_of(same, cases);
  out.chance = chance;
  out.at_chance = at_chance(mean_of(of_base.whole, of_base.cases), chance);
  return out;
}

// The share of runs of kRun tokens that the answer had before.
double repetition_of(const Decode& decode) {
  std::set<std::vector<int32_t>> seen;
  size_t runs = 0, again = 0;
  for (size_t at = decode.prompt; at + kRun <= decode.tokens.size(); ++at, ++runs)
    again += !seen.insert({decode.tokens.begin() + static_cast<ptrdiff_t>(at), decode.tokens.begin() + static_cast<ptrdiff_t>(at + kRun)})
                  .second;
  return runs ? static_cast<double>(again) / static_cast<double>(runs) : 0;
}

void summarize_decodes(const Size& size, const Measured& base, const Measured& measured, Summary* out) {
  std::vector<double> first, repetition, length;
  for (uint32_t i = 0; i < size.decodes; ++i) {
    const Decode &its = base.decodes.at(i), &mine = measured.decodes.at(i);
    const auto parted = std::mismatch(its.tokens.begin(), its.tokens.end(), mine.tokens.begin(), mine.tokens.end());
    first.push_back(static_cast<double>(static_cast<uint64_t>(parted.first - its.tokens.begin()) - its.prompt));
    repetition.push_back(repetition_of(mine));
    const uint64_t answer = its.tokens.size() - its.prompt;
    if (answer > 0) length.push_back(static_cast<double>(mine.tokens.size() - mine.prompt) / static_cast<double>(answer));
  }
  out->first_difference = mean_of(first);
  out->repetition = mean_of(repetition);
  out->length = mean_of(length);
}

// Of decimal logarithms; 1e-12 is the least.
Mean log10_mean(std::vector<double> values, std::span<const uint32_t> near) {
  for (double& v : values) v = log_of(std::max(v, 1e-12)) * kLog10E;
  return mean_of(values, near);
}

// The positions that predict tokens of the base's long answers, and apart from these all of the long text.
void summarize_readings(const Size& size, const Measured& base, const Measured& measured, Summary* out) {
  std::vector<double> answers, text, flips;
  std::vector<uint32_t> near;  // by position
  std::vector<std::vector<double>> parts(kParts);
  for (uint32_t i = 0; i < size.decodes && measured.readings.contains(i); ++i) {
    const Reading& reading = measured.readings.at(i);
    const std::set<uint64_t> flipped(reading.flips.begin(), reading.flips.end());
    const size_t first = std::max<uint64_t>(base.decodes.at(i).prompt, 1) - 1, count = reading.divergence.size() - first;
    const uint32_t before = near.empty() ? 0 : near.back() + 1;
    for (size_t at = first; at < reading.divergence.size(); ++at) {
      answers.push_back(reading.divergence[at]);
      near.push_back(before + static_cast<uint32_t>(at - first) / kNear);
      flips.push_back(flipped.contains(at) ? 1 : 0);
      parts[(at - first) * kParts / count].push_back(reading.divergence[at]);
    }
  }
  if (measured.readings.contains(size.decodes)) {
    const std::vector<int32_t>& tokens = base.decodes.at(size.decodes).tokens;
    text = measured.readings.at(size.decodes).divergence;
    out->text_tokens_sha256 = sha256({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)});
  }
  out->divergence = mean_of(answers, near);
  out->divergence_999 = per_mille(answers, 999);
  out->divergence_most = answers.empty() ? 0 : *std::max_element(answers.begin(), answers.end());
  out->divergence_log10 = log10_mean(answers, near);
  out->flips = mean_of(flips, near);
  for (const auto& part : parts) out->divergence_by_part.push_back(mean_of(part).value);
  near.clear();
  for (uint32_t at = 0; at < text.size(); ++at) near.push_back(at / kNear);
  out->text_divergence = mean_of(text, near);
  out->text_divergence_999 = per_mille(text, 999);
  out->text_divergence_log10 = log10_mean(text, near);
}

}  // namespace

Divergences divergences_of(const Measured& measured, uint32_t first, uint32_t windows) {
  std::vector<double> values, flips;
  std::vector<uint32_t> near;
  for (uint32_t w = 0; w < windows; ++w) {
    const Reading& reading = measured.readings.at(first + w);
    const uint32_t before = near.empty() ? 0 : near.back() + 1;
    for (uint32_t i = 0; i < reading.divergence.size(); ++i) near.push_back(before + i / kNear);
    values.insert(values.end(), reading.divergence.begin(), reading.divergence.end());
    for (const uint64_t row : reading.flips) {
      flips.resize(values.size(), 0);
      flips.at(values.size() - reading.divergence.size() + row) = 1;
    }
  }
  flips.resize(values.size(), 0);
  Divergences out;
  out.mean = mean_of(values, near);
  out.per_mille_999 = per_mille(values, 999);
  out.most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  out.flips = mean_of(flips, near);
  return out;
}

Mean difference(const std::vector<double>& base, const std::vector<double>& values, std::span<const uint32_t> cases) {
  std::vector<double> differences;
  if (base.size() != values.size()) return {};  // a program that asked on otherwise after another answer
  for (size_t i = 0; i < values.size(); ++i) differences.push_back(values[i] - base[i]);
  return mean_of(differences, cases);
}

bool at_chance(const Mean& base, double chance) { return chance >= 0 && chance < 1 && base.value - base.half_width <= chance; }

uint32_t cases_of(const Size& size, const Axis& axis) { return axis.cases * size.times; }

Summary summarize(const Size& size, const std::vector<DataFile>& data, const Record& record, const std::string& base,
                  const std::string& configuration) {
  const Measured &its = record.of(base), &mine = record.of(configuration);
  Summary out;
  out.configuration = configuration;
  out.bytes_per_token = mine.bytes_per_token;
  out.rows = mine.rows();
  for (const Axis& axis : axes()) {
    if (!size.has(axis.name)) continue;
    out.axes.push_back(summarize_scores(axis.name, axis.chance, scores_of(size, axis, its), scores_of(size, axis, mine)));
  }
  for (const std::string& name : size.programs)
    out.axes.push_back(summarize_scores(name, kNoChance, scores_of_program(name, its), scores_of_program(name, mine)));
  summarize_data(data, its, mine, &out);
  summarize_decodes(size, its, mine, &out);
  summarize_readings(size, its, mine, &out);
  return out;
}

}  // namespace cli::eval
