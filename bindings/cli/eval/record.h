// Record: what configurations of a model said and predicted, as it is measured. It is kept in a file of JSON lines, from which a run that
// was interrupted goes on; scores are made of it anew.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/common.h"

namespace cli::eval {

// The answers to a case.
struct Answers {
  std::vector<std::string> texts;  // by question
  std::vector<double> scores;      // that a program gave; of other axes the case's judges say them
  uint64_t rows = 0;               // that were computed: of prompts what was not reused, and of answers
};

// A long answer.
struct Decode {
  std::vector<int32_t> tokens;  // of the prompt and the answer
  uint64_t prompt = 0;          // tokens of the prompt
  std::string text;
  uint64_t rows = 0;
};

// A text of the base's, read again: at each of its positions what the base and the configuration predict.
struct Reading {
  std::vector<double> divergence;  // KL(base || configuration), in nats
  std::vector<uint64_t> flips;     // positions where the best token is another
};

// What is being measured: a failure is told with it.
struct Place {
  std::string axis;       // "": the model is being opened
  uint32_t index = 0;     // of the case, text or window
  uint64_t position = 0;  // of a token in it, when something failed
};

struct Measured {
  std::map<std::pair<std::string, uint32_t>, Answers> answers;  // by axis and case
  std::map<uint32_t, Decode> decodes;
  std::map<uint32_t, Reading> readings;
  uint64_t bytes_per_token = 0;  // of KV
  uint64_t rows() const;         // of answers; not those of readings, which the base has none of
};

class Record {
 public:
  // A new file, or with `resume` one that a run with the same `header` left. The header says all that results depend on.
  kvrt_status open(const std::string& path, const std::string& header, bool resume);
  // Each goes to the file at once.
  kvrt_status add(const std::string& configuration, const std::string& axis, uint32_t index, Answers answers);
  kvrt_status add(const std::string& configuration, uint32_t index, Decode decode);
  kvrt_status add(const std::string& configuration, uint32_t index, Reading reading);
  kvrt_status set_bytes_per_token(const std::string& configuration, uint64_t bytes);
  Measured& of(const std::string& configuration) { return measured_[configuration]; }
  const Measured& of(const std::string& configuration) const { return measured_.at(configuration); }
  // What was noted under this name first: `value`, if nothing was.
  std::string note(const std::string& name, const std::string& value);
  kvrt_status remove();  // the file: the run is over

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  kvrt_status load(const std::string& header);
  void take(const std::string& line);  // one that is none of a record is left out
  kvrt_status write(const std::string& line);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::map<std::string, Measured> measured_;
  std::map<std::string, std::string> notes_;
};

}  // namespace cli::eval
