// Memory that a device fills in few pieces: whole pages, huge ones where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/host_memory.h"

namespace kvrt {

class ReadBuffer {
 public:
  // At least `bytes`, from the begin of a page on; the buffer's contents are lost. Throws std::bad_alloc.
  uint8_t* reserve(size_t bytes);

 private:
  HostMemory memory_;
};

}  // namespace kvrt
