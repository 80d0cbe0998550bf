// The byte alphabet of byte-level BPE. Pure functions over tables built at compile time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/utf8.h"

namespace kvrt {

// Byte-level BPE spells each byte as one printable code point: printable Latin-1 as itself, the others from U+0100 up.
char32_t byte_to_symbol(uint8_t byte);
// The byte that a code point spells, or -1.
int symbol_to_byte(char32_t symbol);
// A token's spelling to its bytes; false where a code point spells no byte.
bool decode_symbols(std::string_view spelling, std::string* out);

}  // namespace kvrt
