// GrammarLinker makes an Automaton of a GrammarBuilder's nodes. It makes each rule deterministic if the rule stays small, cuts off dead ends and
// refuses left recursion.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/text/grammar/automaton.h"

namespace kvrt {

class GrammarLinker {
 public:
  explicit GrammarLinker(GrammarBuilder* from) : from_(*from), out_(std::make_unique<Automaton>()) {}
  Result<std::unique_ptr<const Automaton>> link();  // takes the builder's nodes

 private:
  using Edge = Automaton::Edge;

  void determinize_rules();
  void copy_rule(uint32_t rule);
  std::vector<uint32_t> rule_of_nodes() const;
  std::vector<bool> find_alive() const;  // nodes from which their rule can end
  void take_objects(const std::vector<bool>& alive);
  void keep(const std::vector<bool>& alive);
  Status refuse_left_recursion() const;
  Status refuse_cycle(const std::vector<std::vector<uint32_t>>& first_calls) const;
  void find_plain_runs();
  void finish_flags();
  void find_byte_classes();

  GrammarBuilder& from_;
  std::vector<uint32_t> place_;  // the place of a builder's node in the automaton, for rules that are copied
  std::unique_ptr<Automaton> out_;
};

// Appends one rule's nodes to an automaton, made deterministic in their bytes. Calls stay as they are.
class RuleDeterminizer {
 public:
  using Node = GrammarBuilder::Node;
  RuleDeterminizer(const std::vector<Node>& nodes, Automaton* out) : nodes_(nodes), seen_(nodes.size(), 0), out_(*out) {}
  // False: the rule would grow too much, and the automaton is as before.
  bool run(uint32_t in);

 private:
  struct Read {
    uint32_t gate;
    uint8_t lo, hi;
    uint32_t next;
  };
  void close(std::vector<uint32_t>* set);  // follows skips and forks; nodes that read, call or end stay, sorted
  uint32_t state_of(std::vector<uint32_t>* set);
  void grow();
  size_t reach(uint32_t in);
  bool grew_too_much() const;
  void add_read(const Read& read, std::vector<uint32_t>* targets, size_t first_edge);
  void add_reads(std::span<const Read> reads);  // of one gate
  void add_by_gates(std::vector<Read>* reads);
  void add_edges(Automaton::Kind kind, std::vector<std::pair<uint32_t, uint32_t>>* edges);

  const std::vector<Node>& nodes_;
  std::vector<uint32_t> seen_;
  uint32_t epoch_ = 0;
  Automaton& out_;
  uint32_t base_ = 0;            // the first node of the rule
  std::vector<uint32_t> pool_;   // the sets, in a row
  std::vector<uint32_t> begin_;  // where each set begins in pool_
  std::vector<uint32_t> table_;  // hash -> state + 1
  std::vector<uint32_t> stack_;
  std::vector<uint32_t> targets_[256];
  size_t size_ = 0, edges_before_ = 0;  // the rule's nodes; the automaton's edges before it
  uint64_t spent_ = 0;
};

}  // namespace kvrt
