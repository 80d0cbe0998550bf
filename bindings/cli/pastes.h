// The texts pasted into the lines of a chat, and the placeholders that stand for them there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

class Pastes {
 public:
  // Returns the placeholder that stands for the text from now on: "[paste 1: 12 lines]".
  std::string add(std::string text);
  // The place in the line of a placeholder that shares a character with [begin, end).
  std::optional<std::pair<size_t, size_t>> touched(std::wstring_view line, size_t begin, size_t end) const;
  // Puts the texts in place of their placeholders; `any`: there was one. False: a placeholder was changed.
  bool put_back(std::string& line, bool& any) const;

 private:
  struct Paste {
    std::string shown, text;
  };
  std::vector<Paste> all_;  // none is dropped: a line of the history may have any
};

}  // namespace cli
