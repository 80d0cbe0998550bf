// HeadRows: rows with a run of numbers for each head.
#pragma once

#include <cstdint>

namespace kvrt {

// Row i's head h is at x + i * stride + h * apart.
struct HeadRows {
  float* x;
  uint32_t stride, apart;
};

}  // namespace kvrt
