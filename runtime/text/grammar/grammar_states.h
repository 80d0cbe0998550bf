// GrammarStates runs a grammar's pushdown automaton as a deterministic one whose states are made when they are met: a state is the set of all
// readings of the bytes so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/text/grammar/automaton.h"

namespace kvrt {

class GrammarStates {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;

  explicit GrammarStates(const Automaton& automaton);

  State begin();
  State step(State from, uint8_t byte) { return known_step(from, byte).to; }
  // The state after this token, read as a token or by its bytes, which lead to `by_bytes`. `ordinary`: it counts among the others of a set.
  State step_token(State from, State by_bytes, int32_t token, bool ordinary);
  // Calls f(set) for each set of tokens one of which may come.
  template <class F>
  void for_each_token_set(State from, F f) const {
    for (uint32_t i = 0; i < rows_[from].size && !automaton_.token_sets.empty(); ++i) {
      const uint32_t node = readings_[rows_[from].first + i].node;
      for (uint32_t e = automaton_.first_edge[node]; e < automaton_.first_edge[node + 1]; ++e) {
        if (automaton_.edges[e].kind == Automaton::kToken) f(automaton_.token_sets[automaton_.edges[e].rule]);
      }
    }
  }
  // The kinds of bytes (byte_kind) that have a byte which does not lead back to the state itself. It takes all steps of the state.
  uint64_t kinds_away(State from);
  void begin_walk() {
    ++walk_;
    walked_bytes_ = 0;
  }
  struct Walked {
    State to;
    bool first;  // this walk takes this step for the first time: so a walk's cost does not depend on the states kept from before
  };
  Walked walk_step(State from, uint8_t byte) {
    Step& step = known_step(from, byte);
    if (step.walk == walk_) return {step.to, false};
    step.walk = walk_;
    Row& to = rows_[step.to];
    if (to.walk != walk_) {
      to.walk = walk_;
      walked_bytes_ += row_bytes() + to.size * sizeof(Reading);
    }
    return {step.to, true};
  }
  size_t walked_bytes() const { return walked_bytes_; }                         // the bytes of the states that this walk came to
  bool dead(State s) const { return rows_[s].size == 0 && !rows_[s].may_end; }  // also if a limit left nothing
  bool may_end(State s) const { return rows_[s].may_end; }
  bool complete(State s) const { return rows_[s].may_end && rows_[s].size == 0; }
  bool curtailed(State s) const { return rows_[s].curtailed; }  // a limit left readings out
  uint32_t readings(State s) const { return rows_[s].size; }
  uint32_t plain_run(State s) const { return rows_[s].plain_run; }
  size_t bytes() const;
  // A state outside of these, which can be added to other states of the same grammar.
  struct Copy;
  Copy copy(State state) const;
  State add(const Copy& copy);

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kUnknown = UINT32_MAX;
  // A stack of calls: the node where a rule goes on when the rule it called ends, and the stack of that rule's caller; and which members of
  // the called rule's object have come (in came_), so that states which differ only in these are two. 0 is the bottom.
  struct Stack {
    uint32_t back_to, under, came, depth;
  };
  // A reading is a node that reads bytes or tokens, and the stack there.
  struct Reading {
    uint32_t node, stack;
    friend bool operator==(const Reading&, const Reading&) = default;
  };
  struct Row {
    uint32_t first, size;  // its readings
    uint32_t next;         // the row in steps_, by byte class
    uint32_t walk;         // the last walk that came here
    uint8_t plain_run;
    bool may_end, curtailed;
  };
  struct Step {
    State to = kUnknown;
    uint32_t walk = 0;  // the last walk that took it
  };
  size_t row_bytes() const { return sizeof(Row) + automaton_.byte_classes * sizeof(Step); }
  // A hash table of indices into something else.
  struct Index {
    std::vector<uint32_t> slots;
    size_t used = 0;
  };

  void clear();
  void begin_state();
  void add_row(State s);
  Step& known_step(State from, uint8_t byte) {
    if (rows_[from].next == kNone) add_row(from);
    Step& step = steps_[rows_[from].next + automaton_.byte_class[byte]];
    if (step.to == kUnknown) step.to = make_step(from, byte);
    return step;
  }
  State make_step(State from, uint8_t byte);
  uint32_t push(uint32_t back_to, uint32_t under, uint32_t came = 0);
  uint32_t came(const CameMembers& members);  // its place in came_
  bool opens(uint32_t gate, uint32_t stack) const {
    const MemberGate& g = automaton_.gates[gate];
    return gate == 0 || g.opens(automaton_.objects[g.object], came_[stacks_[stack].came]);
  }
  void pass(const Automaton::Edge& gate, uint32_t stack);
  void close(uint32_t node, uint32_t stack);  // adds the readings that start there to found_
  void visit(uint32_t node, uint32_t stack);
  State intern();  // makes a state of found_
  uint8_t plain_run_of(std::span<const Reading> readings) const;

  const Automaton& automaton_;
  std::vector<Stack> stacks_;
  std::vector<CameMembers> came_;  // each once; 0: none
  std::vector<Reading> readings_;
  std::vector<Row> rows_;
  std::vector<Step> steps_;
  uint32_t walk_ = 0;
  size_t walked_bytes_ = 0;
  Index stack_index_, came_index_, row_index_;
  // These are of the state that is being made.
  std::vector<Reading> found_, open_;
  std::vector<uint64_t> visited_;  // a hash set; the entries of this round carry its number
  std::vector<uint32_t> visited_round_;
  uint32_t round_ = 0, visits_ = 0;
  bool may_end_ = false, curtailed_ = false;
};

struct GrammarStates::Copy {
  std::vector<Reading> readings;  // their stacks are places in `stacks`
  std::vector<Stack> stacks;      // each after the one under it; 0 is the bottom
  std::vector<CameMembers> came;  // the members that have come in each stack
  bool may_end = false, curtailed = false;
};

}  // namespace kvrt
