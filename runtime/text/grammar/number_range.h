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

// None: the factor is too small or too large to tell.
std::optional<bool> is_multiple(const Decimal& d, const Decimal& factor);

struct NumberRules {
  NumberRange range;
  std::vector<Decimal> excluded;
  std::vector<Decimal> factors;            // multiples of all
  bool integers = true, fractions = true;  // whole numbers; others
};
// Without fractions: integers of any length, with factors of at most 18 digits. With factors: as many digits after the point as those have.
// In a range: numbers of at most 15 digits, which stay apart as doubles, too; below 1 or from 1 on also with one digit before the point and an
// exponent, where the range holds all of those. Without a range: integers of any length, and other numbers of at most 18 digits before and
// after the point, and an exponent of at most two digits.
// None: the factors have too large a common multiple.
std::optional<GrammarBuilder::Part> number_part(GrammarBuilder* builder, const NumberRules& rules);

}  // namespace kvrt
