#include <algorithm>

#include "runtime/text/grammar/linker.h"

namespace kvrt {

namespace {

uint64_t hash_of(const uint32_t* set, size_t size) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ size;
  for (size_t i = 0; i < size; ++i) h = (h ^ set[i]) * 0xFF51AFD7ED558CCDu, h ^= h >> 32;
  return h;
}

}  // namespace

void RuleDeterminizer::close(std::vector<uint32_t>* set) {
  ++epoch_;
  stack_.assign(set->begin(), set->end());
  set->clear();
  while (!stack_.empty()) {
    const uint32_t n = stack_.back();
    stack_.pop_back();
    if (n == GrammarBuilder::kOpen || seen_[n] == epoch_) continue;
    seen_[n] = epoch_;
    const Node& node = nodes_[n];
    if (node.op == GrammarBuilder::kFork) {
      stack_.push_back(node.other);
      stack_.push_back(node.next);
    } else if (node.op == GrammarBuilder::kSkipTo) {
      stack_.push_back(node.next);
    } else if (node.op != GrammarBuilder::kFail) {
      set->push_back(n);
    }
    ++spent_;
  }
  std::sort(set->begin(), set->end());
}

void RuleDeterminizer::grow() {
  table_.assign(std::max<size_t>(64, table_.size() * 2), 0);
  for (uint32_t s = 0; s + 1 < begin_.size(); ++s) {
    size_t at = hash_of(pool_.data() + begin_[s], begin_[s + 1] - begin_[s]) & (table_.size() - 1);
    while (table_[at]) at = (at + 1) & (table_.size() - 1);
    table_[at] = s + 1;
  }
}

// The state of a set of places to go on from.
uint32_t RuleDeterminizer::state_of(std::vector<uint32_t>* set) {
  close(set);
  if (begin_.size() * 2 > table_.size()) grow();
  size_t at = hash_of(set->data(), set->size()) & (table_.size() - 1);
  for (; table_[at]; at = (at + 1) & (table_.size() - 1)) {
    const uint32_t s = table_[at] - 1;
    if (std::equal(set->begin(), set->end(), pool_.begin() + static_cast<ptrdiff_t>(begin_[s]),
                   pool_.begin() + static_cast<ptrdiff_t>(begin_[s + 1]))) {
      return base_ + s;
    }
  }
  pool_.insert(pool_.end(), set->begin(), set->end());
  begin_.push_back(static_cast<uint32_t>(pool_.size()));
  spent_ += set->size();
  const auto s = static_cast<uint32_t>(begin_.size() - 2);
  table_[at] = s + 1;
  return base_ + s;
}

void RuleDeterminizer::add_read(const Read& read, std::vector<uint32_t>* targets, size_t first_edge) {
  const uint32_t to = state_of(targets);
  targets->clear();
  if (out_.edges.size() > first_edge && out_.edges.back().to == to && out_.edges.back().hi + 1 == read.lo) {
    out_.edges.back().hi = read.hi;
  } else {
    out_.edges.push_back({to, read.gate, Automaton::kBytes, read.lo, read.hi});
  }
}

// One edge for a byte and a gate: what a gate leaves open is not known here.
void RuleDeterminizer::add_by_gates(std::vector<Read>* reads) {
  std::ranges::stable_sort(*reads, {}, &Read::gate);
  for (auto first = reads->begin(); first != reads->end() && !grew_too_much();) {
    const auto last = std::find_if(first, reads->end(), [&](const Read& r) { return r.gate != first->gate; });
    add_reads({first, last});
    first = last;
  }
}

