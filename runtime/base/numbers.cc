#include "runtime/base/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace kvrt {

namespace {

// The power of ten that is the place of a decimal number's first digit other than 0. The number is not zero.
int64_t magnitude(std::string_view s) {
  const size_t e = std::min(s.find_first_of("eE"), s.size());
  int64_t power = 0;
  for (char c : s.substr(e)) {
    if (c >= '0' && c <= '9') power = std::min<int64_t>(power * 10 + (c - '0'), int64_t{1} << 40);
  }
  if (e + 1 < s.size() && s[e + 1] == '-') power = -power;
  const std::string_view digits = s.substr(0, e);
  const auto dot = static_cast<int64_t>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<int64_t>(digits.find_first_of("123456789"));
  return power + dot - first - (first < dot ? 1 : 0);
}

// Adds the decimal point, and %g's zeros after it: # keeps them, to_chars drops them.
void complete(std::string* text, char type, int precision) {
  const size_t e = std::min(text->find('e'), text->size());
  if (text->find('.') == std::string::npos) text->insert(e, 1, '.');
  if (type != 'g') return;
  const size_t end = std::min(text->find('e'), text->size());
  size_t first = text->find_first_of("123456789");
  if (first >= end) first = text->find('0');
  const auto digits = static_cast<int64_t>(end - first) - (text->find('.') > first ? 1 : 0);
  const auto wanted = static_cast<int64_t>(std::max(precision, 1));
  if (digits < wanted) text->insert(end, static_cast<size_t>(wanted - digits), '0');
}

}  // namespace

bool read_real(std::string_view text, double* out) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec == std::errc::invalid_argument || read.ptr != text.data() + text.size()) return false;
  if (text.find('(') != std::string_view::npos) return false;  // nan(...)
  if (read.ec == std::errc::result_out_of_range) {
    number = magnitude(text) > 0 ? std::numeric_limits<double>::infinity() : 0;
    if (text.front() == '-') number = -number;
  }
  *out = number;
  return true;
}

uint64_t read_digits(std::string_view text, int base) {
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return read.ec == std::errc::result_out_of_range ? UINT64_MAX : number;
}

std::string print_real(double number, char type, int precision, bool alternate) {
  const bool capital = type >= 'A' && type <= 'Z';
  const char kind = capital ? static_cast<char>(type - 'A' + 'a') : type;
  const auto format = kind == 'f' ? std::chars_format::fixed : kind == 'e' ? std::chars_format::scientific : std::chars_format::general;
  char buffer[512];  // 309 digits, a point, 100 more
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, number, format, precision).ptr);
  if (alternate && std::isfinite(number)) complete(&text, kind, precision);
  if (capital) std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  return text;
}

}  // namespace kvrt
