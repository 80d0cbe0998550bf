#include "bindings/cli/eval/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
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
constexpr int kPollMs = 50, kStopWaits = 40;
constexpr size_t kProgramLineMax = 16u << 20;

using ProgramLine = nlohmann::json;

}  // namespace

kvrt_status Program::fail(const std::string& why) const {
  return complain(KVRT_INVALID, fmt::format("--program {}: {}", in_quotes(name_), why));
}

kvrt_status Program::start(const std::string& name, const std::string& command, std::unique_ptr<Program>* out) {
  std::unique_ptr<Program> program(new Program(name));
  int in[2], back[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return program->fail(std::strerror(errno));
  program->to_ = in[1];
  if (pipe2(back, O_CLOEXEC) != 0) {
    const int why = errno;
    close(in[0]);
    return program->fail(std::strerror(why));
  }
  program->from_ = back[0];
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, back[1], STDOUT_FILENO);
  const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
  const int failed = posix_spawn(&program->process_, "/bin/sh", &actions, &attributes, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in[0]), close(back[1]);
  if (failed) {
    program->process_ = -1;
    return program->fail(std::strerror(failed));
  }
  program->group_ = program->process_;
  *out = std::move(program);
  return KVRT_OK;
}

void Program::close_input() {
  if (to_ >= 0) close(to_);
  to_ = -1;
}

Program::~Program() {
  close_input();
  if (from_ >= 0) close(from_);
  if (group_ < 0) return;
  int status = 0;
  kill(-group_, SIGTERM);  // what it left behind goes, too
  for (int i = 0; i < kStopWaits && !ended(&status); ++i) poll(nullptr, 0, kPollMs);
  if (process_ < 0) return;
  kill(-group_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

bool Program::ended(int* status) {
  if (process_ >= 0 && waitpid(process_, status, WNOHANG) != process_) return false;
  process_ = -1;
  return true;
}

// Its output may stay open behind it, in a process that it left: it is over when it ended and nothing more comes.
kvrt_status Program::read(std::string* line, bool* over) {
  for (;;) {
    if (const size_t end = read_.find('\n'); end != read_.npos) {
      *line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return KVRT_OK;
    }
    if (read_.size() > kProgramLineMax) return fail(fmt::format("a line of its output has more than {}", human_bytes(kProgramLineMax)));
    if (Interrupt::came()) return KVRT_CANCELLED;
    pollfd waited{from_, POLLIN, 0};
    const int ready = poll(&waited, 1, kPollMs);
    siginfo_t info{};
    const bool gone = ready == 0 && waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
    if (ready <= 0 && !gone) continue;
    char piece[4096];
    const ssize_t n = gone ? 0 : ::read(from_, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) read_.append(piece, static_cast<size_t>(n));
    if (n <= 0 && !read_.empty()) return fail("its output ends within a line");
    if (n <= 0) {
      *over = true;
      return KVRT_OK;
    }
  }
}

kvrt_status Program::write(const std::string& line) {
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = send(to_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR && !Interrupt::came()) continue;
    if (n < 0 && Interrupt::came()) return KVRT_CANCELLED;
    if (n < 0) return fail(fmt::format("it does not read its input: {}", std::strerror(errno)));
    sent += static_cast<size_t>(n);
  }
  return KVRT_OK;
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
    constexpr std::string_view kGo = "{}\n";  // after the last score it may not be read
    while (send(to_, kGo.data(), kGo.size(), MSG_NOSIGNAL) < 0 && errno == EINTR && !Interrupt::came()) continue;
    return KVRT_OK;
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
  close_input();
  int status = 0;
  while (!ended(&status)) {
    if (Interrupt::came()) return KVRT_CANCELLED;
    poll(nullptr, 0, kPollMs);
  }
  if (WIFSIGNALED(status)) return fail(fmt::format("it was ended by signal {}", WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 ? KVRT_OK : fail(fmt::format("it ended with exit code {}", WEXITSTATUS(status)));
}

}  // namespace cli::eval
