#include "runtime/text/grammar/number_range.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace kvrt {

namespace {

using Part = GrammarBuilder::Part;
using Bound = NumberRange::Bound;

constexpr size_t kIntegerDigits = 18, kNumberDigits = 15;
constexpr uint32_t kFactorMax = 10'000, kFactorPlacesMax = 4'000;

int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int c = a.whole.compare(b.whole)) return c;
  return a.fraction.compare(b.fraction);  // no trailing zeros: the order of the numbers
}

// What a number must be a multiple of: `modulus` units of the last of `digits` digits after the point.
struct Factor {
  uint32_t modulus = 1;
  size_t digits = 0;
};

// Automata of the numbers from `min` to `max`, neither of them negative, by how many digits stand before the point. Places from where
// neither bound can be met any more are shared by all of them.
class Digits {
 public:
  Digits(GrammarBuilder* builder, const Bound& min, const std::optional<Bound>& max, const Factor& factor, bool integers)
      : builder_(*builder), min_(min), max_(max), factor_(factor), integers_(integers), end_(builder->join()) {}

  // With so many digits before the point, at most so many after it. None: there are no such numbers.
  std::optional<Part> make(size_t whole, size_t fraction) {
    const size_t low = std::max<size_t>(min_.value.whole.size(), 1), high = max_ ? std::max<size_t>(max_->value.whole.size(), 1) : SIZE_MAX;
    if (whole < low || whole > high) return std::nullopt;
    whole_ = whole;
    fraction_ = fraction;
    powers_.assign(whole + factor_.digits, 1 % factor_.modulus);
    for (size_t i = powers_.size(); i-- > 1;) powers_[i - 1] = powers_[i] * 10 % factor_.modulus;
    const uint32_t in = place({0, whole == low, whole == high, 0, false});
    return Part{end_, in, end_};
  }

 private:
  struct Place {
    size_t digit;         // the one that comes next
    bool at_min, at_max;  // the digits so far are the bound's own
    uint32_t rest;        // what they add, by the modulus
    bool more;            // the last digit is one after the point, and not 0
  };
  // Digit i of a bound that has as many digits before the point as the number; 0 past its end.
  int digit(const Decimal& d, size_t i) const {
    std::string whole = d.whole.empty() ? "0" : d.whole;
    if (i < whole_) return whole[i] - '0';
    return i - whole_ < d.fraction.size() ? d.fraction[i - whole_] - '0' : 0;
  }
  bool zero_from(const Decimal& d, size_t i) const { return i >= whole_ + d.fraction.size(); }
  bool may_end(const Place& p) const {
    if (p.digit < whole_ || p.rest != 0 || (!integers_ && !p.more)) return false;
    const bool above = !p.at_min || (zero_from(min_.value, p.digit) && !min_.exclusive);
    const bool below = !p.at_max || !zero_from(max_->value, p.digit) || !max_->exclusive;
    return above && below;
  }
  uint32_t place(const Place& p) {
    const size_t tight = p.at_min || p.at_max || p.digit == 0 ? whole_ : 0;
    const auto left = static_cast<int64_t>(whole_) - static_cast<int64_t>(p.digit);
    auto [at, fresh] = places_.try_emplace({left, fraction_, tight, p.at_min, p.at_max, p.rest, p.more && !integers_}, 0);
    if (!fresh) return at->second;
    const uint32_t node = at->second = builder_.join();
    std::vector<uint32_t> ways;
    if (may_end(p)) ways.push_back(end_);
    if (p.digit < whole_ + fraction_) {
      std::vector<uint32_t> digits = digit_ways(p);
      if (p.digit == whole_) {
        const Part point = builder_.literal(".");
        builder_.link(point.out, digits);
        ways.push_back(point.in);
      } else {
        ways.insert(ways.end(), digits.begin(), digits.end());
      }
    }
    builder_.link(node, ways);
    return node;
  }
  std::vector<uint32_t> digit_ways(const Place& p) {
    const size_t i = p.digit;
    const int first = i == 0 && whole_ > 1 ? 1 : 0;
    const int low = p.at_min ? std::max(first, digit(min_.value, i)) : first, high = p.at_max ? digit(max_->value, i) : 9;
    std::vector<uint32_t> ways;
    // Digits that lead to one place are one way.
    for (int from = low, to = low; from <= high && builder_.status().is_ok(); from = to) {
      const Place after = next(p, from);
      while (to <= high && same(next(p, to), after)) ++to;
      const Part read = builder_.bytes(static_cast<uint8_t>('0' + from), static_cast<uint8_t>('0' + to - 1));
      builder_.link(read.out, place(after));
      ways.push_back(read.in);
    }
    return ways;
  }
  Place next(const Place& p, int d) const {
    const uint32_t rest = factor_.modulus == 1 ? 0 : (p.rest + static_cast<uint32_t>(d) * powers_[p.digit]) % factor_.modulus;
    return {p.digit + 1, p.at_min && d == digit(min_.value, p.digit), p.at_max && d == digit(max_->value, p.digit), rest,
            !integers_ && p.digit >= whole_ && d != 0};
  }
  static bool same(const Place& a, const Place& b) {
    return a.at_min == b.at_min && a.at_max == b.at_max && a.rest == b.rest && a.more == b.more;
  }

