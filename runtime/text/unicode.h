// UTF-8 and the byte alphabet of byte-level BPE. Pure functions over tables built at compile time.
#pragma once

#include <array>
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

// The offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are not), or npos.
size_t find_invalid_utf8(std::string_view text);

// Byte-level BPE spells each byte as one printable code point: printable Latin-1 as itself, the others from U+0100 up.
char32_t byte_to_symbol(uint8_t byte);
// The byte that a code point spells, or -1.
int symbol_to_byte(char32_t symbol);
// A token's spelling to its bytes; false where a code point spells no byte.
bool decode_symbols(std::string_view spelling, std::string* out);

}  // namespace kvrt
