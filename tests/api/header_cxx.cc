// kvrt.h alone, first and twice, in C++: compiling this file with every warning on is the test.
#include "kvrt.h"

#include <cstddef>

kvrt_model_options header_test();
kvrt_model_options header_test() {
  kvrt_model_options o;
  KVRT_INIT(&o);
  return o;
}

static std::size_t size_of(const char* text, std::size_t size) { return text ? size : 0; }
std::size_t header_literal();
std::size_t header_literal() { return size_of(KVRT_STR("ann")); }
