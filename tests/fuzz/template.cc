// Any template with any messages: a Status that says why, or a text of valid UTF-8 within the limits; and the same again.
// The input is the source, a NUL, and the messages as JSON (without one: a conversation with tools).
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/template/chat_template.h"
#include "tests/fuzz/require.h"

namespace {

constexpr std::string_view kMessages =
    R"([{"role":"system","content":"Be brief. é日👍"},{"role":"user","content":[{"type":"text","text":"a\nb"}]},
{"role":"assistant","content":null,"tool_calls":[{"id":"x1","function":{"name":"f","arguments":{"x":[1,2.5,null,true]}}}]},
{"role":"tool","name":"f","content":"{\"r\": 1}"},{"role":"assistant","content":"<think>\nno\n</think>\n\nyes"}])";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size), source = input.substr(0, input.find('\0'));
  const std::string_view messages = source.size() < size ? input.substr(source.size() + 1) : kMessages;
  auto parsed = kvrt::ChatTemplate::parse(source);
  if (!parsed.is_ok()) {
    require(!parsed.status().message().empty(), "a failure says why");
    return 0;
  }
  kvrt::TemplateOptions options;
  options.add_generation_prompt = true;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.arguments.tools =
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"array"}}}}}])";
  options.arguments.documents = R"([{"title":"T","text":"body"}])";
  options.arguments.variables = R"({"s":"Some Text","l":[3,1,2],"d":{"a":1,"b":[true,null]},"f":2.5})";
  options.arguments.now = 1753100000;
  auto text = (*parsed)->render(messages, options);
  if (!text.is_ok()) {
    require(!text.status().message().empty(), "a failure says why");
    const auto code = text.status().code();
    require(code == kvrt::Code::kInvalid || code == kvrt::Code::kLimit || code == kvrt::Code::kUnsupported, "a failure of a known class");
    return 0;
  }
  require(text->size() <= kvrt::kTemplateOutputBytesMax, "the output is limited");
  require(kvrt::find_invalid_utf8(*text) == std::string_view::npos, "the output is UTF-8");
  auto again = (*parsed)->render(messages, options);
  require(again.is_ok() && *again == *text, "a template renders the same again");
  return 0;
}
