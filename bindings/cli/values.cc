// The checks of values on the command line.
#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "bindings/cli/commands.h"

namespace cli {

// Stricter than CLI11, which takes '' for the zero of any option, -1 and anything that is too large for the largest number of 64 bits, and
// 010 for 8.
std::string check_value(const std::string& value, bool whole) {
  if (value.empty()) return "a value is expected, found ''";
  uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [next, error] = std::from_chars(value.data(), end, number);
  const bool sound = error == std::errc() && next == end && (value.size() == 1 || value[0] != '0');
  return !whole || sound ? "" : fmt::format("a whole number from 0 is expected, found {}", value);
}

// 512M, 8GiB, 1.5 G: in powers of 1024, whatever the unit is called.
std::string parse_size(const std::string& text, uint64_t& bytes) {
  const std::string wrong = fmt::format("a size like 512M or 8G is expected (M: MiB, G: GiB), found {}", text);
  const char *end = text.data() + text.size(), *at = text.data();
  bytes = 0;
  if (text.empty()) return check_value(text, false);
  auto [unit, error] = std::from_chars(at, end, bytes);
  double value = static_cast<double>(bytes);
  const bool whole = unit == end || *unit != '.';
  if (!whole) unit = std::from_chars(at, end, value, std::chars_format::fixed).ptr;
  if (error != std::errc()) return wrong;
  while (unit < end && *unit == ' ') ++unit;
  const size_t power = unit < end ? std::string_view("bkmgtpe").find(static_cast<char>(*unit | 0x20)) : 0;
  const std::string_view rest(unit + (unit < end), static_cast<size_t>(end - unit - (unit < end)));
  const bool named = rest.empty() || (power > 0 && (rest == "B" || rest == "b" || rest == "iB" || rest == "ib" || rest == "i"));
  if (power == std::string_view::npos || !named) return wrong;
  const uint64_t factor = uint64_t{1} << (10 * power);
  if (whole ? bytes > UINT64_MAX / factor : std::ldexp(value, static_cast<int>(10 * power)) >= 0x1p64) return text + " is too large";
  bytes = whole ? bytes * factor : static_cast<uint64_t>(std::ldexp(value, static_cast<int>(10 * power)));
  return "";
}

std::string parse_list(const std::string& text, uint32_t low, uint32_t high, std::vector<uint32_t>& values) {
  values.clear();
  if (text == "none") return "";
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();; ++at) {
    uint32_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ',') || value < low || value > high) {
      return fmt::format("numbers from {} to {} are expected, found {}", low, high, text);
    }
    values.push_back(value);
    if (next == end) return "";
    at = next;
  }
}

}  // namespace cli
