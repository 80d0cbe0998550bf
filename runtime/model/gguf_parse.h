// The GGUF parser: bytes -> GgufDirectory. Knows the layout and its limits, not files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/model/gguf.h"

namespace kvrt {

// One metadata pair. Its value's bytes were checked to lie within the file; key and value borrow from it.
struct GgufPair {
  std::string_view key;
  GgufType type = GgufType::kU8;       // the type of a scalar, or kArray
  GgufType elem_type = GgufType::kU8;  // the type of an array's elements
  uint64_t count = 1;                  // elements of an array
  std::span<const uint8_t> value;      // scalars packed; strings as u64 length + bytes, each in bounds
};

struct GgufDirectory {
  std::vector<GgufPair> pairs;            // ascending by key, no two alike
  std::vector<GgufTensor> tensors;        // file order
  std::vector<uint32_t> tensors_by_name;  // indices into tensors, ascending by name, no two alike
  uint64_t tensor_info_offset = 0, data_offset = 0;
};

Result<GgufDirectory> parse_gguf(std::span<const uint8_t> bytes, const std::string& name);

const GgufPair* find_pair(const GgufDirectory& directory, std::string_view key);
const char* gguf_type_name(GgufType type);
uint32_t gguf_scalar_bytes(GgufType type);  // 0 for strings and arrays
// An integer of any GGUF integer type, if int64 can hold it.
std::optional<int64_t> gguf_int(GgufType type, const uint8_t* value);
std::optional<uint64_t> gguf_uint(const GgufPair& pair);  // if it is one and not negative

}  // namespace kvrt