  GrammarBuilder& builder_;
  const Bound& min_;
  const std::optional<Bound>& max_;
  Factor factor_;
  bool integers_;
  uint32_t end_;
  size_t whole_ = 0, fraction_ = 0;
  std::vector<uint32_t> powers_;  // what a 1 at each digit adds, by the modulus
  std::map<std::tuple<int64_t, size_t, size_t, bool, bool, uint32_t, bool>, uint32_t> places_;
};

// How many digits, and which factor.
struct Shape {
  size_t digits;
  bool fractions, integers;
  Factor factor;
  bool plain() const { return !fractions && factor.modulus == 1 && factor.digits == 0; }
};

Part digits_part(GrammarBuilder* builder, uint32_t min, uint32_t max) { return builder->repeat(builder->bytes('0', '9'), min, max); }

// Whole numbers of more than so many digits.
Part longer_than(GrammarBuilder* builder, size_t digits) {
  const Part first = builder->bytes('1', '9');
  return builder->sequence(first, digits_part(builder, static_cast<uint32_t>(digits), GrammarBuilder::kNoMax));
}

// The numbers of the range that are not negative.
Part magnitudes(GrammarBuilder* builder, const Bound& min, const std::optional<Bound>& max, const Shape& shape) {
  std::vector<Part> parts;
  Digits all(builder, min, max, shape.factor, shape.integers);
  for (size_t whole = 1; whole <= shape.digits; ++whole) {
    const size_t fraction = !shape.fractions                                      ? 0
                            : shape.factor.modulus > 1 || shape.factor.digits > 0 ? shape.factor.digits
                                                                                  : shape.digits - whole;
    if (const auto part = all.make(whole, fraction)) parts.push_back(*part);
  }
  if (!max && shape.plain()) parts.push_back(longer_than(builder, shape.digits));
  return builder->choice(parts);
}

Part signed_part(GrammarBuilder* builder, const NumberRange& range, const Shape& shape) {
  const Bound zero;
  auto flip = [](Bound b) {
    b.value.negative = false;
    return b;
  };
  std::vector<Part> parts;
  // Zero and up.
  if (!range.max || !range.max->value.negative) {
    parts.push_back(magnitudes(builder, range.min && !range.min->value.negative ? *range.min : zero, range.max, shape));
  }
  // Below zero: the bounds change places. Zero itself has no sign.
  if (!range.min || range.min->value.negative) {
    const Bound low = range.max && range.max->value.negative ? flip(*range.max) : Bound{{}, true};
    const std::optional<Bound> high = range.min ? std::optional<Bound>(flip(*range.min)) : std::nullopt;
    const Part sign = builder->literal("-");
    parts.push_back(builder->sequence(sign, magnitudes(builder, low, high, shape)));
  }
  return builder->choice(parts);
}