void RuleDeterminizer::add_reads(std::span<const Read> reads) {
  const size_t first_edge = out_.edges.size();
  if (reads.size() == 1) {
    targets_[0].assign(1, reads[0].next);
    return add_read(reads[0], &targets_[0], first_edge);
  }
  bool cut[257] = {};
  for (const Read& r : reads) cut[r.lo] = cut[r.hi + 1] = true;
  for (const Read& r : reads) {
    for (uint32_t b = r.lo; b <= r.hi; ++b) {
      if (cut[b]) targets_[b].push_back(r.next), ++spent_;  // by the byte at which a stretch begins
    }
  }
  for (uint32_t b = 0; b < 256; ++b) {
    if (targets_[b].empty()) continue;
    if (grew_too_much()) {
      targets_[b].clear();
      continue;
    }
    uint32_t last = b;
    while (!cut[last + 1]) ++last;
    add_read({reads[0].gate, static_cast<uint8_t>(b), static_cast<uint8_t>(last), 0}, &targets_[b], first_edge);
  }
}

// Calls of rules, tokens of sets, or gates: one edge for each rule, set or gate.
void RuleDeterminizer::add_edges(Automaton::Kind kind, std::vector<std::pair<uint32_t, uint32_t>>* edges) {
  std::sort(edges->begin(), edges->end());
  for (size_t i = 0; i < edges->size() && !grew_too_much();) {
    const uint32_t rule = (*edges)[i].first;
    std::vector<uint32_t> targets;
    for (; i < edges->size() && (*edges)[i].first == rule; ++i) targets.push_back((*edges)[i].second);
    out_.edges.push_back({state_of(&targets), rule, kind, 0, 0});
  }
}

// Counts a rule's nodes: the rule's cost may be some times that, so that all rules together stay linear, whatever the grammar.
size_t RuleDeterminizer::reach(uint32_t in) {
  ++epoch_;
  size_t count = 0;
  stack_.assign(1, in);
  while (!stack_.empty()) {
    const uint32_t n = stack_.back();
    stack_.pop_back();
    if (n == GrammarBuilder::kOpen || seen_[n] == epoch_) continue;
    seen_[n] = epoch_;
    ++count;
    stack_.push_back(nodes_[n].next);
    if (nodes_[n].op == GrammarBuilder::kFork) stack_.push_back(nodes_[n].other);
  }
  return count;
}

bool RuleDeterminizer::grew_too_much() const {
  return spent_ > 16 * size_ + 64 || pool_.size() > 2 * size_ + 64 || out_.edges.size() - edges_before_ > 2 * size_ + 64;
}

bool RuleDeterminizer::run(uint32_t in) {
  const size_t edges = out_.edges.size(), nodes = out_.flags.size();
  size_ = reach(in);
  edges_before_ = edges;
  base_ = static_cast<uint32_t>(nodes);
  pool_.clear();
  begin_.assign(1, 0);
  table_.clear();
  spent_ = 0;
  std::vector<uint32_t> set{in};
  state_of(&set);
  std::vector<Read> reads;
  std::vector<std::pair<uint32_t, uint32_t>> calls, tokens, gates;
  for (uint32_t s = 0; s + 1 < begin_.size() && !grew_too_much(); ++s) {
    reads.clear();
    calls.clear();
    tokens.clear();
    gates.clear();
    uint8_t flags = 0;
    for (uint32_t i = begin_[s]; i < begin_[s + 1]; ++i) {
      const Node& node = nodes_[pool_[i]];
      if (node.op == GrammarBuilder::kRead) reads.push_back({node.other, node.lo, node.hi, node.next});
      if (node.op == GrammarBuilder::kCallRule) calls.emplace_back(node.other, node.next);
      if (node.op == GrammarBuilder::kReadToken) tokens.emplace_back(node.other, node.next);
      if (node.op == GrammarBuilder::kGate) gates.emplace_back(node.other, node.next);
      if (node.op == GrammarBuilder::kEnd) flags |= Automaton::kFinal;
    }
    out_.flags.push_back(flags);
    out_.first_edge.push_back(static_cast<uint32_t>(out_.edges.size()));
    if (!reads.empty()) add_by_gates(&reads);
    add_edges(Automaton::kCall, &calls);
    add_edges(Automaton::kToken, &tokens);
    add_edges(Automaton::kGate, &gates);
  }
  if (!grew_too_much()) return true;
  out_.edges.resize(edges);
  out_.flags.resize(nodes);
  out_.first_edge.resize(nodes);
  return false;
}

}  // namespace kvrt
