// ChatTemplate: the Jinja of tokenizer.chat_template, interpreted under limits on steps, output, memory and depth (limits.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace kvrt {

// A conversation's arguments to its template, beside the messages, as JSON; "" is none.
struct TemplateArguments {
  std::string tools, documents;  // arrays
  std::string variables;         // an object: variables of the caller's own (enable_thinking...)
  int64_t now = 0;               // Unix seconds for strftime_now, 0: the clock's
};

struct TemplateOptions {
  bool add_generation_prompt = false;
  std::string_view bos_token, eos_token;  // the template's variables
  TemplateArguments arguments;
};

// Immutable after parse: any thread.
class ChatTemplate {
 public:
  // A construct that is not supported is UNSUPPORTED by name with line and column; malformed source is INVALID (kTemplateError).
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source);
  virtual ~ChatTemplate() = default;
  // messages_json: an array of message objects (role, content, ...). Arguments of calls may be objects or JSON in a string
  // (call_arguments.h). Errors: INVALID (not JSON, not an array of objects; an error
  // that the template raised), LIMIT (kTemplateLimit, names the limit), UNSUPPORTED.
  virtual Result<std::string> render(std::string_view messages_json, const TemplateOptions& options) const = 0;
};

// One message object checked and re-serialized compactly (so that messages can be joined into an array); INVALID otherwise.
Result<std::string> normalize_message(std::string_view message_json);
// A JSON array of such objects, each on its own; the error names the item.
Result<std::vector<std::string>> normalize_messages(std::string_view messages_json);
// True where two normalized messages are the same as JSON: the order of keys does not count, nor whether a call's arguments stand in a string.
bool same_message(const std::string& a, const std::string& b);
// The arguments checked and re-serialized. A variable by the name of messages, tools, documents or add_generation_prompt is INVALID.
Result<TemplateArguments> normalize_arguments(const TemplateArguments& arguments);

}  // namespace kvrt
