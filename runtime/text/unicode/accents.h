// Characters as BERT's normalizer in Hugging Face's tokenizers sees them, of whatever versions of Unicode its tables are. Pure functions over tables.
#pragma once

#include <cstdint>

namespace kvrt {

// Control characters, formats, private use and U+FFFD; not tab, newline and carriage return.
bool is_bert_removed(char32_t c);
bool is_bert_punctuation(char32_t c);
// The code points that are left of `c` decomposed and without its accents, 0 to 3.
uint32_t strip_accents(char32_t c, char32_t out[3]);

}  // namespace kvrt
