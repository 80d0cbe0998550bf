// kvrt.h alone, first and twice, in plain C: compiling this file with every warning on is the test.
#include "kvrt.h"

kvrt_model_options header_test(void);
kvrt_model_options header_test(void) {
  kvrt_model_options o;
  KVRT_INIT(&o);
  o.block_tokens = KVRT_KV_DEFAULT + (uint32_t)KVRT_OK;
  return o;
}

static size_t size_of(const char* text, size_t size) { return text ? size : 0; }
size_t header_literal(void);
size_t header_literal(void) { return size_of(KVRT_STR("ann")); }
