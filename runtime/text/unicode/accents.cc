#include "runtime/text/unicode/accents.h"

#include <algorithm>
#include <iterator>

namespace kvrt {

namespace {

struct AccentRange {
  char32_t first, last;
};
struct BarePair {
  char32_t from, to;
};
// One code point to several; 0 ends them.
struct BareParts {
  char32_t from, first, second, third;
};

#include "runtime/text/unicode/accents.inc"

template <size_t N>
bool in_ranges(const AccentRange (&ranges)[N], char32_t c) {
  const AccentRange* range = std::lower_bound(ranges, ranges + N, c, [](const AccentRange& r, char32_t x) { return r.last < x; });
  return range != ranges + N && range->first <= c;
}

template <class Row, size_t N>
const Row* row_from(const Row (&table)[N], char32_t c) {
  const Row* row = std::lower_bound(table, table + N, c, [](const Row& r, char32_t x) { return r.from < x; });
  return row != table + N && row->from == c ? row : nullptr;
}

constexpr char32_t kSyllables = 0xAC00, kSyllablesEnd = 0xD7A4;  // of Hangul: a lead, a vowel and perhaps a tail

}  // namespace

bool is_bert_removed(char32_t c) {
  if (c < 0x80) return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  return in_ranges(kRemoved, c);
}

bool is_bert_punctuation(char32_t c) {
  if (c < 0x80) return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return in_ranges(kPunctuation, c);
}

uint32_t strip_accents(char32_t c, char32_t out[3]) {
  out[0] = c;
  if (c < 0x80) return 1;
  if (c >= kSyllables && c < kSyllablesEnd) {
    const char32_t i = c - kSyllables, tail = i % 28;
    out[0] = 0x1100 + i / 588;
    out[1] = 0x1161 + i % 588 / 28;
    out[2] = 0x11A7 + tail;
    return tail == 0 ? 2 : 3;
  }
  if (in_ranges(kMarks, c)) return 0;
  if (const BarePair* pair = row_from(kBare, c)) {
    out[0] = pair->to;
  } else if (const BareParts* parts = row_from(kParts, c)) {
    out[0] = parts->first;
    out[1] = parts->second;
    out[2] = parts->third;
    return out[2] == 0 ? 2 : 3;
  }
  return 1;
}

}  // namespace kvrt
