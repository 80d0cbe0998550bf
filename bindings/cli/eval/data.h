// Data: a folder of multiple choice and of texts, which --data names.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/common.h"

namespace cli::eval {

inline constexpr const char *kChoices = "choices", *kText = "text";  // kinds of files, and their folders

// A line of a file of multiple choice.
struct Item {
  std::string prompt;
  std::string delimiter = " ";  // stands between the prompt and a choice
  std::vector<std::string> choices;
  size_t answer = 0;  // the one that is right
  size_t line = 0;
};

struct DataFile {
  std::string name;  // "choices/NAME" or "text/NAME": of an axis
  std::string path, sha256;
  uint64_t bytes = 0;
  std::vector<Item> items;
  std::string text;  // of a text
  bool is_text() const { return items.empty(); }
};

// All that is wrong with a line is told with its file and number.
kvrt_status read_data(const std::string& folder, std::vector<DataFile>* out);
std::string sha256_of_data(const std::vector<DataFile>& data);  // of all names and contents

}  // namespace cli::eval
