// Judges of answers. Words are compared without regard to case, and as whole words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/eval/cases/case.h"

namespace cli::eval {

std::string lower(std::string_view text);
bool has_word(std::string_view text, std::string_view word);
std::vector<int64_t> numbers_in(std::string_view text);  // whole numbers; commas between thousands are left out

Judge says(std::string word);
Judge says_share_of(std::vector<std::string> words);              // the share of them that is there
Judge results_in(int64_t number);                                 // the number after the first "Result:", or the last one of the first line
bool has_digits(std::string_view text, std::string_view digits);  // with anything but letters and digits between them, too
Judge first_number_is(int64_t number);
// The first of the words that the answer has is `right`: an answer that lists all of them is no answer.
Judge chooses(std::string right, std::vector<std::string> words);

std::vector<Part> whole(Judge judge);  // an answer of one part

}  // namespace cli::eval
