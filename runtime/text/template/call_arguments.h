// The arguments of earlier calls. Hosts have them as objects, or as JSON in a string, as OpenAI's API does; templates are written for one of
// the two, and take the other for something else or not at all. So each sees objects, whichever it was given.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/text/template/value.h"

namespace kvrt::jinja {

// What a template sees of arguments that are no JSON object, such as those of a call that was cut.
enum class OddArguments : uint8_t {
  kText,     // the string
  kWrapped,  // {"arguments": string}
  kAllText,  // the string; and the others are JSON in strings, too
};

struct CallArguments {
  size_t calls = 0;
  std::vector<std::string_view> odd;  // the strings that are no JSON objects, in order
};

// Puts objects in the place of the arguments of a message's calls, which is in the arena. Null and blank strings are empty objects. As texts the
// objects are JSON (Dict::spelled), for templates that add them to a string.
void set_call_arguments(Value message, OddArguments odd, Arena* arena, CallArguments* found);
// True where the output has each of the first strings behind the one before, as it is or as in JSON.
bool shows_all(std::string_view output, std::span<const std::string_view> strings);

}  // namespace kvrt::jinja
