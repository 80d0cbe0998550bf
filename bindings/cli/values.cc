// Values on the command line.
#include <fmt/core.h>

#include <charconv>

#include "bindings/cli/commands.h"

namespace cli {

// Stricter than CLI11, which takes '' for the zero of any option, -1 for the largest number of 64 bits, what is larger still for that, too,
// and 010 for 8.
std::string check_value(const std::string& value, bool whole) {
  if (value.empty()) return "a value is expected, found ''";
  uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [next, error] = std::from_chars(value.data(), end, number);
  const bool sound = error == std::errc() && next == end && (value.size() == 1 || value[0] != '0');
  return !whole || sound ? "" : fmt::format("a whole number from 0 is expected, found {}", value);
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
