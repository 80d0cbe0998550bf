#include "bindings/cli/eval/cases/file_system.h"

#include <fmt/core.h>

#include <algorithm>

#include "bindings/cli/eval/cases/judge.h"
#include "bindings/cli/eval/cases/words.h"

namespace cli::eval {

namespace {

// Words of letters, digits and _, in small letters: what stands around them (quotes, ends of sentences) is left out.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  for (const char c : lower(line)) {
    const bool in_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (in_word) words.back() += c;
    if (!in_word && !words.back().empty()) words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

void FileSystem::write(const std::string& file, const std::string& word) { files_[file] = word; }

bool FileSystem::run(std::string_view answer) {
  while (!answer.empty()) {
    const size_t end = std::min(answer.find('\n'), answer.size());
    const std::vector<std::string> words = words_of(answer.substr(0, end));
    answer.remove_prefix(std::min(end + 1, answer.size()));
    if (words.size() < 2) continue;
    const std::string& command = words[0];
    if (command == "delete") return files_.erase(words[1]) == 1;
    if (words.size() < 3) continue;
    if (command == "write") {
      write(words[1], words[2]);
      return true;
    }
    if (command != "copy" && command != "move") continue;
    const auto from = files_.find(words[1]);
    if (from == files_.end()) return false;
    const std::string word = from->second;
    if (command == "copy") {
      write(words[2], word);
      newest_ = words[2];
      return true;
    }
    files_.erase(from);  // a file that is renamed is not made anew
    files_[words[2]] = word;
    if (newest_ == words[1]) newest_ = words[2];
    return true;
  }
  return false;
}

FileRequest FileSystem::request(Random* random) const {
  std::vector<std::string> names, free;
  for (const auto& [file, word] : files_) names.push_back(file);
  for (const char* object : kObjects) {
    if (!files_.contains(object)) free.emplace_back(object);
  }
  const std::string fresh = random->pick(free), file = random->pick(names);
  const std::string& held = files_.at(file);
  std::string word = random->pick(kFruits);
  while (word == held) word = random->pick(kFruits);  // else there is nothing to do
  const auto same = std::count_if(files_.begin(), files_.end(), [&](const auto& entry) { return entry.second == held; });
  const bool newest = files_.contains(newest_) && files_.at(newest_) != word && random->one_in(3);
  const std::string which = newest ? "the file that was made last" : same == 1 ? "the file that holds " + held : "the file " + file;
  const std::string& meant = newest ? newest_ : file;
  switch (random->below(names.size() > 2 ? 4 : 3)) {
    case 0:
      return {fmt::format("Put the word {} into {}.", word, which), fmt::format("write {} {}", meant, word)};
    case 1:
      return {fmt::format("Make a copy of {} and name it {}.", which, fresh), fmt::format("copy {} {}", meant, fresh)};
    case 2:
      return {fmt::format("Rename {} to {}.", which, fresh), fmt::format("move {} {}", meant, fresh)};
    default:
      return {fmt::format("Remove {}.", which), fmt::format("delete {}", meant)};
  }
}

std::string FileSystem::text() const {
  std::string out;
  for (const auto& [file, word] : files_) out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", file, word);
  return out;
}

}  // namespace cli::eval
