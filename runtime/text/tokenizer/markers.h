// The spellings of tokens that stand between the parts of a conversation or of code, whatever a file says of them.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt {

bool ends_turn(std::string_view token);  // whatever the file calls eos
// The source with such tokens as control tokens where their type is that of text, which is the converters' mistake: a model that writes one ends
// its turn. None: there are none. "</s>" is text as well, HTML's.
std::optional<VocabSource> correct_markers(const VocabSource& source);

}  // namespace kvrt
