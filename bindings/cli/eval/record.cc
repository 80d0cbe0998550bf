#include "bindings/cli/eval/record.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace cli::eval {

namespace {

using RecordLine = nlohmann::ordered_json;

std::string text_of(const RecordLine& line) { return line.dump(-1, ' ', false, RecordLine::error_handler_t::replace) + "\n"; }

}  // namespace

uint64_t Measured::rows() const {
  uint64_t sum = 0;
  for (const auto& [key, a] : answers) sum += a.rows;
  for (const auto& [index, d] : decodes) sum += d.rows;
  return sum;
}

kvrt_status Record::open(const std::string& path, const std::string& header, bool resume) {
  path_ = path;
  if (resume) {
    if (kvrt_status s = load(header)) return s;
  }
  file_.reset(std::fopen(path.c_str(), resume ? "abe" : "wbxe"));
  if (!file_ && errno == EEXIST) {
    return complain(KVRT_CONFLICT,
                    fmt::format("{} is there, from a run that did not end: --resume goes on with it; else remove it", in_quotes(path)));
  }
  if (!file_) return complain(KVRT_IO, fmt::format("cannot write {}: {}", in_quotes(path), std::strerror(errno)));
  return write(resume ? "\n" : header + "\n");  // a line that was cut ends
}

kvrt_status Record::load(const std::string& header) {
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line))
    return complain(KVRT_NOT_FOUND, fmt::format("there is nothing to resume: {} cannot be read, or is empty", in_quotes(path_)));
  if (line != header) {
    return complain(
        KVRT_INCOMPATIBLE,
        fmt::format("{} is of a run with another model, version, seed or other options: start it anew without --resume, after removing it",
                    in_quotes(path_)));
  }
  while (std::getline(file, line)) take(line);  // one that was cut is no line: what it says is measured again
  if (file.bad()) return complain(KVRT_IO, fmt::format("cannot read {}", in_quotes(path_)));
  return KVRT_OK;
}

void Record::take(const std::string& text) {
  const RecordLine line = RecordLine::parse(text, nullptr, false);
  if (!line.is_object()) return;
  try {
    const std::string kind = line.at("kind");
    if (kind == "note") {
      notes_[line.at("name")] = line.at("value");
      return;
    }
    Measured& m = measured_[line.at("configuration").get<std::string>()];
    if (kind == "bytes") m.bytes_per_token = line.at("bytes_per_token");
    if (kind == "answers") {
      m.answers[{line.at("axis"), line.at("case")}] = {line.at("texts"), line.at("scores"), line.at("rows")};
    }
    if (kind == "decode") {
      Decode decode{line.at("tokens"), line.at("prompt"), line.at("text"), line.at("rows")};
      if (decode.prompt > decode.tokens.size()) return;
      m.decodes[line.at("case").get<uint32_t>()] = std::move(decode);
    }
    if (kind == "reading") m.readings[line.at("case").get<uint32_t>()] = {line.at("divergence"), line.at("flips")};
  } catch (const nlohmann::json::exception&) {  // no line of a record
  }
}

kvrt_status Record::write(const std::string& line) {
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() && std::fflush(file_.get()) == 0) return KVRT_OK;
  return complain(KVRT_IO, fmt::format("cannot write {}: {}", in_quotes(path_), std::strerror(errno)));
}

kvrt_status Record::add(const std::string& configuration, const std::string& axis, uint32_t index, Answers answers) {
  const RecordLine line = {{"kind", "answers"},      {"configuration", configuration}, {"axis", axis},        {"case", index},
                           {"texts", answers.texts}, {"scores", answers.scores},       {"rows", answers.rows}};
  measured_[configuration].answers[{axis, index}] = std::move(answers);
  return write(text_of(line));
}

kvrt_status Record::add(const std::string& configuration, uint32_t index, Decode decode) {
  const RecordLine line = {{"kind", "decode"},        {"configuration", configuration}, {"case", index},
                           {"tokens", decode.tokens}, {"prompt", decode.prompt},        {"text", decode.text},
                           {"rows", decode.rows}};
  measured_[configuration].decodes[index] = std::move(decode);
  return write(text_of(line));
}

kvrt_status Record::add(const std::string& configuration, uint32_t index, Reading reading) {
  const RecordLine line = {
      {"kind", "reading"}, {"configuration", configuration}, {"case", index}, {"divergence", reading.divergence}, {"flips", reading.flips}};
  measured_[configuration].readings[index] = std::move(reading);
  return write(text_of(line));
}

kvrt_status Record::set_bytes_per_token(const std::string& configuration, uint64_t bytes) {
  measured_[configuration].bytes_per_token = bytes;
  return write(text_of({{"kind", "bytes"}, {"configuration", configuration}, {"bytes_per_token", bytes}}));
}

std::string Record::note(const std::string& name, const std::string& value) {
  if (const auto known = notes_.find(name); known != notes_.end()) return known->second;
  notes_[name] = value;
  write(text_of({{"kind", "note"}, {"name", name}, {"value", value}}));  // a file that cannot be written says so with the next answer
  return value;
}

kvrt_status Record::remove() {
  file_.reset();
  if (std::remove(path_.c_str()) == 0) return KVRT_OK;
  return complain(KVRT_IO, fmt::format("cannot remove {}: {}", in_quotes(path_), std::strerror(errno)));
}

}  // namespace cli::eval
