// Upper, lower and title case, and the printable characters, as Python's str has them. Pure functions over tables.
#pragma once

#include <cstdint>

namespace kvrt {

enum class Case : uint8_t { kUpper, kLower, kTitle };

// The code points that `c` becomes, 1 to 3.
uint32_t change_case(char32_t c, Case how, char32_t out[3]);
bool is_cased(char32_t c);  // has an upper, lower or title form other than itself
// True for a character that is skipped when looking whether a capital sigma ends its word.
bool is_case_ignorable(char32_t c);
// False for a character that repr() spells as an escape.
bool is_printable(char32_t c);

}  // namespace kvrt
