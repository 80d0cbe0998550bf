#include "bindings/cli/eval/data.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bindings/cli/eval/files.h"

namespace cli::eval {

namespace {

namespace fs = std::filesystem;
using DataLine = nlohmann::json;

kvrt_status refuse(const DataFile& file, size_t line, const std::string& why) {
  return complain(KVRT_INVALID, fmt::format("--data: {}:{}: {}", in_quotes(file.path), line, why));
}

kvrt_status read_choices(const DataFile& file, const DataLine& json, Item* item) {
  constexpr const char* kExpected = "\"choices\": a list of two or more texts that are not empty is expected";
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->size() < 2) return refuse(file, item->line, kExpected);
  for (const DataLine& choice : *choices) {
    if (!choice.is_string() || choice.get<std::string>().empty()) return refuse(file, item->line, kExpected);
    item->choices.push_back(choice.get<std::string>());
  }
  return KVRT_OK;
}

kvrt_status read_item(const DataFile& file, const DataLine& json, Item* item) {
  if (!json.is_object())
    return refuse(file, item->line, R"(a JSON object is expected: {"prompt": "...", "choices": ["...", "..."], "answer": 0})");
  auto prompt = json.find("prompt");
  if (prompt == json.end()) prompt = json.find("query");
  if (prompt == json.end() || !prompt->is_string()) return refuse(file, item->line, "\"prompt\": a text is expected (or \"query\")");
  item->prompt = prompt->get<std::string>();
  if (const auto delimiter = json.find("delimiter"); delimiter != json.end()) {
    if (!delimiter->is_string()) return refuse(file, item->line, "\"delimiter\": a text is expected");
    item->delimiter = delimiter->get<std::string>();
  }
  if (kvrt_status s = read_choices(file, json, item)) return s;
  const auto answer = json.find("answer");
  if (answer == json.end() || !answer->is_number_unsigned() || answer->get<uint64_t>() >= item->choices.size()) {
    return refuse(file, item->line,
                  fmt::format("\"answer\": the place of the right choice is expected, 0 to {}, found {}", item->choices.size() - 1,
                              answer == json.end() ? "nothing" : answer->dump(-1, ' ', true).substr(0, 40)));
  }
  item->answer = answer->get<size_t>();
  return KVRT_OK;
}

kvrt_status read_items(const std::string& text, DataFile* file) {
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view one = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (one.find_first_not_of(" \t\r") == one.npos) continue;
    Item item;
    item.line = line;
    if (kvrt_status s = read_item(*file, DataLine::parse(one, nullptr, false), &item)) return s;
    file->items.push_back(std::move(item));
  }
  return file->items.empty() ? refuse(*file, 1, "no line is there: a JSON object a line is expected") : KVRT_OK;
}

kvrt_status read_one(const std::string& kind, const fs::path& path, DataFile* file) {
  file->name = kind + "/" + path.stem().string();
  file->path = path.string();
  std::string text;
  if (kvrt_status s = read_file(file->path, text)) return s;
  file->bytes = text.size();
  file->sha256 = sha256(text);
  if (kind == kChoices) return read_items(text, file);
  if (text.empty()) return refuse(*file, 1, "a text is expected, the file is empty");
  for (size_t at = 0, line = 1; at < text.size();) {
    uint32_t value = 0;
    const size_t size = code_point(std::string_view(text).substr(at), value);
    if (size == 0) return refuse(*file, line, "UTF-8 is expected");
    line += text[at] == '\n';
    at += size;
  }
  file->text = std::move(text);
  return KVRT_OK;
}

}  // namespace

kvrt_status read_data(const std::string& folder, std::vector<DataFile>* out) {
  for (const auto& [kind, extension] : {std::pair(kChoices, ".jsonl"), std::pair(kText, ".txt")}) {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator at(fs::path(folder) / kind, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == extension) paths.push_back(at->path());
    }
    if (error && error != std::errc::no_such_file_or_directory)
      return complain(KVRT_IO, fmt::format("--data: cannot read {}: {}", in_quotes((fs::path(folder) / kind).string()), error.message()));
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      DataFile file;
      if (kvrt_status s = read_one(kind, path, &file)) return s;
      out->push_back(std::move(file));
    }
  }
  if (!out->empty()) return KVRT_OK;
  return complain(KVRT_NOT_FOUND, fmt::format("--data: {} has neither choices/*.jsonl nor text/*.txt", in_quotes(folder)));
}

std::string sha256_of_data(const std::vector<DataFile>& data) {
  std::string all;
  for (const DataFile& file : data) all += file.sha256 + "  " + file.name + "\n";
  return sha256(all);
}

}  // namespace cli::eval
