// Numbers from text and as text, the same whatever the host's locale is: printf, strtod and streams take the decimal point from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvrt {

// Reads a text that as a whole is a decimal number without a plus, as "-1.5e3", or "inf" or "nan". A number past the range of a double is
// infinite, one below it zero. False: the text is none of these, and *out stays.
bool read_real(std::string_view text, double* out);
// The number that the digits at the front spell; past 64 bits UINT64_MAX, without any digit 0.
uint64_t read_digits(std::string_view text, int base = 10);

// printf's %.*e, %.*f or %.*g; a capital type has capital letters. alternate: printf's #. precision: at most 100.
std::string print_real(double number, char type, int precision, bool alternate = false);
// printf's %g, for messages.
inline std::string shown(double number) { return print_real(number, 'g', 6); }

}  // namespace kvrt
