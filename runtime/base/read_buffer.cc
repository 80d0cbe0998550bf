#include "runtime/base/read_buffer.h"

#include <algorithm>
#include <new>

namespace kvrt {

namespace {
constexpr size_t kSmallMax = 64u << 10;  // beyond, a huge page: a large buffer goes on growing a little
}

uint8_t* ReadBuffer::reserve(size_t bytes) {
  if (bytes > memory_.bytes()) {
    memory_ = HostMemory();
    auto mapped = HostMemory::map(bytes <= kSmallMax ? kSmallMax : std::max<uint64_t>(bytes, kHugePage), /*populate=*/false);
    if (!mapped.is_ok()) throw std::bad_alloc();
    memory_ = std::move(mapped).value();
  }
  return memory_.data();
}

}  // namespace kvrt
