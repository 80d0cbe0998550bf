// Template source -> tokens, with trim_blocks and lstrip_blocks as chat templates are rendered with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt::jinja {

struct Token {
  enum Kind : uint8_t { kText, kBlockBegin, kBlockEnd, kPrintBegin, kPrintEnd, kName, kString, kInt, kFloat, kOperator, kEnd } kind;
  uint32_t at = 0;   // byte offset in the source
  std::string text;  // the data, name, string's value or operator
  int64_t integer = 0;
  double real = 0;
};

// Line ends become \n and one at the very end is dropped. Offsets refer to the result.
std::string normalize_source(std::string_view source);
Result<std::vector<Token>> lex(std::string_view source);
// An error at a place of the source: "template line 3, column 7: ...".
Status error_at(std::string_view source, uint32_t at, Code code, Detail detail, const std::string& message);

}  // namespace kvrt::jinja
