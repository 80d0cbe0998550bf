// Makes rules of a grammar of a JSON schema. Every answer is a JSON text that the schema accepts; of the texts that it accepts, the grammar has
// those that follow the rules below. 2020-12, and what earlier drafts write in another way: items as a list, additionalItems, dependencies,
// definitions, exclusiveMinimum as a flag, id; where $schema names a draft before 2019-09, what stands beside $ref says nothing.
//   type (also a list), enum, const, anyOf, oneOf, allOf, not, if, then, else, $ref within the document (pointers, $id, $anchor; $dynamicRef
//   to the only anchor of its name; also recursive), true, false; properties, required, patternProperties, additionalProperties,
//   propertyNames, minProperties, maxProperties, dependentRequired, dependentSchemas, unevaluatedProperties; items, prefixItems, contains,
//   minItems, maxItems, uniqueItems of constants, unevaluatedItems; minLength, maxLength, pattern (regex.h), format
//   (json_schema_formats.cc; it asserts); minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
//   Annotations and unknown keywords say nothing.
//   - Members come in the order of `properties`, then those that only `required` names, then others. Others may come where
//     additionalProperties is given and not false, by patternProperties, or where the schema names no properties at all; open: also where
//     additionalProperties is not given. In a call's arguments members come in any order, where an object names at most 64 (members.h).
//   - A keyword for one type implies that type where the schema names none: {"minLength": 1} is a string. If no value of that type fits, any
//     other type may come: {"contains": false} is anything but an array.
//   - White space: none or one space after a colon; none, one space, or a line break and at most 40 spaces after a comma or an opening
//     bracket and before a closing one. A model keeps its habit and cannot go on in white space for ever.
//   - Numbers: number_range.h. Strings of pattern, format, not, enum, const and the names of members: shortest escapes only.
//   - maxLength counts up to 16,384, beside a pattern or format up to 128 or more; maxItems up to 2,000; larger ones count as that.
//   - Constants that are objects: members in any order, of at most 8; uniqueItems of more than 8 constants: in the order of the enum.
// UNSUPPORTED by name: everything else that constrains.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/spelling.h"

namespace kvrt {

// Gives the rule of what fits the schema. Grammar::from_json_schema says how it fails.
Result<uint32_t> add_json_schema(std::string_view schema, SchemaMembers members, GrammarBuilder* builder);
// Gives the rule of the objects that fit it, written as a call's arguments: what the call's reader makes of them fits.
Result<uint32_t> add_arguments_schema(std::string_view schema, const ArgumentsSpelling& how, GrammarBuilder* builder);

}  // namespace kvrt
