// Case: questions to a model about a text, or turns of a conversation, with what judges the answers. Made of a seed alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli::eval {

// How right an answer is: 0 to 1.
using Judge = std::function<double(std::string_view answer)>;

struct Part {
  std::string name;  // "" where an answer has one part
  Judge judge;
};

struct Question {
  std::string text;
  uint32_t tokens_max = 0;  // of the answer
  std::string right;        // an answer that is right in all parts
  std::string blind;        // an answer of one who sees the question alone
  std::vector<Part> parts;  // the answer's score is their mean
};

struct Line {
  std::string role, content;
};

struct Case {
  std::string name;          // "4,000 tokens, 2"
  std::vector<Line> before;  // messages that come first
  std::string document;      // the beginning of the user's message, before the question
  bool turns = false;        // the questions are turns of one conversation, the document is in the first; else each is asked by itself
  std::vector<Question> questions;
};

// What is measured by cases.
struct Axis {
  const char* name;
  const char* what;                                                  // a line for people
  double chance;                                                     // the mean score of blind answers
  uint32_t cases;                                                    // of a run at its default size
  Case (*make)(uint64_t seed, uint32_t index, uint32_t tokens_max);  // documents have about so many tokens at most
};
std::span<const Axis> axes();
std::string text_of(const Case& about);  // all that it says, with the right answers

}  // namespace cli::eval
