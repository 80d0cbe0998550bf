// kvrt.h alone, first and twice, in plain C: compiling this file with every warning on is the test.
#include "kvrt.h"

kvrt_model_options header_test(void);
kvrt_model_options header_test(void) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.block_tokens = KVRT_KV_DEFAULT + (uint32_t)KVRT_OK;
  return o;
}
