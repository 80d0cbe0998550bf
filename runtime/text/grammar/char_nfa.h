// Automata over characters: what a pattern of a schema is before it becomes a part of a grammar, so that patterns can be negated, counted
// and combined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/text/unicode/code_points.h"

namespace kvrt {

class CharNfa {
 public:
  enum Op : uint8_t { kRead, kFork, kSkip, kBegin, kEnd, kAccept };  // kBegin, kEnd: passed at the text's beginning, end only
  struct Node {
    Op op;
    uint32_t set;          // kRead: which of the sets
    uint32_t next, other;  // other: the second way of kFork
  };
  // A piece under construction: its nodes are [first, end of all nodes) when it is made; `out` is a node whose next is open.
  struct Part {
    uint32_t first, in, out;
  };
  static constexpr uint32_t kOpen = UINT32_MAX, kNoMax = UINT32_MAX;

  Part empty() { return single(kSkip, 0); }
  Part read(const CodePointSet& set);
  Part literal(std::string_view utf8);
  Part assertion(Op op) { return single(op, 0); }
  Part anything();
  Part sequence(Part a, Part b);
  Part choice(std::span<const Part> parts);
  Part repeat(Part a, uint32_t min, uint32_t max);  // `a` must be the last that was made
  void finish(Part part);
  bool accepts(std::string_view utf8, uint64_t* steps) const;  // `steps` of work at most; what was done is taken from them, 0: too much
  bool too_large() const { return too_large_; }                // a limit was met: what was built is of no use

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<CodePointSet>& sets() const { return sets_; }
  uint32_t start() const { return start_; }

 private:
  Part single(Op op, uint32_t set);
  uint32_t add(Node node);
  void link(uint32_t node, uint32_t to) { nodes_[node].next = to; }

  std::vector<Node> nodes_;
  std::vector<CodePointSet> sets_;
  std::map<std::vector<CodePointSet::Range>, uint32_t> places_;  // of the sets, until it is finished
  uint32_t start_ = 0;
  bool too_large_ = false;
};

// A deterministic automaton over classes of characters. State 0 is the start, and is there even where no text is accepted.
struct CharDfa {
  static constexpr uint32_t kDead = UINT32_MAX;
  static constexpr int kNoLabel = -1;
  std::vector<CodePointSet> classes;
  std::vector<uint32_t> next;  // [state * classes.size() + class]
  std::vector<int> label;      // by state: what a text that ends there is; kNoLabel: it is none

  uint32_t states() const { return static_cast<uint32_t>(label.size()); }
  bool empty() const;  // no text is accepted
  void trim();         // removes what leads to no end
  // The texts of min to max characters.
  std::optional<CharDfa> with_lengths(uint32_t min, uint32_t max, uint32_t states_max) const;
  // Of the texts of at most max characters those whose every loop reads at most its share of them: far fewer states. None: the share is less
  // than share_min.
  std::optional<CharDfa> with_loops(uint32_t max, uint32_t share_min) const;
  // Characters of the shortest and the longest text; kNoMax: there is no longest. Of a trimmed automaton that is not empty.
  std::pair<uint32_t, uint32_t> lengths() const;

  std::vector<uint32_t> loops() const;  // by state: which loop it is in, or kDead

  // A text's label is label_of(b), where bit i of b says whether nfas[i] accepts it. None: more than states_max states, or more than `steps`
  // of work, which what was done is taken from.
  static std::optional<CharDfa> make(std::span<const CharNfa* const> nfas, const std::function<int(uint64_t)>& label_of,
                                     uint32_t states_max, uint64_t* steps);
};

}  // namespace kvrt
