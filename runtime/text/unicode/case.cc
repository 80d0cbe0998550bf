#include "runtime/text/unicode/case.h"

#include <algorithm>
#include <iterator>

namespace kvrt {

namespace {

// first, first + step, ... last: each maps to itself + delta.
struct CaseRun {
  char32_t first, last;
  uint32_t step;
  int32_t delta;
};
// One code point to several; 0 ends them.
struct Expansion {
  char32_t from, to[3];
  constexpr Expansion(char32_t f, char32_t a, char32_t b, char32_t c) : from(f), to{a, b, c} {}
};
struct Range {
  char32_t first, last;
};

#include "runtime/text/unicode/tables.inc"

template <size_t N>
bool map_one(const CaseRun (&runs)[N], char32_t c, char32_t* out) {
  const CaseRun* run = std::lower_bound(runs, runs + N, c, [](const CaseRun& r, char32_t x) { return r.last < x; });
  if (run == runs + N || c < run->first || (c - run->first) % run->step != 0) return false;
  *out = static_cast<char32_t>(static_cast<int32_t>(c) + run->delta);
  return true;
}

template <size_t N>
uint32_t expand(const Expansion (&table)[N], char32_t c, char32_t out[3]) {
  const Expansion* entry = std::lower_bound(table, table + N, c, [](const Expansion& e, char32_t x) { return e.from < x; });
  if (entry == table + N || entry->from != c) return 0;
  std::copy(entry->to, entry->to + 3, out);
  return entry->to[2] != 0 ? 3 : 2;
}

}  // namespace

uint32_t change_case(char32_t c, Case how, char32_t out[3]) {
  out[0] = c;
  if (c < 0x80) {
    if (how == Case::kLower ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z') out[0] = c ^ 0x20;
    return 1;
  }
  if (how == Case::kLower) {
    uint32_t n = expand(kLowerLong, c, out);
    if (n == 0) map_one(kLower, c, out);
    return n == 0 ? 1 : n;
  }
  if (how == Case::kTitle) {  // the table holds the differences from upper case
    if (uint32_t n = expand(kTitleLong, c, out)) return n;
    if (map_one(kTitle, c, out)) return 1;
  }
  uint32_t n = expand(kUpperLong, c, out);
  if (n == 0) map_one(kUpper, c, out);
  return n == 0 ? 1 : n;
}

bool is_cased(char32_t c) {
  char32_t out[3];
  return change_case(c, Case::kUpper, out) > 1 || out[0] != c || change_case(c, Case::kLower, out) > 1 || out[0] != c;
}

bool is_case_ignorable(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xA8 || c == 0xAD || c == 0xAF || c == 0xB4 || c == 0xB7 ||
         c == 0xB8 || (c >= 0x2B0 && c <= 0x36F) || c == 0x2019 || (c >= 0x200B && c <= 0x200F);
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  const Range* range = std::lower_bound(kHidden, std::end(kHidden), c, [](const Range& r, char32_t x) { return r.last < x; });
  return range == std::end(kHidden) || c < range->first;
}

}  // namespace kvrt
