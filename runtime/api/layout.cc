// The layout of kvrt.h's structs in this library, for bindings that lay them out by themselves.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "include/kvrt.h"

namespace {

struct Row {
  const char* name;
  bool is_struct;  // the fields of a struct follow it
  uint32_t value;  // its size, or the field's offset
};

constexpr Row kRows[] = {
#define STRUCT(type) {#type, true, sizeof(type)},
#define FIELD(type, field) {#field, false, offsetof(type, field)},
#include "runtime/api/abi_table.inc"
#undef FIELD
#undef STRUCT
};

// The row of a struct, or of a field of it; null: there is none.
const Row* find(const char* name, const char* field) {
  bool inside = false;
  for (const Row& row : kRows) {
    if (row.is_struct) inside = std::strcmp(row.name, name) == 0;
    if (inside && row.is_struct == !field && std::strcmp(row.name, field ? field : name) == 0) return &row;
  }
  return nullptr;
}

}  // namespace

extern "C" {

uint32_t kvrt_struct_size(const char* name) {
  const Row* row = name ? find(name, nullptr) : nullptr;
  return row ? row->value : 0;
}

uint32_t kvrt_struct_offset(const char* name, const char* field) {
  const Row* row = name && field ? find(name, field) : nullptr;
  return row ? row->value : UINT32_MAX;
}

}  // extern "C"
