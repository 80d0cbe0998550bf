#include "runtime/text/unicode/nfc.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/utf8.h"

namespace kvrt {

namespace {

struct ClassRange {
  char32_t first, last;
  uint8_t combining;
};
struct UnstableRange {
  char32_t first, last;
};
struct WholeRow {
  char32_t from, parts[4];  // 0 ends them
};
struct PairRow {
  char32_t first, second, composed;
};

#include "runtime/text/unicode/nfc.inc"

constexpr char32_t kHangul = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;  // of Hangul
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28, kHangulCount = kLeadCount * kVowelCount * kTailCount;
constexpr char32_t kStableBelow = 0x300;

template <class Range, size_t N>
const Range* find_range(const Range (&table)[N], char32_t c) {
  const Range* range = std::lower_bound(table, table + N, c, [](const Range& r, char32_t x) { return r.last < x; });
  return range != table + N && range->first <= c ? range : nullptr;
}

// False: whatever stands around it, NFC leaves it as it is, but for marks behind it.
bool is_unstable(char32_t c) { return c >= kStableBelow && find_range(kUnstable, c) != nullptr; }

struct Point {
  char32_t value;
  uint8_t combining;  // its class
};

Point point_of(char32_t c) {
  const ClassRange* range = c < kStableBelow ? nullptr : find_range(kClasses, c);
  return {c, range == nullptr ? uint8_t{0} : range->combining};
}

// 0: the two do not compose.
char32_t composed(char32_t a, char32_t b) {
  if (a - kLeads < kLeadCount && b - kVowels < kVowelCount) return kHangul + ((a - kLeads) * kVowelCount + (b - kVowels)) * kTailCount;
  if (a - kHangul < kHangulCount && (a - kHangul) % kTailCount == 0 && b - kTails - 1 < kTailCount - 1) return a + (b - kTails);
  const auto before = [](const PairRow& row, const std::pair<char32_t, char32_t>& of) {
    return std::tie(row.first, row.second) < std::tie(of.first, of.second);
  };
  const PairRow* row = std::lower_bound(std::begin(kPairs), std::end(kPairs), std::pair(a, b), before);
  return row != std::end(kPairs) && row->first == a && row->second == b ? row->composed : 0;
}

// The bytes of a code point that its first byte shows to be stable; 0: it does not.
size_t stable_bytes(char first) {
  const auto lead = static_cast<unsigned char>(first);
  if (lead < 0xCC) return lead < 0x80 ? 1 : 2;  // below U+0300
  return lead >= 0xE4 && lead <= 0xE9 ? 3 : 0;  // U+4000 to U+9FFF
}

// A stable code point and the unstable ones behind it: nothing composes beyond them.
class Segment {
 public:
  void add(char32_t c) {
    if (c - kHangul < kHangulCount) {
      const uint32_t i = c - kHangul, tail = i % kTailCount;
      points_.push_back({kLeads + i / (kVowelCount * kTailCount), 0});
      points_.push_back({kVowels + i / kTailCount % kVowelCount, 0});
      if (tail > 0) points_.push_back({kTails + tail, 0});
      return;
    }
    const WholeRow* row =
        std::lower_bound(std::begin(kWhole), std::end(kWhole), c, [](const WholeRow& r, char32_t x) { return r.from < x; });
    if (row == std::end(kWhole) || row->from != c) return points_.push_back(point_of(c));
    for (char32_t part : row->parts)
      if (part != 0) points_.push_back(point_of(part));
  }

  void write(std::string* out) {
    order();
    compose();
    for (const Point& p : points_) append_code_point(p.value, out);
    points_.clear();
  }

 private:
  // Sorts each run of marks by their classes; equal ones stay as they came.
  void order() {
    constexpr ptrdiff_t kShort = 16;
    const auto starts = [](const Point& p) { return p.combining == 0; };
    for (auto at = points_.begin(); (at = std::find_if_not(at, points_.end(), starts)) != points_.end();) {
      const auto end = std::find_if(at, points_.end(), starts);
      if (end - at > kShort) {
        count_sort(at, end);
      } else {
        for (auto i = at; i != end; ++i)
          for (auto k = i; k != at && k[-1].combining > k->combining; --k) std::swap(k[-1], *k);
      }
      at = end;
    }
  }
  void count_sort(std::vector<Point>::iterator begin, std::vector<Point>::iterator end) {
    std::array<size_t, 257> places{};
    for (auto p = begin; p != end; ++p) ++places[p->combining + 1u];
    for (size_t i = 1; i < places.size(); ++i) places[i] += places[i - 1];
    sorted_.resize(static_cast<size_t>(end - begin));
    for (auto p = begin; p != end; ++p) sorted_[places[p->combining]++] = *p;
    std::copy(sorted_.begin(), sorted_.end(), begin);
  }
  void compose() {
    size_t starter = points_.size(), size = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      const Point p = points_[i];
      const bool reaches = starter < size && (size == starter + 1 || points_[size - 1].combining < p.combining);
      if (const char32_t c = reaches ? composed(points_[starter].value, p.value) : 0) {
        points_[starter].value = c;
        continue;
      }
      if (p.combining == 0) starter = size;
      points_[size++] = p;
    }
    points_.resize(size);
  }

  std::vector<Point> points_, sorted_;
};

}  // namespace

std::string_view to_nfc(std::string_view text, std::string* scratch) {
  scratch->clear();
  Segment segment;
  size_t written = 0, stable = 0;  // the text before `written` is in *scratch; the last stable code point stands at `stable`
  for (size_t at = 0; at < text.size();) {
    if (const size_t bytes = stable_bytes(text[at])) {
      stable = at;
      at += bytes;
      continue;
    }
    const CodePoint c = read_code_point(text.substr(at));
    const size_t size = std::max(c.size, 1u);
    if (!is_unstable(c.value)) {
      stable = at;
      at += size;
      continue;
    }
    scratch->append(text.substr(written, stable - written));
    for (size_t i = stable; i < at;) {
      const CodePoint base = read_code_point(text.substr(i));
      segment.add(base.value);
      i += std::max(base.size, 1u);
    }
    CodePoint next = c;
    do {
      segment.add(next.value);
      at += std::max(next.size, 1u);
      if (at == text.size()) break;
      next = read_code_point(text.substr(at));
    } while (is_unstable(next.value));
    segment.write(scratch);
    written = stable = at;
  }
  if (written == 0) return text;
  scratch->append(text.substr(written));
  return *scratch;
}

}  // namespace kvrt
