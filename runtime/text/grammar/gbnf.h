// Adds a grammar in GBNF to a builder. Grammar::from_gbnf describes the notation.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"

namespace kvrt {

// Gives the rule of `root`. Grammar::from_gbnf says how it fails.
Result<uint32_t> add_gbnf(std::string_view source, const GrammarVocab* vocab, GrammarBuilder* builder);

}  // namespace kvrt
