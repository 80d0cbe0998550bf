// Random: the numbers of a seed, the same on every machine: no distribution of the C++ library, whose results differ from one to another.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cli::eval {

class Random {
 public:
  // Of a part of a run: another name or index gives other numbers, which do not depend on how many others were drawn.
  Random(uint64_t seed, std::string_view name, uint64_t index) : state_(seed) {
    for (const char c : name) state_ = mixed(state_ ^ static_cast<unsigned char>(c));
    state_ = mixed(state_ ^ index);
  }

  // SplitMix64 (Steele, Lea, Flood, 2014).
  uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15u); }
  uint64_t below(uint64_t n) {  // n > 0; without the bias of a remainder
    const uint64_t limit = ~uint64_t{0} - (~uint64_t{0} % n + 1) % n;
    uint64_t x = next();
    while (x > limit) x = next();
    return x % n;
  }
  int64_t between(int64_t low, int64_t high) { return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1)); }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <typename C>
  decltype(auto) pick(const C& from) {
    return from[below(std::size(from))];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }
  // `count` different ones of them, in random order.
  template <typename C>
  auto sample(const C& from, size_t count) {
    std::vector<std::decay_t<decltype(from[0])>> all(std::begin(from), std::end(from));
    shuffle(all);
    all.resize(count < all.size() ? count : all.size());
    return all;
  }

 private:
  static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  uint64_t state_;
};

}  // namespace cli::eval
