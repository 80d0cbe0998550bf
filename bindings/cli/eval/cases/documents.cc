// What retrieval gives to a model: passages, of which one has the answer, or none.
#include <fmt/core.h>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/cases/judge.h"
#include "bindings/cli/eval/cases/words.h"

namespace cli::eval {

namespace {

constexpr const char* kAbsent = "not there";
constexpr std::array kTrades = {"bakery", "brewery", "foundry", "print shop", "dairy", "tannery", "pottery", "glass works"};

struct Firm {
  std::string name, city, chief;
  int64_t founded, people;
  bool tells_founded, tells_people, tells_chief;
};

std::string passage(Random* random, const Firm& firm, size_t number) {
  std::string text = fmt::format("[{}] {} is in {}. {}", number, firm.name, firm.city, filler(random));
  if (firm.tells_founded) text += fmt::format(" It was founded in {}.", firm.founded);
  if (firm.tells_people) text += fmt::format(" {} people work there.", firm.people);
  text += " " + filler(random);
  if (firm.tells_chief) text += fmt::format(" {} directs it.", firm.chief);
  return text + "\n";
}

}  // namespace

// Of every firm two of three facts are told. A question asks for each of the three kinds: a third of the answers is not there.
Case documents_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr size_t kFirms = 8, kQuestions = 9;
  Random random(seed, "documents", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  const auto names = random.sample(kNames, 2 * kFirms);
  const auto cities = random.sample(kCities, kFirms);
  std::vector<Firm> firms;
  out.document = fmt::format("Answer from these passages alone. If they do not say it, answer \"{}\".\n\n", kAbsent);
  for (size_t i = 0; i < kFirms; ++i) {
    const size_t left_out = i % 3;
    firms.push_back({fmt::format("The {} of {}", random.pick(kTrades), names[2 * i]), cities[i], names[2 * i + 1],
                     random.between(1820, 1990), random.between(12, 480), left_out != 0, left_out != 1, left_out != 2});
    out.document += passage(&random, firms.back(), i + 1);
  }
  out.document += "\n";
  for (size_t q = 0; q < kQuestions; ++q) {
    const size_t left_out = q % 3, asked = q / 3;  // of each kind of firm: one question of each kind
    const Firm& firm = firms[left_out + 3 * random.below(left_out < kFirms % 3 ? 3 : 2)];
    const auto ask = [&](const char* what, const std::string& right, bool told) {
      out.questions.push_back(
          {fmt::format("{}? Answer with it alone, or with \"{}\".", fmt::format(fmt::runtime(what), firm.name), kAbsent), kShortAnswer,
           told ? right : kAbsent, kAbsent, whole(told ? says(right) : says(kAbsent))});
    };
    if (asked == 0) ask("In which year was {} founded", std::to_string(firm.founded), firm.tells_founded);
    if (asked == 1) ask("How many people work in {}", std::to_string(firm.people), firm.tells_people);
    if (asked == 2) ask("Who directs {}", firm.chief, firm.tells_chief);
  }
  return out;
}

}  // namespace cli::eval
