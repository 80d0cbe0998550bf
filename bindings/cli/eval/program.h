// Program: an axis of somebody else's, as another process. It writes a JSON object a line, and reads one for each:
//   {"messages": [...], "tokens_max": 64}  ->  {"answer": "..."}    or {"prompt": "..."}, which is one message of a user
//   {"score": 0.5}                         ->  {}                   how right what it asked since the last score was: 0 to 1
// The axis ends with its output, or with it. An exit code that is not 0 ends the run.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings/cli/common.h"

namespace cli::eval {

// What a program asks.
struct Asked {
  std::string messages;  // a JSON array
  uint32_t tokens_max = 0;
};

class Program {
 public:
  // `command` is the shell's.
  static kvrt_status start(const std::string& name, const std::string& command, std::unique_ptr<Program>* out);
  ~Program();
  Program(const Program&) = delete;

  // Answers all that it asks, and collects the scores. CANCELLED: Ctrl-C came.
  kvrt_status run(const std::function<kvrt_status(const Asked&, std::string* answer)>& answer, std::vector<double>* scores);

 private:
  explicit Program(std::string name) : name_(std::move(name)) {}
  kvrt_status fail(const std::string& why) const;
  kvrt_status read(std::string* line, bool* over);
  kvrt_status write(const std::string& line);
  bool ended(int* status);
  kvrt_status take(const std::string& line, const std::function<kvrt_status(const Asked&, std::string*)>& answer,
                   std::vector<double>* scores);
  kvrt_status wait();
  void close_input();

  const std::string name_;
  pid_t process_ = -1, group_ = -1;  // it, till it ended; and the group that it leads
  int from_ = -1, to_ = -1;          // its output, and a socket that is its input
  std::string read_;                 // of the output, and not taken yet
};

}  // namespace cli::eval
