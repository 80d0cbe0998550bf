// FileSystem: a folder of files of one word each, which commands in text change.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "bindings/cli/eval/cases/random.h"

namespace cli::eval {

// A request that names files by what they are or were, and the command that fulfils it.
struct FileRequest {
  std::string words, command;
};

class FileSystem {
 public:
  void write(const std::string& file, const std::string& word);
  // Runs the first line of an answer that is a command. False: there is none, or it is of a file that is not there.
  bool run(std::string_view answer);
  // A request about its files as they are now: by the word in a file, the last file that was made, or a name.
  FileRequest request(Random* random) const;
  std::string text() const;  // "lamp: apple, violin: plum"
  bool operator==(const FileSystem& other) const { return files_ == other.files_; }

 private:
  std::map<std::string, std::string> files_;
  std::string newest_;  // the last copy; "": there was none
};

}  // namespace cli::eval
