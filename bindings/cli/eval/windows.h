// Windows of a text, in which each of its tokens is scored once; its words and characters. All of them as lm-eval has them, so that figures
// compare: windows are those of its loglikelihood_rolling, and white space is what Python calls so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cli::eval {

struct Window {
  std::vector<int32_t> tokens;
  size_t context = 0;  // so many tokens come first, and are not scored
};

// The first window begins with `prefix`, each other one with tokens of the text: one, or in the last as many as have room.
std::vector<Window> windows_of(std::span<const int32_t> tokens, int32_t prefix, size_t tokens_max);

// Of valid UTF-8:
uint64_t characters_in(std::string_view text);
uint64_t words_in(std::string_view text);          // pieces between runs of white space; one at either end counts, also if it is empty
size_t white_space_at_end(std::string_view text);  // bytes

size_t best_of(std::span<const double> values);  // the first of the largest

}  // namespace cli::eval
