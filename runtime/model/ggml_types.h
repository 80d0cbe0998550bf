// The name and the size of every tensor type of GGUF, also of those that kvrt cannot compute with: extents are always checked.
#pragma once

#include <cstdint>

namespace kvrt {

struct GgmlType {
  uint32_t id;
  const char* name;
  uint32_t block_elems, block_bytes;
};
const GgmlType* find_ggml_type(uint32_t id);  // null: unknown number
const GgmlType& last_ggml_type();             // the one with the largest number

}  // namespace kvrt
