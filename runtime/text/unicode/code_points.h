// Sets of code points, and how UTF-8 spells them as ranges of bytes. Surrogates are in no set.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvrt {

class CodePointSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // both ends are in it

  CodePointSet() = default;
  CodePointSet(std::initializer_list<Range> ranges) {
    for (Range r : ranges) add(r.first, r.second);
  }
  static CodePointSet all() { return {{0, 0x10FFFF}}; }
  void add(char32_t first, char32_t last);
  void add(const CodePointSet& other);
  void add(std::vector<Range> ranges);  // in any order: sooner than one by one
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;
  CodePointSet without(const CodePointSet& other) const { return intersection(other.complement()); }
  bool contains(char32_t c) const;
  bool covers(const CodePointSet& other) const { return other.without(*this).ranges().empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }  // ascending, apart by at least one

 private:
  std::vector<Range> ranges_;
};

// size bytes, each within its range: a set of byte sequences that are all the UTF-8 of the code points of a range.
struct Utf8Range {
  uint32_t size = 0;
  std::array<std::pair<uint8_t, uint8_t>, 4> bytes{};
};
std::vector<Utf8Range> utf8_ranges(const CodePointSet& set);

}  // namespace kvrt
