// JSON schema (2020-12) -> automaton. Every answer is a JSON text that the schema accepts; of the texts that it accepts, the grammar has
// those that follow these rules:
//   type (also a list), enum, const, anyOf, oneOf (branches that cannot both fit, by types, constants or required members), allOf,
//   $ref within the document (also recursive), $defs, true, false; properties, required, additionalProperties; items, prefixItems,
//   minItems, maxItems; minLength, maxLength, pattern (regex.h), format; minimum, maximum, exclusiveMinimum, exclusiveMaximum,
//   multipleOf 1. Annotations and unknown keywords say nothing.
//   - Members come in the order of `properties`, then those that only `required` names, then others. Others may come where
//     additionalProperties is given and not false, or where the schema names no properties at all.
//   - A keyword for one type implies that type where the schema names none: {"minLength": 1} is a string.
//   - White space: none or one space after a colon; none, one space, or a line break and at most 40 spaces after a comma or an opening
//     bracket and before a closing one. A model keeps its habit and cannot go on in white space for ever.
//   - Numbers: number_range.h. Strings of pattern, format, enum, const and the names of members: shortest escapes only.
//   - maxLength counts up to 16,384, maxItems up to 2,000 above the first items; larger ones count as that.
// UNSUPPORTED by name: everything else that constrains.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/grammar/automaton.h"

namespace kvrt {

Result<std::unique_ptr<const Automaton>> compile_json_schema(std::string_view schema);

}  // namespace kvrt
