#include "runtime/text/grammar/char_nfa.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"

namespace kvrt {

uint32_t CharNfa::add(Node node) {
  if (nodes_.size() >= kPatternNodesMax) {
    too_large_ = true;
    nodes_.back() = node;
    return kPatternNodesMax - 1;
  }
  nodes_.push_back(node);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

CharNfa::Part CharNfa::single(Op op, uint32_t set) {
  const uint32_t n = add({op, set, kOpen, kOpen});
  return {n, n, n};
}

CharNfa::Part CharNfa::read(const CodePointSet& set) {
  const auto [at, fresh] = places_.try_emplace(set.ranges(), static_cast<uint32_t>(sets_.size()));
  if (fresh) sets_.push_back(set);
  return single(kRead, at->second);
}

CharNfa::Part CharNfa::literal(std::string_view utf8) {
  Part part = empty();
  while (!utf8.empty()) {
    const CodePoint c = read_code_point(utf8);
    utf8.remove_prefix(c.size);
    part = sequence(part, read({{c.value, c.value}}));
  }
  return part;
}

CharNfa::Part CharNfa::anything() {
  const Part one = read(CodePointSet::all());
  return repeat(one, 0, kNoMax);
}

CharNfa::Part CharNfa::sequence(Part a, Part b) {
  link(a.out, b.in);
  return {std::min(a.first, b.first), a.in, b.out};
}

CharNfa::Part CharNfa::choice(std::span<const Part> parts) {
  if (parts.empty()) return read({});
  Part whole = parts.back();
  if (parts.size() == 1) return whole;
  whole.out = empty().in;
  link(parts.back().out, whole.out);
  for (size_t i = parts.size() - 1; i-- > 0;) {
    whole.in = add({kFork, 0, parts[i].in, whole.in});
    link(parts[i].out, whole.out);
    whole.first = std::min(whole.first, parts[i].first);
  }
  return whole;
}

CharNfa::Part CharNfa::repeat(Part a, uint32_t min, uint32_t max) {
  if (max == 0) return empty();
  const auto end = static_cast<uint32_t>(nodes_.size());
  const uint32_t size = end - a.first, copies = max == kNoMax ? std::max(min, 1u) : max;
  const std::vector<Node> original(nodes_.begin() + a.first, nodes_.end());  // as it was made: linking changes it
  const uint32_t out = empty().in;
  uint32_t first_in = kOpen, previous = kOpen;
  for (uint32_t i = 0; i < copies && !too_large_; ++i) {
    const uint32_t shift = i == 0 ? 0 : static_cast<uint32_t>(nodes_.size()) - a.first;
    for (size_t n = 0; i > 0 && n < original.size() && !too_large_; ++n) {
      Node node = original[n];
      for (uint32_t* to : {&node.next, &node.other}) {
        if (*to != kOpen && *to >= a.first && *to < a.first + size) *to += shift;
      }
      add(node);
    }
    uint32_t in = a.in + shift;
    if (i >= min) in = add({kFork, 0, in, out});  // this copy and those after it may be left out
    if (previous == kOpen) {
      first_in = in;
    } else if (!too_large_) {
      link(previous, in);
    }
    previous = a.out + shift;
  }
  if (too_large_) return {a.first, 0, 0};
  if (max == kNoMax) {  // the last one again and again
    const uint32_t last = a.in + (previous - a.out);
    link(previous, add({kFork, 0, last, out}));
  } else {
    link(previous, out);
  }
  return {a.first, first_in, out};
}

void CharNfa::finish(Part part) {
  const uint32_t accept = add({kAccept, 0, kOpen, kOpen});
  link(part.out, accept);
  start_ = part.in;
  places_ = {};
}

bool CharNfa::accepts(std::string_view utf8, uint64_t* steps) const {
  std::vector<uint32_t> at{start_}, to, stack;
  std::vector<size_t> seen(nodes_.size(), SIZE_MAX);
  bool accepted = false;
  for (size_t offset = 0;;) {
    const bool end = offset == utf8.size();
    const CodePoint c = end ? CodePoint{} : read_code_point(utf8.substr(offset));
    to.clear();
    stack = at;
    while (!stack.empty()) {
      const uint32_t n = stack.back();
      stack.pop_back();
      if (*steps == 0) return false;
      --*steps;
      if (n == kOpen || seen[n] == offset) continue;
      seen[n] = offset;
      const Node& node = nodes_[n];
      accepted = accepted || (end && node.op == kAccept);
      if (node.op == kRead && !end && sets_[node.set].contains(c.value)) to.push_back(node.next);
      if (node.op == kFork) stack.push_back(node.other);
      if (node.op == kFork || node.op == kSkip || (node.op == kBegin && offset == 0) || (node.op == kEnd && end))
        stack.push_back(node.next);
    }
    if (end) return accepted;
    offset += std::max<size_t>(c.size, 1);
    at.swap(to);
  }
}

}  // namespace kvrt
