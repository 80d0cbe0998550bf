#include "bindings/cli/eval/cases/words.h"

#include <fmt/core.h>

namespace cli::eval {

namespace {

constexpr std::array kAdjectives = {"old",    "green",   "heavy",  "quiet", "narrow", "bright",
                                    "broken", "painted", "wooden", "small", "round",  "dusty"};
constexpr std::array kVerbs = {"repaired", "sold", "painted", "carried", "borrowed", "cleaned", "hid", "found", "measured", "described"};
constexpr std::array kPersons = {"A carpenter", "The postman", "A visitor", "The gardener", "An old sailor", "The teacher"};
constexpr std::array kPlaces = {"behind the station", "near the harbour", "beside the mill", "in the attic",        "at the market",
                                "under the bridge",   "in the garden",    "along the canal", "outside the theatre", "next to the bakery"};
constexpr std::array kTimes = {"on Monday",      "in early spring", "before sunrise", "after the storm", "during the fair",
                               "late in autumn", "on a rainy day",  "at noon",        "in the evening",  "last winter"};
constexpr std::array kWeather = {"The fog stayed over the hills {}.",
                                 "Nobody remembered who had opened the gate {}.",
                                 "The river was calm {}.",
                                 "A long train passed through the valley {}.",
                                 "The shops closed early {}.",
                                 "Two dogs slept in the sun {}."};

}  // namespace

// Each draw is a statement of its own: the order of a call's arguments is the compiler's choice.
std::string filler(Random* random) {
  const bool weather = random->one_in(4);
  const char* const time = random->pick(kTimes);
  if (weather) return fmt::format(fmt::runtime(random->pick(kWeather)), time);
  const char* const who = random->pick(kPersons);
  const char* const verb = random->pick(kVerbs);
  const char* const adjective = random->pick(kAdjectives);
  const char* const object = random->pick(kObjects);
  const char* const place = random->pick(kPlaces);
  return fmt::format("{} {} the {} {} {} {}.", who, verb, adjective, object, place, time);
}

std::string haystack(Random* random, uint32_t tokens, const std::vector<std::string>& needles) {
  std::string text;
  const size_t letters = letters_of(tokens);
  size_t next = 0;
  while (text.size() < letters || next < needles.size()) {
    // Needle i stands after (i + 1/4) / n of the text.
    const bool due = next < needles.size() && text.size() * needles.size() * 4 >= letters * (4 * next + 1);
    text += due || text.size() >= letters ? needles[next++] : filler(random);
    text += ' ';
  }
  text.pop_back();
  return text;
}

}  // namespace cli::eval
