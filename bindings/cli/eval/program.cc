#include "bindings/cli/eval/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

extern char** environ;

namespace cli::eval {

namespace {

constexpr uint32_t kAnswerTokens = 256, kAnswerTokensMax = 65536;
constexpr size_t kProgramLineMax = 16u << 20;

using ProgramLine = nlohmann::json;

}  // namespace

kvrt_status Program::fail(const std::string& why) const {
  return complain(KVRT_INVALID, fmt::format("--program {}: {}", in_quotes(name_), why));
}

kvrt_status Program::start(const std::string& name, const std::string& command, std::unique_ptr<Program>* out) {
  std::unique_ptr<Program> program(new Program(name));
  int in[2], back[2];
  if (pipe2(in, O_CLOEXEC) != 0) return program->fail(std::strerror(errno));
  if (pipe2(back, O_CLOEXEC) != 0) {
    const int why = errno;
    close(in[0]), close(in[1]);
    return program->fail(std::strerror(why));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, back[1], STDOUT_FILENO);
  const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
  const int failed = posix_spawn(&program->process_, "/bin/sh", &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]), close(back[1]);
  program->to_ = fdopen(in[1], "w");
  program->from_ = fdopen(back[0], "r");
  if (failed) {
    program->process_ = -1;
    return program->fail(std::strerror(failed));
  }
  if (!program->to_ || !program->from_) return program->fail("no memory");
  *out = std::move(program);
  return KVRT_OK;
}

Program::~Program() {
  if (to_) std::fclose(to_);
  if (from_) std::fclose(from_);
  if (process_ < 0) return;
  kill(process_, SIGTERM);
  waitpid(process_, nullptr, 0);
}

kvrt_status Program::read(std::string* line, bool* over) {
  line->clear();
  for (int c; (c = std::getc(from_)) != '\n'; *line += static_cast<char>(c)) {
    if (c == EOF && errno == EINTR && std::ferror(from_) && !Interrupt::came()) {
      std::clearerr(from_);
      continue;
    }
    if (c == EOF && Interrupt::came()) return KVRT_CANCELLED;
    if (c == EOF && !line->empty()) return fail("its output ends within a line");
    if (c == EOF) {
      *over = true;
      return KVRT_OK;
    }
    if (line->size() == kProgramLineMax) return fail(fmt::format("a line of its output has more than {}", human_bytes(kProgramLineMax)));
  }
  return KVRT_OK;
}

kvrt_status Program::write(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), to_) == line.size() && std::fflush(to_) == 0) return KVRT_OK;
  return fail(fmt::format("it does not read its input: {}", std::strerror(errno)));
}

kvrt_status Program::take(const std::string& line, const std::function<kvrt_status(const Asked&, std::string*)>& answer,
                          std::vector<double>* scores) {
  const ProgramLine json = ProgramLine::parse(line, nullptr, false);
  constexpr const char* kExpected = "expected a line with \"messages\", \"prompt\" or \"score\", found ";
  if (!json.is_object()) return fail(kExpected + printable(line.substr(0, 200)));
  if (const auto score = json.find("score"); score != json.end()) {
    const double value = score->is_number() ? score->get<double>() : -1;
    if (!(value >= 0 && value <= 1)) return fail(fmt::format("\"score\": a number from 0 to 1 is expected, found {}", score->dump()));
    scores->push_back(value);
    return write("{}\n");
  }
  Asked asked;
  if (const auto messages = json.find("messages"); messages != json.end() && messages->is_array() && !messages->empty()) {
    asked.messages = messages->dump(-1, ' ', false, ProgramLine::error_handler_t::replace);
  } else if (const auto prompt = json.find("prompt"); prompt != json.end() && prompt->is_string()) {
    asked.messages = "[" + message_json("user", prompt->get<std::string>()) + "]";
  } else {
    return fail(kExpected + printable(line.substr(0, 200)));
  }
  const auto most = json.find("tokens_max");
  const bool given = most != json.end();
  if (given && (!most->is_number_unsigned() || most->get<uint64_t>() < 1 || most->get<uint64_t>() > kAnswerTokensMax))
    return fail(fmt::format("\"tokens_max\": a whole number from 1 to {} is expected, found {}", kAnswerTokensMax, most->dump()));
  asked.tokens_max = given ? most->get<uint32_t>() : kAnswerTokens;
  std::string text;
  if (kvrt_status s = answer(asked, &text)) return s;
  return write(Json().add("answer", text).text() + "\n");
}

kvrt_status Program::run(const std::function<kvrt_status(const Asked&, std::string* answer)>& answer, std::vector<double>* scores) {
  for (std::string line;;) {
    bool over = false;
    if (kvrt_status s = read(&line, &over)) return s;
    if (over) break;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (kvrt_status s = take(line, answer, scores)) return s;
  }
  if (kvrt_status s = wait()) return s;
  return scores->empty() ? fail("it ended without a score") : KVRT_OK;
}

kvrt_status Program::wait() {
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
  if (Interrupt::came()) return KVRT_CANCELLED;
  if (WIFSIGNALED(status)) return fail(fmt::format("it was ended by signal {}", WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 ? KVRT_OK : fail(fmt::format("it ended with exit code {}", WEXITSTATUS(status)));
}

}  // namespace cli::eval
