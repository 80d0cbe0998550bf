// Rewrites values and calls that are not written as JSON as JSON. Of a text that is not such a value it makes one that is not JSON either, or
// fails.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/reply/pattern.h"

namespace kvrt::reply {

inline char closing(char open) { return open == '{' ? '}' : open == '[' ? ']' : ')'; }
std::string_view trimmed(std::string_view text);  // without white space at both ends
inline bool begins_word(char c) { return is_word(c) && !is_digit(c); }

// f(k='v', b=True) or a list of such -> {"name":"f","arguments":{"k":"v","b":true}}. `builtins`: f.call() is a call of f.
bool python_calls_to_json(std::string_view text, bool builtins, std::string* out);
// {'k': [1, None]} -> {"k":[1,null]}
bool python_value_to_json(std::string_view text, std::string* out);
// {k:<|"|>v<|"|>,n:[1,true]} -> {"k":"v","n":[1,true]}
bool quoted_to_json(std::string_view text, std::string* out);

}  // namespace kvrt::reply
