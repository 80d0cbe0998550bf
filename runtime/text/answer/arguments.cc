#include "runtime/text/answer/arguments.h"

#include "runtime/text/grammar/json_schema.h"

namespace kvrt {

Result<uint32_t> add_arguments(const reply::WrittenCalls& written, std::string_view parameters, const GrammarVocab&,
                               GrammarBuilder* builder) {
  if (parameters.empty()) parameters = R"({"type":"object","properties":{}})";
  if (written.arguments != reply::WrittenCalls::Arguments::kJson) {
    return error(Code::kUnsupported, Detail::kNone, "arguments that are no JSON are not supported");
  }
  return add_arguments_schema(parameters, builder);
}

}  // namespace kvrt
