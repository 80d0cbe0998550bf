// Gives the formats of JSON schema as patterns.
#pragma once

#include <string_view>

namespace kvrt {

// Checkers of a format differ. All of them take each text of the pattern `every`. The pattern `some` finds each text that at least one of them
// takes: `not` and constants need it. nullptr: there is no such pattern, and the schema is UNSUPPORTED.
struct SchemaFormat {
  std::string_view name;
  const char *every, *some;
};
const SchemaFormat* find_schema_format(std::string_view name);  // nullptr: the format only annotates
// If the texts of a format's `every` may be long, a pattern of those with at most some 70 characters, which can be counted. nullptr: they are
// not long.
const char* brief_format(std::string_view every);

}  // namespace kvrt
