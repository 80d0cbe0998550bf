#include "bindings/cli/eval/windows.h"

#include <algorithm>

namespace cli::eval {

namespace {

bool follows(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The bytes of the white space that the text begins with; 0: it begins with something else.
size_t white_space_at(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  if (at(0) < 0x80) return !text.empty() && ((at(0) >= 9 && at(0) <= 13) || (at(0) >= 28 && at(0) <= 32)) ? 1 : 0;
  if (at(0) == 0xc2) return at(1) == 0x85 || at(1) == 0xa0 ? 2 : 0;
  const uint32_t three = (at(0) << 16) + (at(1) << 8) + at(2);
  const bool white = three == 0xe19a80 || (three >= 0xe28080 && three <= 0xe2808a) || three == 0xe280a8 || three == 0xe280a9 ||
                     three == 0xe280af || three == 0xe2819f || three == 0xe38080;
  return white ? 3 : 0;
}

}  // namespace

std::vector<Window> windows_of(std::span<const int32_t> tokens, int32_t prefix, size_t tokens_max) {
  std::vector<Window> windows;
  const size_t most = tokens_max - 1;  // scored in a window
  for (size_t done = 0; done < tokens.size();) {
    const size_t scored = std::min(most, tokens.size() - done), end = done + scored;
    Window window;
    window.context = done == 0 ? 1 : tokens_max - scored;
    if (done == 0) window.tokens.push_back(prefix);
    const size_t begin = done == 0 ? 0 : end - tokens_max;
    window.tokens.insert(window.tokens.end(), tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.begin() + static_cast<ptrdiff_t>(end));
    windows.push_back(std::move(window));
    done = end;
  }
  return windows;
}

uint64_t characters_in(std::string_view text) {
  return static_cast<uint64_t>(std::count_if(text.begin(), text.end(), [](char c) { return !follows(c); }));
}

uint64_t words_in(std::string_view text) {
  uint64_t words = 1;
  bool white = false;
  while (!text.empty()) {
    const size_t space = white_space_at(text);
    words += space > 0 && !white;
    white = space > 0;
    text.remove_prefix(std::max<size_t>(space, 1));
  }
  return words;
}

size_t white_space_at_end(std::string_view text) {
  size_t end = text.size();
  for (;;) {
    size_t begin = end;
    while (begin > 0 && follows(text[begin - 1])) --begin;
    if (begin == 0) return text.size() - end;
    --begin;
    if (white_space_at(text.substr(begin, end - begin)) != end - begin) return text.size() - end;
    end = begin;
  }
}

size_t best_of(std::span<const double> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace cli::eval
