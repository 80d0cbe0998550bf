// Facts in a long text: one, several of one person, and one that shares no word with its question (after NoLiMa, arXiv 2502.05167; the
// pairs are our own).
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/cases/judge.h"
#include "bindings/cli/eval/cases/words.h"

namespace cli::eval {

namespace {

constexpr const char* kRead = "Read this text. A question about it follows.\n\n";

// A quarter, a half and all of the longest: in turn.
uint32_t length_of(uint32_t index, uint32_t tokens_max) { return tokens_max >> (2 - index % 3); }

std::string code(Random* random) { return std::to_string(random->between(10000, 99999)); }

std::string name_of(uint32_t index, uint32_t tokens) { return fmt::format("{} tokens, {}", tokens, index + 1); }

struct Hidden {
  const char *fact, *question;
};
constexpr std::array<Hidden, 16> kHidden = {{
    {"{} feels ill after a glass of milk.", "Who should not be offered cheese?"},
    {"{} lives beside the Eiffel Tower.", "Who has a home in the capital of France?"},
    {"{} plays the violin in an orchestra every Friday.", "Who is a musician?"},
    {"{} is afraid of everything that barks.", "Who would not want to keep a dog?"},
    {"{} sets broken bones in a hospital.", "Who is a doctor?"},
    {"{} bakes bread from four in the morning.", "Who has to get up very early for work?"},
    {"{} has never learned to swim.", "Who should stay out of deep water?"},
    {"{} eats neither meat nor fish.", "Who is a vegetarian?"},
    {"{} grew up within sight of Mount Fuji.", "Who spent a childhood in Japan?"},
    {"{} steers an aeroplane across the Atlantic twice a week.", "Who is a pilot?"},
    {"{} wears thick glasses and still sees little.", "Who has poor eyesight?"},
    {"{} won three medals at the Olympic Games by running.", "Who is a successful athlete?"},
    {"{} keeps hives and sells what they give in jars.", "Who has honey to sell?"},
    {"{} teaches algebra to children of twelve.", "Who gives lessons in mathematics?"},
    {"{} has four hundred tulips in the garden.", "Who grows flowers?"},
    {"{} writes verses that appear in magazines.", "Who is a poet?"},
}};

}  // namespace

Case needle_case(uint64_t seed, uint32_t index, uint32_t tokens_max) {
  constexpr size_t kNeedles = 12;
  Random random(seed, "needle", index);
  Case out;
  const uint32_t tokens = length_of(index, tokens_max);
  out.name = name_of(index, tokens);
  std::vector<std::string> facts, numbers;
  for (size_t i = 0; i < kNeedles; ++i) numbers.push_back(code(&random));
  for (const char* name : random.sample(kNames, kNeedles)) {
    const std::string& number = numbers[facts.size()];
    facts.push_back(fmt::format("The locker of {} has the number {}.", name, number));
    out.questions.push_back({fmt::format("Which number has the locker of {}? Answer with the number alone.", name), kShortAnswer, number,
                             random.pick(numbers), whole(chooses(number, numbers))});
  }
  out.document = kRead + haystack(&random, tokens, facts) + "\n\n";
  return out;
}

Case needles_case(uint64_t seed, uint32_t index, uint32_t tokens_max) {
  constexpr size_t kPeople = 3, kEach = 4;
  Random random(seed, "needles", index);
  Case out;
  const uint32_t tokens = length_of(index, tokens_max);
  out.name = name_of(index, tokens);
  std::vector<std::string> facts, all;
  for (size_t i = 0; i < kPeople * kEach; ++i) all.push_back(code(&random));
  for (const char* name : random.sample(kNames, kPeople)) {
    const size_t first = facts.size();
    const std::vector<std::string> codes(all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(first + kEach));
    for (const std::string& one : codes) facts.push_back(fmt::format("One of the keys of {} has the number {}.", name, one));
    out.questions.push_back({fmt::format("Which numbers do the keys of {} have? There are {}. Answer with the numbers alone.", name, kEach),
                             2 * kShortAnswer, fmt::format("{}", fmt::join(codes, ", ")),
                             fmt::format("{}", fmt::join(random.sample(all, kEach), ", ")), whole(says_share_of(codes))});
  }
  random.shuffle(facts);
  out.document = kRead + haystack(&random, tokens, facts) + "\n\n";
  return out;
}

Case hidden_case(uint64_t seed, uint32_t index, uint32_t tokens_max) {
  constexpr size_t kFacts = 8;
  Random random(seed, "hidden", index);
  Case out;
  const uint32_t tokens = length_of(index, tokens_max);
  out.name = name_of(index, tokens);
  std::vector<std::string> facts, names;
  for (const char* name : random.sample(kNames, kFacts)) names.emplace_back(name);
  const auto pairs = random.sample(kHidden, kFacts);
  for (size_t i = 0; i < kFacts; ++i) {
    facts.push_back(fmt::format(fmt::runtime(pairs[i].fact), names[i]));
    out.questions.push_back({fmt::format("{} Answer with the name alone.", pairs[i].question), kShortAnswer, names[i], random.pick(names),
                             whole(chooses(names[i], names))});
  }
  out.document = kRead + haystack(&random, tokens, facts) + "\n\n";
  return out;
}

}  // namespace cli::eval
