// kvrt.h alone, first and twice, in C++: compiling this file with every warning on is the test.
#include "kvrt.h"

kvrt_model_options header_test();
kvrt_model_options header_test() {
  kvrt_model_options o;
  KVRT_INIT(&o);
  return o;
}
