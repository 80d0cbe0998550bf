// d += a · b of a warp's fragments, once all lanes brought theirs.
#pragma once

#include "tests/cuda/emulation/collectives.h"

namespace kvrt::emulation {

void set_truncating(bool truncating);  // Modes, of the grid that begins: of sums in floating point

void multiply_fragments(const MmaLane (&lanes)[32], bool bf16);  // d float[4], a [4], b [2]
void multiply_byte_fragments(const MmaLane (&lanes)[32]);        // d int32_t[4], a [2], b [1]

}  // namespace kvrt::emulation
