// HostMemory: page-aligned anonymous memory in huge pages where the system gives them.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/status.h"

namespace kvrt {

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

// A piece of memory that keeps the mapping it lies in alive.
struct HostPiece {
  std::shared_ptr<HostMemory> owner;
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

// HostArena: zeroed, populated pieces out of large mappings, so that weights smaller than a huge page lie in huge pages too.
// One thread at a time; pieces outlive it.
class HostArena {
 public:
  Result<HostPiece> take(uint64_t bytes);  // 64-byte aligned

 private:
  std::shared_ptr<HostMemory> slab_;
  uint64_t used_ = 0;
};

}  // namespace kvrt
