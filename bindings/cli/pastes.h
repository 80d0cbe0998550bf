// What was pasted into the lines of a chat, and what stands for it there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

class Pastes {
 public:
  // "[paste 1: 12 lines]", which stands for the text from now on.
  std::string add(std::string text);
  // Where a placeholder lies in the line that shares a character with [begin, end).
  std::optional<std::pair<size_t, size_t>> touched(std::wstring_view line, size_t begin, size_t end) const;
  // The line with the texts in place of what stands for them; `any`: there were some. False: a placeholder is no more as it was.
  bool put_back(std::string& line, bool& any) const;

 private:
  struct Paste {
    std::string shown, text;
  };
  std::vector<Paste> all_;  // a line of the history may have any
};

}  // namespace cli
