#include <algorithm>
#include <map>
#include <utility>

#include "runtime/text/grammar/char_nfa.h"

namespace kvrt {

namespace {

// Characters that no set of the automata tells apart, as disjoint sets.
std::vector<CodePointSet> classes_of(std::span<const CharNfa* const> nfas) {
  std::vector<char32_t> cuts{0};
  for (const CharNfa* nfa : nfas) {
    for (const CodePointSet& set : nfa->sets()) {
      for (auto [first, last] : set.ranges()) {
        cuts.push_back(first);
        if (last < 0x10FFFF) cuts.push_back(last + 1);
      }
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<std::vector<bool>> in(cuts.size());
  for (const CharNfa* nfa : nfas) {
    for (const CodePointSet& set : nfa->sets()) {
      auto range = set.ranges().begin();
      for (size_t i = 0; i < cuts.size(); ++i) {
        while (range != set.ranges().end() && range->second < cuts[i]) ++range;
        in[i].push_back(range != set.ranges().end() && range->first <= cuts[i]);
      }
    }
  }
  std::map<std::vector<bool>, CodePointSet> by_sets;
  for (size_t i = 0; i < cuts.size(); ++i) by_sets[in[i]].add(cuts[i], i + 1 < cuts.size() ? cuts[i + 1] - 1 : 0x10FFFF);
  std::vector<CodePointSet> out;
  for (auto& [sets, points] : by_sets) {
    if (!points.ranges().empty()) out.push_back(std::move(points));
  }
  return out;
}

// One automaton made deterministic as far as it is asked for. Sets of nodes are numbered from 0, the start.
class Subsets {
 public:
  Subsets(const CharNfa& nfa, const std::vector<CodePointSet>& classes) : nfa_(nfa), classes_(classes.size()) {
    for (const CodePointSet& set : nfa.sets()) {
      for (const CodePointSet& c : classes) reads_.push_back(set.contains(c.ranges().front().first));
    }
    seen_.assign(nfa.nodes().size(), 0);
    id({nfa.start()}, true);
  }
  bool accepts(uint32_t subset) const { return accepts_[subset]; }
  uint32_t step(uint32_t subset, size_t c) {
    uint32_t& known = next_[subset * classes_ + c];
    if (known != CharDfa::kDead) return known;
    std::vector<uint32_t> to;
    for (uint32_t n : *nodes_[subset]) {
      const CharNfa::Node& node = nfa_.nodes()[n];
      if (node.op == CharNfa::kRead && reads_[node.set * classes_ + c]) to.push_back(node.next);
    }
    spent_ += nodes_[subset]->size() + 1;
    const uint32_t found = id(to, false);
    return next_[subset * classes_ + c] = found;
  }
  uint64_t take_spent() { return std::exchange(spent_, 0); }

 private:
  // What is reached from `from` without reading; true where the text may end there.
  bool close(const std::vector<uint32_t>& from, bool at_begin, bool at_end, std::vector<uint32_t>* reads) {
    ++round_;
    bool accept = false;
    std::vector<uint32_t> stack(from.rbegin(), from.rend());
    while (!stack.empty()) {
      const uint32_t n = stack.back();
      stack.pop_back();
      if (n == CharNfa::kOpen || seen_[n] == round_) continue;
      seen_[n] = round_;
      ++spent_;
      const CharNfa::Node& node = nfa_.nodes()[n];
      accept = accept || node.op == CharNfa::kAccept;
      if (node.op == CharNfa::kRead && reads) reads->push_back(n);
      const bool passes = node.op == CharNfa::kSkip || node.op == CharNfa::kFork || (node.op == CharNfa::kBegin && at_begin) ||
                          (node.op == CharNfa::kEnd && at_end);
      if (!passes) continue;
      if (node.op == CharNfa::kFork) stack.push_back(node.other);
      stack.push_back(node.next);
    }
    return accept;
  }
  // A node that reads any character and comes back to itself and to the end: nothing can go wrong from there.
  bool settled(uint32_t n) {
    const CharNfa::Node& node = nfa_.nodes()[n];
    if (!nfa_.sets()[node.set].complement().ranges().empty()) return false;
    std::vector<uint32_t> reads;
    return close({node.next}, false, false, &reads) && std::find(reads.begin(), reads.end(), n) != reads.end();
  }
  uint32_t id(const std::vector<uint32_t>& from, bool at_begin) {
    std::vector<uint32_t> reads;
    const bool accept = close(from, at_begin, true, nullptr);
    const bool anywhere = close(from, at_begin, false, &reads);
    std::sort(reads.begin(), reads.end());
    if (anywhere) {
      for (uint32_t n : reads) {
        if (!settled(n)) continue;
        reads.assign(1, n);
        break;
      }
    }
    auto [at, fresh] = ids_.try_emplace({reads, accept}, static_cast<uint32_t>(accepts_.size()));
    if (fresh) {
      accepts_.push_back(accept);
      nodes_.push_back(&at->first.first);
      next_.resize(next_.size() + classes_, CharDfa::kDead);
    }
    return at->second;
  }

  const CharNfa& nfa_;
  size_t classes_;
  std::vector<bool> reads_;  // [set * classes + class]
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  uint64_t spent_ = 0;
  std::map<std::pair<std::vector<uint32_t>, bool>, uint32_t> ids_;
  std::vector<const std::vector<uint32_t>*> nodes_;
  std::vector<bool> accepts_;
  std::vector<uint32_t> next_;
};

}  // namespace

std::optional<CharDfa> CharDfa::make(std::span<const CharNfa* const> nfas, const std::function<int(uint64_t)>& label_of,
                                     uint32_t states_max, uint64_t* steps) {
  CharDfa dfa;
  dfa.classes = classes_of(nfas);
  std::vector<Subsets> subsets;
  subsets.reserve(nfas.size());
  for (const CharNfa* nfa : nfas) subsets.emplace_back(*nfa, dfa.classes);
  std::map<std::vector<uint32_t>, uint32_t> ids;
  std::vector<const std::vector<uint32_t>*> states;
  auto state = [&](std::vector<uint32_t> at) {
    auto [found, fresh] = ids.try_emplace(std::move(at), static_cast<uint32_t>(ids.size()));
    if (!fresh) return found->second;
    states.push_back(&found->first);
    uint64_t bits = 0;
    for (size_t i = 0; i < nfas.size(); ++i) bits |= uint64_t{subsets[i].accepts((*states.back())[i])} << i;
    dfa.label.push_back(label_of(bits));
    return found->second;
  };
  state(std::vector<uint32_t>(nfas.size(), 0));
  for (uint32_t s = 0; s < states.size(); ++s) {
    for (Subsets& one : subsets) *steps -= std::min(*steps, one.take_spent());
    *steps -= std::min<uint64_t>(*steps, dfa.classes.size() * nfas.size());
    if (states.size() > states_max || *steps == 0) return std::nullopt;
    for (size_t c = 0; c < dfa.classes.size(); ++c) {
      std::vector<uint32_t> to(nfas.size());
      for (size_t i = 0; i < nfas.size(); ++i) to[i] = subsets[i].step((*states[s])[i], c);
      dfa.next.push_back(state(std::move(to)));
    }
  }
  dfa.trim();
  return dfa;
}

void CharDfa::trim() {
  const size_t width = classes.size();
  std::vector<std::vector<uint32_t>> from(states());
  std::vector<bool> reached(states(), false), alive(states(), false);
  std::vector<uint32_t> stack{0};
  reached[0] = true;
  while (!stack.empty()) {
    const uint32_t s = stack.back();
    stack.pop_back();
    for (size_t c = 0; c < width; ++c) {
      const uint32_t to = next[s * width + c];
      if (to == kDead) continue;
      if (from[to].empty() || from[to].back() != s) from[to].push_back(s);
      if (!reached[to]) reached[to] = true, stack.push_back(to);
    }
  }
  for (uint32_t s = 0; s < states(); ++s) {
    if (reached[s] && label[s] != kNoLabel) alive[s] = true, stack.push_back(s);
  }
  while (!stack.empty()) {
    const uint32_t s = stack.back();
    stack.pop_back();
    for (uint32_t f : from[s]) {
      if (!alive[f]) alive[f] = true, stack.push_back(f);
    }
  }
  std::vector<uint32_t> place(states(), kDead);
  uint32_t kept = 0;
  for (uint32_t s = 0; s < states(); ++s) {
    if (alive[s] || s == 0) place[s] = kept++;
  }
  for (uint32_t s = 0; s < states(); ++s) {
    if (place[s] == kDead) continue;
    label[place[s]] = label[s];
    for (size_t c = 0; c < width; ++c) {
      const uint32_t to = next[s * width + c];
      next[place[s] * width + c] = to == kDead || !alive[to] ? kDead : place[to];
    }
  }
  label.resize(kept);
  next.resize(kept * width);
}

bool CharDfa::empty() const {
  return std::all_of(label.begin(), label.end(), [](int l) { return l == kNoLabel; });
}

std::optional<CharDfa> CharDfa::with_lengths(uint32_t min, uint32_t max, uint32_t states_max) const {
  CharDfa out;
  out.classes = classes;
  const uint32_t top = max == CharNfa::kNoMax ? min : max;  // counts from there on are one
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> order;
  auto state = [&](uint32_t s, uint32_t count) {
    auto [at, fresh] = ids.try_emplace({count, s}, static_cast<uint32_t>(order.size()));
    if (fresh) {
      order.emplace_back(s, count);
      out.label.push_back(count >= min ? label[s] : kNoLabel);
    }
    return at->second;
  };
  state(0, 0);
  for (uint32_t i = 0; i < order.size(); ++i) {
    if (order.size() > states_max) return std::nullopt;
    const auto [s, count] = order[i];
    for (size_t c = 0; c < classes.size(); ++c) {
      const uint32_t to = next[s * classes.size() + c];
      const bool past = count == top && max != CharNfa::kNoMax;
      out.next.push_back(to == kDead || past ? kDead : state(to, std::min(count + 1, top)));
    }
  }
  out.trim();
  return out;
}

std::pair<uint32_t, uint32_t> CharDfa::lengths() const {
  const size_t width = classes.size();
  // Layer by layer; a layer that is as deep as there are states has gone round a loop.
  std::vector<bool> layer(states(), false);
  layer[0] = true;
  uint32_t shortest = CharNfa::kNoMax, longest = 0;
  for (uint32_t depth = 0; depth <= states(); ++depth) {
    std::vector<bool> after(states(), false);
    bool any = false;
    for (uint32_t s = 0; s < states(); ++s) {
      if (!layer[s]) continue;
      any = true;
      if (label[s] != kNoLabel) shortest = std::min(shortest, depth), longest = depth;
      for (size_t c = 0; c < width; ++c) {
        if (next[s * width + c] != kDead) after[next[s * width + c]] = true;
      }
    }
    if (!any) return {shortest, longest};
    layer.swap(after);
  }
  return {shortest, CharNfa::kNoMax};
}

}  // namespace kvrt
