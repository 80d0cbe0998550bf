// What takes several steps over a short text: variables that stand for others, counting, chains of sums of three digits.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/cases/judge.h"
#include "bindings/cli/eval/cases/words.h"

namespace cli::eval {

namespace {

std::string variable(size_t i) { return fmt::format("{}{}", static_cast<char>('A' + i % 26), i / 26 + 1); }

}  // namespace

// Five chains of four variables, their lines in mixed order, but each after the one that it names (RULER's variable tracking, by its idea).
Case tracing_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr size_t kChains = 5, kLength = 4;
  Random random(seed, "tracing", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  std::vector<std::string> names;
  for (size_t i = 0; i < kChains * kLength; ++i) names.push_back(variable(i));
  random.shuffle(names);
  std::vector<size_t> order, said(kChains, 0);
  for (size_t i = 0; i < kChains * kLength; ++i) order.push_back(i % kChains);
  random.shuffle(order);
  std::vector<std::string> values;
  for (size_t c = 0; c < kChains; ++c) values.push_back(std::to_string(random.between(1000, 9999)));
  std::string text;
  for (const size_t c : order) {
    const size_t i = said[c]++;
    const std::string& name = names[c * kLength + i];
    text += i == 0 ? fmt::format("Let {} be {}. ", name, values[c])
                   : fmt::format("Let {} be the same as {}. ", name, names[c * kLength + i - 1]);
    text += filler(&random) + " ";
  }
  out.document = "Read this text. A question about it follows.\n\n" + text + "\n\n";
  for (size_t c = 0; c < kChains; ++c) {
    out.questions.push_back({fmt::format("Which number is {}? Answer with the number alone.", names[c * kLength + kLength - 1]),
                             kShortAnswer, values[c], random.pick(values), whole(chooses(values[c], values))});
  }
  return out;
}

Case counting_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr int64_t kLeast = 2, kMost = 9;
  Random random(seed, "counting", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  std::vector<std::string> all;
  const auto fruits = random.sample(kFruits, 6);
  std::vector<int64_t> counts;
  for (const char* fruit : fruits) {
    counts.push_back(random.between(kLeast, kMost));
    all.insert(all.end(), static_cast<size_t>(counts.back()), fruit);
  }
  random.shuffle(all);
  out.document = fmt::format("This is a list: {}.\n\n", fmt::join(all, ", "));
  for (size_t i = 0; i < 3; ++i) {
    out.questions.push_back({fmt::format("How many times does the word {} stand in the list? Answer with a number alone.", fruits[i]),
                             kShortAnswer, std::to_string(counts[i]), std::to_string(random.between(kLeast, kMost)),
                             whole(first_number_is(counts[i]))});
  }
  return out;
}

Case arithmetic_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr size_t kQuestions = 12;
  Random random(seed, "arithmetic", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  out.document =
      "Compute step by step, in one line, as in these examples.\n"
      "Start with 215. Add 342. Subtract 120. -> 215 + 342 = 557, 557 - 120 = 437. Result: 437\n"
      "Start with 804. Subtract 391. Add 256. -> 804 - 391 = 413, 413 + 256 = 669. Result: 669\n\n";
  for (size_t q = 0; q < kQuestions; ++q) {
    int64_t value = random.between(300, 700);
    std::string text = fmt::format("Start with {}.", value), right;
    for (size_t step = 0; step < 3; ++step) {
      const int64_t by = random.between(101, 299);
      const bool add = value < 500;
      const int64_t next = add ? value + by : value - by;
      text += fmt::format(" {} {}.", add ? "Add" : "Subtract", by);
      right += fmt::format("{}{} {} {} = {}", step ? ", " : "", value, add ? '+' : '-', by, next);
      value = next;
    }
    out.questions.push_back({text + " ->", 72, fmt::format("{}. Result: {}", right, value),
                             fmt::format("Result: {}", random.between(201, 799)), whole(results_in(value))});
  }
  return out;
}

}  // namespace cli::eval
