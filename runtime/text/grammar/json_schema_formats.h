// The formats of JSON schema as patterns.
#pragma once

#include <string_view>

namespace kvrt {

// `every`: a pattern whose every text each checker takes. `some`: one that finds each text that any checker takes, for `not` and for constants.
// nullptr: no pattern is exact, so UNSUPPORTED.
struct SchemaFormat {
  std::string_view name;
  const char *every, *some;
};
const SchemaFormat* find_schema_format(std::string_view name);  // nullptr: an annotation
// Of a format's `every` whose texts may be long: those of at most some 70 characters, which can be counted.
// nullptr: none.
const char* brief_format(std::string_view every);

}  // namespace kvrt