Part one_of(GrammarBuilder* builder, std::string_view set) {
  std::vector<Part> parts;
  for (char c : set) parts.push_back(builder->literal({&c, 1}));
  return builder->choice(parts);
}

// d.ddd and an exponent: the numbers from 1 on, or those between 0 and 1.
Part with_exponent(GrammarBuilder* builder, bool negative, bool large) {
  Part number = negative ? builder->literal("-") : builder->empty();
  number = builder->sequence(number, builder->bytes('1', '9'));
  const Part point = builder->literal(".");
  number = builder->sequence(number, builder->optional(builder->sequence(point, digits_part(builder, 1, kNumberDigits - 1))));
  number = builder->sequence(number, one_of(builder, "eE"));
  if (large) {
    number = builder->sequence(number, builder->optional(builder->literal("+")));
    return builder->sequence(number, digits_part(builder, 1, 2));
  }
  number = builder->sequence(number, builder->literal("-"));
  number = builder->sequence(number, builder->optional(builder->literal("0")));
  number = builder->sequence(number, builder->bytes('1', '9'));
  return builder->sequence(number, builder->optional(builder->bytes('0', '9')));
}

Part any_number(GrammarBuilder* builder) {
  const Part sign = builder->optional(builder->literal("-"));
  const Part first = builder->bytes('1', '9');
  const Part whole[] = {builder->sequence(first, digits_part(builder, 0, kIntegerDigits - 1)), builder->literal("0")};
  Part number = builder->choice(whole);
  const Part point = builder->literal(".");
  number = builder->sequence(number, builder->optional(builder->sequence(point, digits_part(builder, 1, kIntegerDigits))));
  Part exponent = one_of(builder, "eE");
  exponent = builder->sequence(exponent, builder->optional(one_of(builder, "+-")));
  exponent = builder->sequence(exponent, digits_part(builder, 1, 2));
  const Part ways[] = {builder->sequence(number, builder->optional(exponent)), longer_than(builder, kIntegerDigits)};
  return builder->sequence(sign, builder->choice(ways));
}

// The integer that a decimal's digits make with so many after the point; none: a large one.
std::optional<uint64_t> scaled(const Decimal& d, size_t digits) {
  if (d.fraction.size() > digits || d.whole.size() + digits > 18) return std::nullopt;
  uint64_t value = 0;
  for (char c : d.whole) value = value * 10 + static_cast<uint64_t>(c - '0');
  for (size_t i = 0; i < digits; ++i) value = value * 10 + (i < d.fraction.size() ? static_cast<uint64_t>(d.fraction[i] - '0') : 0);
  return value;
}

std::optional<Factor> common_factor(const std::vector<Decimal>& factors) {
  Factor out;
  for (const Decimal& f : factors) out.digits = std::max(out.digits, f.fraction.size());
  uint64_t common = 1;
  for (const Decimal& f : factors) {
    const auto value = scaled(f, out.digits);
    if (!value || *value == 0 || *value > kFactorMax) return std::nullopt;
    common = std::lcm(common, *value);
    if (common > kFactorMax) return std::nullopt;
  }
  out.modulus = static_cast<uint32_t>(common);
  return out;
}

