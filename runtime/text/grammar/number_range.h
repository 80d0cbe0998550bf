// The decimal numbers of a range as a part of a grammar: exactly those, digit by digit.
#pragma once

#include <optional>

#include "runtime/text/grammar/automaton.h"
#include "runtime/text/json_document.h"

namespace kvrt {

struct NumberRange {
  struct Bound {
    Decimal value;
    bool exclusive = false;
  };
  std::optional<Bound> min, max;
  void raise_min(const Bound& bound);  // the stronger of the two stays
  void lower_max(const Bound& bound);
  bool contains(const Decimal& d) const;
};

int compare(const Decimal& a, const Decimal& b);  // < 0, 0, > 0

// Integers of at most 18 digits, without exponents.
GrammarBuilder::Part integer_part(GrammarBuilder* builder, const NumberRange& range);
// In a range: numbers of at most 15 digits, which stay apart as doubles, too, and without exponents. Without a range: at most 18 digits
// before and after the point, and an exponent of at most two digits.
GrammarBuilder::Part number_part(GrammarBuilder* builder, const NumberRange& range);

}  // namespace kvrt
