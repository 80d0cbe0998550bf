#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/text/grammar/char_nfa.h"

namespace kvrt {

namespace {

// Characters that no set of the automata tells apart, as disjoint sets. Takes its work from `steps`; 0: there was too much to do.
std::vector<CodePointSet> classes_of(std::span<const CharNfa* const> nfas, uint64_t* steps) {
  std::vector<char32_t> cuts{0};
  size_t sets = 0;
  for (const CharNfa* nfa : nfas) {
    sets += nfa->sets().size();
    for (const CodePointSet& set : nfa->sets()) {
      for (auto [first, last] : set.ranges()) {
        cuts.push_back(first);
        if (last < 0x10FFFF) cuts.push_back(last + 1);
      }
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  *steps -= std::min<uint64_t>(*steps, cuts.size() * (sets + 4) / 4);
  if (*steps == 0) return {};
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
  for (auto& [key, points] : by_sets) {
    if (!points.ranges().empty()) out.push_back(std::move(points));
  }
  return out;
}

uint64_t hash_of(const std::vector<uint32_t>& v) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ v.size();
  for (uint32_t x : v) h = (h ^ x) * 0xFF51AFD7ED558CCDu, h ^= h >> 32;
  return h;
}

struct Hash {
  size_t operator()(const std::vector<uint32_t>& v) const { return hash_of(v); }
};
using Ids = std::unordered_map<std::vector<uint32_t>, uint32_t, Hash>;

// One automaton made deterministic as far as it is asked for. Sets of nodes are numbered from 0, the start.
class Subsets {
 public:
  Subsets(const CharNfa& nfa, const std::vector<CodePointSet>& classes) : nfa_(nfa), classes_(classes.size()) {
    for (const CodePointSet& set : nfa.sets()) {
      for (const CodePointSet& c : classes) reads_.push_back(set.contains(c.ranges().front().first));
    }
    seen_.assign(nfa.nodes().size(), 0);
    to_.assign(1, nfa.start());
    id(true);
  }
  bool accepts(uint32_t subset) const { return accepts_[subset]; }
  uint32_t step(uint32_t subset, size_t c) {
    const size_t at = subset * classes_ + c;
    if (next_[at] != CharDfa::kDead) return next_[at];
    to_.clear();
    for (uint32_t n : *nodes_[subset]) {
      const CharNfa::Node& node = nfa_.nodes()[n];
      if (node.op == CharNfa::kRead && reads_[node.set * classes_ + c]) to_.push_back(node.next);
    }
    spent_ += nodes_[subset]->size() / 8 + 1;
    const bool as_before = subset == last_from_ && to_ == last_to_;  // most classes of a state lead the way of another one
    if (!as_before) last_from_ = subset, last_to_ = to_, last_id_ = id(false);
    return next_[at] = last_id_;
  }
  uint64_t take_spent() { return std::exchange(spent_, 0); }

 private:
  // What is reached from to_ without reading, into reads_from_; true where the text may end there.
  bool close(bool at_begin, bool at_end) {
    ++round_;
    bool accept = false;
    reads_from_.clear();
    ends_ = false;
    stack_.assign(to_.rbegin(), to_.rend());
    while (!stack_.empty()) {
      const uint32_t n = stack_.back();
      stack_.pop_back();
      if (n == CharNfa::kOpen || seen_[n] == round_) continue;
      seen_[n] = round_;
      ++spent_;
      const CharNfa::Node& node = nfa_.nodes()[n];
      accept = accept || node.op == CharNfa::kAccept;
      ends_ = ends_ || node.op == CharNfa::kEnd;
      if (node.op == CharNfa::kRead) reads_from_.push_back(n);
      const bool passes = node.op == CharNfa::kSkip || node.op == CharNfa::kFork || (node.op == CharNfa::kBegin && at_begin) ||
                          (node.op == CharNfa::kEnd && at_end);
      if (!passes) continue;
      if (node.op == CharNfa::kFork) stack_.push_back(node.other);
      stack_.push_back(node.next);
    }
    return accept;
  }
  // A node that reads any character and comes back to itself and to the end: nothing can go wrong from there.
  bool settled(uint32_t n) {
    if (settled_.empty()) settled_.assign(nfa_.nodes().size(), 0);
    if (settled_[n]) return settled_[n] == 2;
    const CharNfa::Node& node = nfa_.nodes()[n];
    settled_[n] = 1;
    if (!nfa_.sets()[node.set].complement().ranges().empty()) return false;
    to_.assign(1, node.next);
    const bool back = close(false, false) && std::find(reads_from_.begin(), reads_from_.end(), n) != reads_from_.end();
    settled_[n] = back ? 2 : 1;
    return back;
  }
  uint32_t id(bool at_begin) {
    const bool anywhere = close(at_begin, false);
    std::vector<uint32_t> reads = reads_from_;
    const bool accept = anywhere || (ends_ && close(at_begin, true));
    std::sort(reads.begin(), reads.end());
    for (size_t i = 0; anywhere && i < reads.size(); ++i) {
      if (!settled(reads[i])) continue;
      reads.assign(1, reads[i]);
      break;
    }
    reads.push_back(accept);  // part of what tells sets apart
    auto [at, fresh] = ids_.try_emplace(std::move(reads), static_cast<uint32_t>(accepts_.size()));
    if (fresh) {
      accepts_.push_back(accept);
      nodes_.push_back(&(sets_.emplace_back(at->first.begin(), at->first.end() - 1)));
      next_.resize(next_.size() + classes_, CharDfa::kDead);
    }
    return at->second;
  }

  const CharNfa& nfa_;
  size_t classes_;
  std::vector<bool> reads_;  // [set * classes + class]
  std::vector<uint32_t> seen_, to_, reads_from_, stack_, last_to_;
  std::vector<uint8_t> settled_;
  bool ends_ = false;
  uint32_t round_ = 0, last_from_ = CharDfa::kDead, last_id_ = 0;
  uint64_t spent_ = 0;
  Ids ids_;
  std::deque<std::vector<uint32_t>> sets_;
  std::vector<const std::vector<uint32_t>*> nodes_;
  std::vector<bool> accepts_;
  std::vector<uint32_t> next_;
};

}  // namespace

std::optional<CharDfa> CharDfa::make(std::span<const CharNfa* const> nfas, const std::function<int(uint64_t)>& label_of,
                                     uint32_t states_max, uint64_t* steps) {
  CharDfa dfa;
  dfa.classes = classes_of(nfas, steps);
  if (*steps == 0) return std::nullopt;
  std::vector<Subsets> subsets;
  subsets.reserve(nfas.size());
  for (const CharNfa* nfa : nfas) subsets.emplace_back(*nfa, dfa.classes);
  Ids ids;
  std::vector<const std::vector<uint32_t>*> states;
  auto state = [&](const std::vector<uint32_t>& at) {
    auto [found, fresh] = ids.try_emplace(at, static_cast<uint32_t>(ids.size()));
    if (!fresh) return found->second;
    states.push_back(&found->first);
    uint64_t bits = 0;
    for (size_t i = 0; i < nfas.size(); ++i) bits |= uint64_t{subsets[i].accepts((*states.back())[i])} << i;
    dfa.label.push_back(label_of(bits));
    return found->second;
  };
  std::vector<uint32_t> to(nfas.size(), 0), last;
  state(to);
  for (uint32_t s = 0; s < states.size(); ++s) {
    for (Subsets& one : subsets) *steps -= std::min(*steps, one.take_spent());
    *steps -= std::min<uint64_t>(*steps, dfa.classes.size() * nfas.size());
    if (states.size() > states_max || *steps == 0) return std::nullopt;
    for (size_t c = 0; c < dfa.classes.size(); ++c) {
      for (size_t i = 0; i < nfas.size(); ++i) to[i] = subsets[i].step((*states[s])[i], c);
      const bool as_before = c > 0 && to == last;
      dfa.next.push_back(as_before ? dfa.next.back() : state(to));
      last = to;
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
  if (top / (4 * states_max + 1) > 0) return std::nullopt;
  std::vector<std::pair<uint32_t, uint32_t>> latest(states(), {kDead, 0});  // counts are met in order: the last of each state, and its id
  std::vector<std::pair<uint32_t, uint32_t>> order;
  auto state = [&](uint32_t s, uint32_t count) {
    auto& [of, id] = latest[s];
    if (of != count) {
      of = count;
      id = static_cast<uint32_t>(order.size());
      order.emplace_back(s, count);
      out.label.push_back(count >= min ? label[s] : kNoLabel);
    }
    return id;
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

// Strongly connected states, by Tarjan's algorithm; a state alone is a loop where it leads to itself.
std::vector<uint32_t> CharDfa::loops() const {
  const size_t width = classes.size();
  std::vector<uint32_t> loop(states(), kDead), order(states(), 0), low(states(), 0), open;
  std::vector<bool> is_open(states(), false);
  std::vector<std::pair<uint32_t, size_t>> path;
  uint32_t next_order = 0, count = 0;
  for (uint32_t root = 0; root < states(); ++root) {
    if (order[root]) continue;
    path.assign(1, {root, 0});
    while (!path.empty()) {
      auto& [s, c] = path.back();
      if (c == 0) {
        order[s] = low[s] = ++next_order;
        open.push_back(s);
        is_open[s] = true;
      }
      if (c < width) {
        const uint32_t to = next[s * width + c++];
        if (to == kDead) continue;
        if (!order[to]) {
          path.emplace_back(to, 0);
        } else if (is_open[to]) {
          low[s] = std::min(low[s], order[to]);
        }
        continue;
      }
      const uint32_t done = s;
      path.pop_back();
      if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[done]);
      if (low[done] != order[done]) continue;
      const bool alone = open.back() == done;
      const auto first = next.begin() + static_cast<ptrdiff_t>(done * width);
      const bool loops_itself = std::find(first, first + static_cast<ptrdiff_t>(width), done) != first + static_cast<ptrdiff_t>(width);
      for (uint32_t member = kDead; member != done; open.pop_back()) {
        member = open.back();
        is_open[member] = false;
        if (!alone || loops_itself) loop[member] = count;
      }
      ++count;
    }
  }
  return loop;
}

std::optional<CharDfa> CharDfa::with_loops(uint32_t max, uint32_t share_min) const {
  const std::vector<uint32_t> loop = loops();
  std::map<uint32_t, uint32_t> sizes;
  uint32_t single = 0;
  for (uint32_t l : loop) {
    if (l == kDead) ++single;
    if (l != kDead) ++sizes[l];
  }
  const auto count = static_cast<uint32_t>(sizes.size());
  if (count == 0 || single + count >= max) return std::nullopt;
  const uint32_t share = (max - single - count) / count;  // steps within a loop; others lead from one to another, or are single
  if (share < std::max(share_min / count, share_min / 2)) return std::nullopt;
  uint32_t most = 0;
  for (auto& [l, size] : sizes) {
    size = std::min(share, std::max({share_min / count, share_min / 2, kSchemaCountedStates / 4 / size}));  // from here on: its steps
    most = std::max(most, size);
  }
  CharDfa out;
  out.classes = classes;
  std::vector<uint32_t> ids(size_t{states()} * (most + 1), kDead);
  std::vector<std::pair<uint32_t, uint32_t>> order;
  auto state = [&](uint32_t s, uint32_t steps) {
    uint32_t& id = ids[size_t{s} * (most + 1) + steps];
    if (id == kDead) id = static_cast<uint32_t>(order.size()), order.emplace_back(s, steps), out.label.push_back(label[s]);
    return id;
  };
  state(0, 0);
  for (uint32_t i = 0; i < order.size(); ++i) {
    const auto [s, steps] = order[i];
    for (size_t c = 0; c < classes.size(); ++c) {
      const uint32_t to = next[s * classes.size() + c];
      const bool inside = to != kDead && loop[s] != kDead && loop[to] == loop[s];
      const bool past = inside && steps == sizes[loop[s]];
      out.next.push_back(to == kDead || past ? kDead : state(to, inside ? steps + 1 : 0));
    }
  }
  out.trim();
  return out;
}

std::pair<uint32_t, uint32_t> CharDfa::lengths() const {
  const size_t width = classes.size();
  // Layer by layer. A loop of a trimmed automaton is in some text.
  const std::vector<uint32_t> loop = loops();
  const bool endless = std::any_of(loop.begin(), loop.end(), [](uint32_t l) { return l != kDead; });
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
      if (endless && shortest != CharNfa::kNoMax) return {shortest, CharNfa::kNoMax};
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
