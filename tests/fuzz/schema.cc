// Any bytes as JSON schema: a Status that says why, or a grammar whose masks hold and whose answers are JSON.
#include <nlohmann/json.hpp>

#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto grammar = kvrt::Grammar::from_json_schema({reinterpret_cast<const char*>(data), size});
  require(grammar.is_ok() || !grammar.status().message().empty(), "a failure says why");
  if (!grammar.is_ok()) return 0;
  kvrt::fuzz::walk(grammar.value(), size);
  static const std::vector<int32_t> bytes(256, 0);
  const auto answer = kvrt::rig::way_out(*grammar.value(), "", bytes, 2'000);
  require(!answer || nlohmann::json::accept(*answer), "the shortest answer is JSON");
  return 0;
}
