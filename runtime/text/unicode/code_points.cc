#include "runtime/text/unicode/code_points.h"

#include <algorithm>
#include <string>

#include "runtime/base/utf8.h"

namespace kvrt {

namespace {

constexpr char32_t kLast = 0x10FFFF, kSurrogates = 0xD800, kAfterSurrogates = 0xE000;

// first and last have the same length; splits where a range is not "any continuation bytes" below the byte that varies.
void split(char32_t first, char32_t last, std::vector<Utf8Range>* out) {
  for (uint32_t i = 1; i < 4; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // the bits of the last i bytes
    if (last < 0x80 || (first & ~low) == (last & ~low)) continue;
    if (first & low) {
      split(first, first | low, out);
      return split((first | low) + 1, last, out);
    }
    if ((last & low) != low) {
      split(first, (last & ~low) - 1, out);
      return split(last & ~low, last, out);
    }
  }
  std::string a, b;
  append_code_point(first, &a);
  append_code_point(last, &b);
  Utf8Range range;
  range.size = static_cast<uint32_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) range.bytes[i] = {static_cast<uint8_t>(a[i]), static_cast<uint8_t>(b[i])};
  out->push_back(range);
}

}  // namespace

void CodePointSet::add(char32_t first, char32_t last) {
  if (first < kSurrogates && last >= kSurrogates) {
    add(first, kSurrogates - 1);
    first = kSurrogates;
  }
  if (first >= kSurrogates && first < kAfterSurrogates) first = kAfterSurrogates;
  last = std::min(last, kLast);
  if (first > last) return;
  // Those that touch the new one are [from, to) and melt into it.
  auto from = std::lower_bound(ranges_.begin(), ranges_.end(), first, [](const Range& r, char32_t c) { return r.second + 1 < c; });
  auto to = from;
  for (; to != ranges_.end() && to->first <= last + 1; ++to) {
    first = std::min(first, to->first);
    last = std::max(last, to->second);
  }
  from = ranges_.erase(from, to);
  ranges_.insert(from, {first, last});
}

void CodePointSet::add(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (Range r : ranges) add(r.first, r.second);
}

void CodePointSet::add(const CodePointSet& other) {
  for (Range r : other.ranges_) add(r.first, r.second);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  char32_t next = 0;
  for (Range r : ranges_) {
    if (r.first > next) out.add(next, r.first - 1);
    next = r.second + 1;
  }
  out.add(next, kLast);
  return out;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet out;
  auto a = ranges_.begin(), b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    out.add(std::max(a->first, b->first), std::min(a->second, b->second));
    if (a->second < b->second) {
      ++a;
    } else {
      ++b;
    }
  }
  return out;
}

bool CodePointSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [c](const Range& r) { return r.first <= c && c <= r.second; });
}

std::vector<Utf8Range> utf8_ranges(const CodePointSet& set) {
  constexpr CodePointSet::Range kLengths[] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLast}};
  std::vector<Utf8Range> out;
  for (auto [first, last] : set.ranges()) {
    for (auto [from, to] : kLengths) {
      if (std::max(first, from) <= std::min(last, to)) split(std::max(first, from), std::min(last, to), &out);
    }
  }
  return out;
}

}  // namespace kvrt
