// A tool's arguments as a rule of a grammar: what fits the tool's schema, as a family writes it.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/reply/family.h"

namespace kvrt {

// `parameters`: the tool's JSON schema; "": no arguments. What it fails with: Grammar::from_json_schema.
Result<uint32_t> add_arguments(const reply::WrittenCalls& written, std::string_view parameters, const GrammarVocab& vocab,
                               GrammarBuilder* builder);

}  // namespace kvrt
