// GBNF -> a rule of a grammar; the notation: Grammar::from_gbnf.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"

namespace kvrt {

// The rule of `root`. What it fails with: Grammar::from_gbnf.
Result<uint32_t> add_gbnf(std::string_view source, const GrammarVocab* vocab, GrammarBuilder* builder);

}  // namespace kvrt