// How many digits a number may have, and what it is a multiple of; none: its factors cannot be followed.
std::optional<Shape> shape_of(const NumberRules& rules) {
  Shape shape{rules.fractions ? kNumberDigits : kIntegerDigits, rules.fractions, rules.integers, {}};
  if (rules.factors.empty()) {
    const auto reach = [&](const Decimal& d) { shape.digits = std::max(shape.digits, d.whole.size()); };
    if (!shape.plain()) return shape;
    if (rules.range.min) reach(rules.range.min->value);
    if (rules.range.max) reach(rules.range.max->value);
    for (const Decimal& d : rules.excluded) reach(d);
    return shape;
  }
  const auto factor = common_factor(rules.factors);
  if (!factor) return std::nullopt;
  shape.factor = *factor;
  uint32_t apart = factor->modulus;  // what 2 and 5 leave of it: so many rests stay apart at each digit
  while (apart % 2 == 0) apart /= 2;
  while (apart % 5 == 0) apart /= 5;
  shape.digits = std::min<size_t>(shape.digits, kFactorPlacesMax / apart);
  if (shape.digits < 6) return std::nullopt;
  if (shape.fractions) shape.digits = std::min(shape.digits, kNumberDigits - std::min(factor->digits, kNumberDigits - 1));
  shape.fractions = shape.fractions && factor->digits > 0;
  return shape;
}

// The numbers of a range that are written with an exponent: those between -1 and 1, and those past them up to no end.
void add_exponents(GrammarBuilder* builder, const NumberRange& range, std::vector<Part>* parts) {
  const Decimal zero, one{false, "1", ""}, minus_one{true, "1", ""};
  const auto from = [&](const Decimal& d) { return !range.min || compare(range.min->value, d) <= 0; };
  const auto to = [&](const Decimal& d) { return !range.max || compare(range.max->value, d) >= 0; };
  if (from(zero) && to(one)) parts->push_back(with_exponent(builder, false, false));
  if (to(zero) && from(minus_one)) parts->push_back(with_exponent(builder, true, false));
  if (!range.max && range.contains(one)) parts->push_back(with_exponent(builder, false, true));
  if (!range.min && range.contains(minus_one)) parts->push_back(with_exponent(builder, true, true));
}

}  // namespace

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitude(b, a) : compare_magnitude(a, b);
}

void NumberRange::raise_min(const Bound& bound) {
  const int c = min ? compare(bound.value, min->value) : 1;
  if (c > 0 || (c == 0 && bound.exclusive)) min = bound;
}

void NumberRange::lower_max(const Bound& bound) {
  const int c = max ? compare(bound.value, max->value) : -1;
  if (c < 0 || (c == 0 && bound.exclusive)) max = bound;
}

bool NumberRange::contains(const Decimal& d) const {
  const int low = min ? compare(d, min->value) : 1, high = max ? compare(d, max->value) : -1;
  return (low > 0 || (low == 0 && !min->exclusive)) && (high < 0 || (high == 0 && !max->exclusive));
}

std::optional<bool> is_multiple(const Decimal& d, const Decimal& factor) {
  const size_t digits = std::max(d.fraction.size(), factor.fraction.size());
  const auto value = scaled(d, digits), unit = scaled(factor, digits);
  if (!value || !unit || *unit == 0) return std::nullopt;
  return *value % *unit == 0;
}

std::optional<Part> number_part(GrammarBuilder* builder, const NumberRules& rules) {
  const auto shape = shape_of(rules);
  if (!shape) return std::nullopt;
  const bool free = rules.integers && rules.fractions && rules.factors.empty();
  std::vector<Decimal> out = rules.excluded;
  std::sort(out.begin(), out.end(), [](const Decimal& a, const Decimal& b) { return compare(a, b) < 0; });
  std::vector<Part> parts;
  NumberRange rest = rules.range;
  for (size_t i = 0; i <= out.size(); ++i) {
    NumberRange range = rest;
    if (i < out.size()) range.lower_max({out[i], true});
    if (i < out.size()) rest.raise_min({out[i], true});
    if (free && !range.min && !range.max) return any_number(builder);
    parts.push_back(signed_part(builder, range, *shape));
    if (free) add_exponents(builder, range, &parts);
  }
  return builder->choice(parts);
}

}  // namespace kvrt
