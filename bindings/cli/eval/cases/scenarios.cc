// Five scenarios whose answers a report shows side by side, and the requests for long answers. Nothing judges them: people read them.
#include <fmt/core.h>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/cases/words.h"

namespace cli::eval {

namespace {

constexpr uint32_t kAnswer = 96;

Question plain(std::string text) { return {std::move(text), kAnswer, {}, {}, {}}; }

}  // namespace

uint32_t scenario_count() { return 5; }

Case scenario_case(uint64_t seed, uint32_t index, uint32_t tokens_max) {
  Random random(seed, "scenario", index);
  Case out;
  const std::string person = random.pick(kNames), city = random.pick(kCities), object = random.pick(kObjects);
  switch (index) {
    case 0:
      out.name = "easy";
      out.questions.push_back(plain("What is the plural of the word mouse? Answer in one sentence."));
      break;
    case 1:
      out.name = "average";
      out.document =
          fmt::format("{}\n\n", haystack(&random, 200, {fmt::format("{} bought a {} in {} for 40 euros.", person, object, city)}));
      out.questions.push_back(plain("Say in two sentences what was bought, by whom, where, and what it cost."));
      break;
    case 2:
      out.name = "long";
      out.document =
          haystack(&random, tokens_max * 7 / 8, {fmt::format("{} hid the {} in the cellar of the town hall.", person, object)}) + "\n\n";
      out.questions.push_back(plain(fmt::format("Where is the {}, and who hid it?", object)));
      break;
    case 3:  // a call that was cut, and bytes of no language
      out.name = "malformed";
      out.document = fmt::format(
          "{{\"name\": \"find\", \"arguments\": {{\"place\": \"{}\", \"what\": [\"{}\", }}\x01\x7f \xef\xbf\xbd\xef\xbf\xbd <|odd|> "
          "]]}}\n\n",
          city, object);
      out.questions.push_back(plain("The text above should be a JSON object. Say what is wrong with it."));
      break;
    default:  // what an error of one digit would cost
      out.name = "high-value";
      out.before.push_back(
          {"system", "You prepare payments. A payment has exactly the amount and the account of the order, digit by digit."});
      {
        const auto euros = random.between(10000, 99999), cents = random.between(0, 99);
        const auto check = random.between(10, 99), bank = random.between(10000000, 99999999),
                   account = random.between(1000000000, 9999999999);
        out.document = fmt::format("Order: pay {}.{:02} euros to {}, account DE{} {} {}, not before Friday.\n\n", euros, cents, person,
                                   check, bank, account);
      }
      out.questions.push_back(plain("Write the payment as one line: amount; name; account; date."));
  }
  return out;
}

std::string long_request(uint64_t seed, uint32_t index) {
  Random random(seed, "decode", index);
  const std::string person = random.pick(kNames), city = random.pick(kCities), object = random.pick(kObjects);
  switch (index % 3) {
    case 0:
      return fmt::format("Write a long story about {}, who finds a {} in {}. Tell it in many paragraphs.", person, object, city);
    case 1:
      return fmt::format(
          "Write a C program that reads a list of {}s with their prices and prints them by price. Then explain each function.", object);
    default:
      return fmt::format("Explain in detail, step by step, how a {} is made and what has to be taken care of.", object);
  }
}

}  // namespace cli::eval
