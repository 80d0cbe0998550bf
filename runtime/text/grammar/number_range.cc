#include "runtime/text/grammar/number_range.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace kvrt {

namespace {

using Part = GrammarBuilder::Part;
using Bound = NumberRange::Bound;

constexpr size_t kIntegerDigits = 18, kNumberDigits = 15;

int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  if (const int c = a.whole.compare(b.whole)) return c;
  return a.fraction.compare(b.fraction);  // no trailing zeros: the order of the numbers
}

// The numbers from `min` to `max` with so many digits before the point and at most so many after it, both bounds not negative.
class Digits {
 public:
  Digits(GrammarBuilder* builder, const Bound& min, const std::optional<Bound>& max, size_t whole, size_t fraction)
      : builder_(*builder), min_(min), max_(max), whole_(whole), fraction_(fraction), end_(builder->join()) {}

  // None: there are no such numbers.
  std::optional<Part> make() {
    const size_t low = std::max<size_t>(min_.value.whole.size(), 1), high = max_ ? std::max<size_t>(max_->value.whole.size(), 1) : SIZE_MAX;
    if (whole_ < low || whole_ > high) return std::nullopt;
    const uint32_t in = place(0, whole_ == low, whole_ == high);
    return Part{end_, in, end_};
  }

 private:
  // Digit i of a bound that has as many digits before the point as the number; 0 past its end.
  int digit(const Decimal& d, size_t i) const {
    std::string whole = d.whole.empty() ? "0" : d.whole;
    if (i < whole_) return whole[i] - '0';
    return i - whole_ < d.fraction.size() ? d.fraction[i - whole_] - '0' : 0;
  }
  bool zero_from(const Decimal& d, size_t i) const { return i >= whole_ + d.fraction.size(); }
  bool may_end(size_t i, bool at_min, bool at_max) const {
    if (i < whole_) return false;
    const bool above = !at_min || (zero_from(min_.value, i) && !min_.exclusive);
    const bool below = !at_max || !zero_from(max_->value, i) || !max_->exclusive;
    return above && below;
  }
  // The node before digit i; at_min, at_max: the digits so far are the bound's own.
  uint32_t place(size_t i, bool at_min, bool at_max) {
    auto [at, fresh] = places_.try_emplace({i, at_min, at_max}, 0);
    if (!fresh) return at->second;
    const uint32_t node = at->second = builder_.join();
    std::vector<uint32_t> ways;
    if (may_end(i, at_min, at_max)) ways.push_back(end_);
    if (i < whole_ + fraction_) {
      std::vector<uint32_t> digits = digit_ways(i, at_min, at_max);
      if (i == whole_) {
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
  std::vector<uint32_t> digit_ways(size_t i, bool at_min, bool at_max) {
    const int first = i == 0 && whole_ > 1 ? 1 : 0;
    const int low = at_min ? std::max(first, digit(min_.value, i)) : first, high = at_max ? digit(max_->value, i) : 9;
    std::vector<uint32_t> ways;
    if (low > high) return ways;
    auto way = [&](int from, int to, bool keeps_min, bool keeps_max) {
      if (from > to) return;
      const Part read = builder_.bytes(static_cast<uint8_t>('0' + from), static_cast<uint8_t>('0' + to));
      builder_.link(read.out, place(i + 1, keeps_min, keeps_max));
      ways.push_back(read.in);
    };
    const bool low_is_min = at_min && low == digit(min_.value, i);
    if (low == high) {
      way(low, low, low_is_min, at_max);
      return ways;
    }
    if (low_is_min) way(low, low, true, false);
    way(low + low_is_min, high - at_max, false, false);
    if (at_max) way(high, high, false, true);
    return ways;
  }

  GrammarBuilder& builder_;
  const Bound& min_;
  const std::optional<Bound>& max_;
  size_t whole_, fraction_;
  uint32_t end_;
  std::map<std::tuple<size_t, bool, bool>, uint32_t> places_;
};

// The numbers of the range that are not negative and have at most `digits` digits.
Part magnitudes(GrammarBuilder* builder, const Bound& min, const std::optional<Bound>& max, size_t digits, bool fractions) {
  std::vector<Part> parts;
  for (size_t whole = 1; whole <= digits; ++whole) {
    if (const auto part = Digits(builder, min, max, whole, fractions ? digits - whole : 0).make()) parts.push_back(*part);
  }
  return builder->choice(parts);
}

Part signed_part(GrammarBuilder* builder, const NumberRange& range, size_t digits, bool fractions) {
  const Bound zero;
  auto flip = [](Bound b) {
    b.value.negative = false;
    return b;
  };
  std::vector<Part> parts;
  // Zero and up.
  if (!range.max || !range.max->value.negative) {
    parts.push_back(magnitudes(builder, range.min && !range.min->value.negative ? *range.min : zero, range.max, digits, fractions));
  }
  // Below zero: the bounds change places. Zero itself has no sign.
  if (!range.min || range.min->value.negative) {
    const Bound low = range.max && range.max->value.negative ? flip(*range.max) : Bound{{}, true};
    const std::optional<Bound> high = range.min ? std::optional<Bound>(flip(*range.min)) : std::nullopt;
    const Part sign = builder->literal("-");
    parts.push_back(builder->sequence(sign, magnitudes(builder, low, high, digits, fractions)));
  }
  return builder->choice(parts);
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

Part integer_part(GrammarBuilder* builder, const NumberRange& range) { return signed_part(builder, range, kIntegerDigits, false); }

Part number_part(GrammarBuilder* builder, const NumberRange& range) {
  if (range.min || range.max) return signed_part(builder, range, kNumberDigits, true);
  auto digits = [&](uint32_t min, uint32_t max) { return builder->repeat(builder->bytes('0', '9'), min, max); };
  auto one_of = [&](std::string_view set) {
    std::vector<Part> parts;
    for (char c : set) parts.push_back(builder->literal({&c, 1}));
    return builder->choice(parts);
  };
  Part number = builder->optional(builder->literal("-"));
  const Part first = builder->bytes('1', '9');
  const Part whole[] = {builder->sequence(first, digits(0, kIntegerDigits - 1)), builder->literal("0")};
  number = builder->sequence(number, builder->choice(whole));
  const Part point = builder->literal(".");
  number = builder->sequence(number, builder->optional(builder->sequence(point, digits(1, kIntegerDigits))));
  Part exponent = one_of("eE");
  exponent = builder->sequence(exponent, builder->optional(one_of("+-")));
  exponent = builder->sequence(exponent, digits(1, 2));
  return builder->sequence(number, builder->optional(exponent));
}

}  // namespace kvrt
