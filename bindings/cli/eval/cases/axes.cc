#include "bindings/cli/eval/cases/axes.h"

#include <array>

namespace cli::eval {

namespace {

constexpr double kOfNames = 1.0 / 8, kOfNumbers = 1.0 / 12, kOfChains = 1.0 / 5, kThird = 1.0 / 3, kCount = 1.0 / 8, kOfTools = 1.0 / 6,
                 kHalf = 0.5, kOfDeletes = 1.0 / 4 / 20;
constexpr std::array<Axis, 13> kAxes = {{
    {"needle", "one fact in a long text", kOfNumbers, 6, needle_case},
    {"needles", "four facts of one person in a long text", kThird, 3, needles_case},
    {"hidden", "a fact that shares no word with its question", kOfNames, 6, hidden_case},
    {"tracing", "variables that stand for others", kOfChains, 12, tracing_case},
    {"counting", "how often a word stands in a list", kCount, 16, counting_case},
    {"arithmetic", "three sums of three digits, one after the other", 0, 12, arithmetic_case},
    {"documents", "passages that say it, or do not", kThird, 8, documents_case},
    {"calls", "what a tool call printed", kOfNumbers, 10, calls_case},
    {"routing", "which tool is for a task", kOfTools, 12, routing_case},
    {"files", "a folder that commands change", kOfDeletes, 10, files_case},
    {"rules", "ten rules of the system message, each counted", kHalf, 8, rules_case},
    {"secrets", "what the system message says in confidence", 1, 8, secrets_case},
    {"turns", "what the user said turns ago", 0, 8, turns_case},
}};

}  // namespace

std::span<const Axis> axes() { return kAxes; }

std::string text_of(const Case& about) {
  std::string text = about.name + "\n" + about.document;
  for (const Line& line : about.before) text += line.role + ": " + line.content + "\n";
  for (const Question& question : about.questions) {
    text += question.text + "\n" + question.right + "\n";
    for (const Part& part : question.parts) text += part.name + "\n";
  }
  return text;
}

}  // namespace cli::eval
