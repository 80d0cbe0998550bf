// HostMemory: page-aligned anonymous memory in huge pages where the system gives them.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"

namespace kvrt {

inline constexpr uint64_t kSmallPage = 4096;     // direct reads align to this
inline constexpr uint64_t kHugePage = 2u << 20;  // mappings from this size on are aligned to it

// Owns one mapping. Any thread may use the bytes; the object itself belongs to one.
class HostMemory {
 public:
  // Zeroed. `populate`: back every page now (NO_MEMORY when the system cannot), else on first touch.
  static Result<HostMemory> map(uint64_t bytes, bool populate);

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory();

  // Backs [offset, offset + bytes) now, or NO_MEMORY.
  Status populate(uint64_t offset, uint64_t bytes);

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  void* mapping_ = nullptr;
  uint64_t mapping_bytes_ = 0;
};

}  // namespace kvrt
