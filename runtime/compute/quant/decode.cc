#include "runtime/base/check.h"
#include "runtime/compute/quant/block.h"
#include "runtime/compute/quant/words.h"

namespace kvrt {

void decode_unit(DType type, const uint8_t* block, RawBlock* out) {
  KVRT_CHECK(quant_format(type) != nullptr);
  with_quant_type(type, [&]<DType T>() {
    for (uint32_t b = 0; b < quant_format(T)->unit_blocks; ++b) {
      QuantWords words;
      decode_block<T>(block, b, &words);
      out[b].scale = words.scale;
      out[b].minimum = words.minimum;
      std::memcpy(out[b].sub, words.sub, sizeof out[b].sub);
      std::memcpy(out[b].u, words.u, sizeof out[b].u);
    }
  });
}

}  // namespace kvrt
