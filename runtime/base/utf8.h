// UTF-8 as Unicode 3.9 defines it: overlong forms, surrogates and code points past U+10FFFF are invalid. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvrt {

// One code point read from the front of some bytes: `size` bytes long, 0 when they do not begin with valid UTF-8.
struct CodePoint {
  char32_t value = 0;
  uint32_t size = 0;
};
CodePoint read_code_point(std::string_view bytes);
void append_code_point(char32_t value, std::string* out);

// The front of some bytes, not empty: the length of the sequence that the first byte opens (0: none), and the count of the bytes that
// are a valid beginning of it (at least 1).
struct Utf8Prefix {
  uint32_t size = 0, valid = 0;
};
Utf8Prefix utf8_prefix(std::string_view bytes);

// The offset of the first byte that is not valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace kvrt
