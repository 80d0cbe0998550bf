// Any bytes as GBNF: a Status that says why, or a grammar whose masks hold.
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto grammar = kvrt::Grammar::from_gbnf({reinterpret_cast<const char*>(data), size}, kvrt::fuzz::vocabulary().tries.get());
  require(grammar.is_ok() || !grammar.status().message().empty(), "a failure says why");
  if (grammar.is_ok()) kvrt::fuzz::walk(grammar.value(), size);
  return 0;
}
