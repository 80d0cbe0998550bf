// A tool's arguments as a rule of a grammar: what fits the tool's schema, as a family writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/reply/family.h"

namespace kvrt {

// `parameters`: the tool's JSON schema; "": no arguments. What it fails with: Grammar::from_json_schema. Beside what json_schema.h leaves out:
// * Text that the reply parser would read as another value, or where it would end the value early, is not written: a string in tags does
//   not hold the mark that ends it, nor, beside a length above 128, that mark's first two characters; one that may also be of another type
//   neither reads as JSON of that type nor begins as its arrays or objects do.
// * A name that such calls cannot have is UNSUPPORTED by name: no identifier in Python's calls, marks of the form in others.
// * Tags that end with their name (MiniMax M3) are of listed members alone; other members may stand in an object that is JSON, and what
//   the schema gives no type is JSON.
Result<uint32_t> add_arguments(const reply::WrittenCalls& written, std::string_view parameters, const GrammarVocab& vocab,
                               GrammarBuilder* builder);

// For a schema that add_arguments refuses: its members, by no more than their types, and others.
std::string loose_parameters(std::string_view parameters);

}  // namespace kvrt
