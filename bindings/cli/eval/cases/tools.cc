// What an agent has to keep in mind: what its calls printed, which tool is for what, and the state of a file system that it changes.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/cases/file_system.h"
#include "bindings/cli/eval/cases/judge.h"
#include "bindings/cli/eval/cases/words.h"

namespace cli::eval {

namespace {

struct Tool {
  const char *name, *task;
};
constexpr std::array<Tool, 12> kTools = {{{"get_weather", "tell the weather of {}"},
                                          {"book_train", "buy a ticket to {}"},
                                          {"find_hotel", "find a bed for the night in {}"},
                                          {"convert_money", "change euros to the currency used in {}"},
                                          {"translate_text", "translate a letter that came from {}"},
                                          {"send_mail", "write to a friend in {}"},
                                          {"show_map", "show the streets of {}"},
                                          {"get_time", "tell how late it is in {}"},
                                          {"call_doctor", "get medical help in {}"},
                                          {"order_food", "have a dinner delivered in {}"},
                                          {"rent_bicycle", "hire something with two wheels in {}"},
                                          {"search_news", "find out what happened yesterday in {}"}}};

}  // namespace

Case calls_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr size_t kCalls = 12, kQuestions = 6;
  constexpr std::array kCommands = {"count", "measure", "weigh", "list", "check", "scan"};
  Random random(seed, "calls", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  out.document = "This is the log of an agent's tool calls.\n\n";
  std::vector<std::string> printed;
  for (size_t i = 0; i < kCalls; ++i) {
    printed.push_back(std::to_string(random.between(1000, 9999)));
    const char* const command = random.pick(kCommands);
    const char* const object = random.pick(kObjects);
    const std::string said = filler(&random);
    out.document +=
        fmt::format("Call {0}: {1}(\"{2}\")\nCall {0} printed: {3}\nThe agent says: {4}\n\n", i + 1, command, object, printed.back(), said);
  }
  std::vector<size_t> asked;
  for (size_t i = 0; i < kCalls; ++i) asked.push_back(i);
  for (const size_t i : random.sample(asked, kQuestions)) {
    out.questions.push_back({fmt::format("What did call {} print? Answer with the number alone.", i + 1), kShortAnswer, printed[i],
                             random.pick(printed), whole(chooses(printed[i], printed))});
  }
  return out;
}

Case routing_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr size_t kOffered = 6, kQuestions = 12;
  Random random(seed, "routing", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  const auto offered = random.sample(kTools, kOffered);
  std::vector<std::string> names;
  out.document = "These are your tools:\n";
  for (const Tool& tool : offered) {
    names.emplace_back(tool.name);
    out.document += fmt::format("- {}: {}\n", tool.name, fmt::format(fmt::runtime(tool.task), "a city"));
  }
  out.document += "\n";
  for (size_t q = 0; q < kQuestions; ++q) {
    const Tool& tool = random.pick(offered);
    out.questions.push_back({fmt::format("Task: {}. Answer with the name of the tool for it alone.",
                                         fmt::format(fmt::runtime(tool.task), random.pick(kCities))),
                             kShortAnswer, tool.name, random.pick(names), whole(chooses(tool.name, names))});
  }
  return out;
}

// Each turn asks for one command, and says what all earlier ones came to only by what was asked. The answer is right if the command changes
// the files as the right one does.
Case files_case(uint64_t seed, uint32_t index, uint32_t) {
  constexpr size_t kTurns = 8;
  Random random(seed, "files", index);
  Case out;
  out.name = fmt::format("{}", index + 1);
  out.turns = true;
  FileSystem files;
  for (const char* object : random.sample(kObjects, 4)) files.write(object, random.pick(kFruits));
  out.document =
      "You keep a folder of files. Answer each request with one command in one line, and nothing else. The commands:\n"
      "write FILE WORD\ncopy FILE NEW\nmove FILE NEW\ndelete FILE\n\n"
      "The files and the word in each: " +
      files.text() + "\n\n";
  for (size_t t = 0; t < kTurns; ++t) {
    const FileSystem before = files;
    const FileRequest request = files.request(&random);
    files.run(request.command);
    std::string wrong = fmt::format("delete {}", random.pick(kObjects));
    out.questions.push_back(
        {request.words, kShortAnswer, request.command, std::move(wrong), whole([before, after = files](std::string_view answer) {
           FileSystem tried = before;
           return tried.run(answer) && tried == after ? 1.0 : 0.0;
         })});
  }
  return out;
}

}  // namespace cli::eval
