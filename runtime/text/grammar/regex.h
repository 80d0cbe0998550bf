// Regular expressions of JSON schema's `pattern` -> a part of a grammar over the characters of a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/grammar/automaton.h"

namespace kvrt {

// The strings in which the pattern is found (it is not anchored unless it says so), spelled as in a JSON string.
// The regular part of ECMA-262: literals, escapes, classes, '.', groups, |, quantifiers, and ^ and $ at the ends of the pattern's
// own alternatives. Look-around, back references, \b, \p are UNSUPPORTED by name; a malformed pattern is INVALID. `where` begins messages.
// Where engines differ, only strings that all accept fit: \d and \w are ASCII, \D and \W (and classes that negate those) only ASCII.
Result<GrammarBuilder::Part> regex_part(GrammarBuilder* builder, std::string_view pattern, const std::string& where);

}  // namespace kvrt
