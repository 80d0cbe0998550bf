#include "runtime/text/grammar/linker.h"

#include <algorithm>
#include <span>

namespace kvrt {

namespace {

using Edge = Automaton::Edge;

std::span<const Edge> edges_of(const Automaton& a, uint32_t node) {
  return {a.edges.data() + a.first_edge[node], a.edges.data() + a.first_edge[node + 1]};
}

}  // namespace

Result<std::unique_ptr<const Automaton>> GrammarLinker::link() {
  determinize_rules();
  const std::vector<bool> alive = find_alive();
  if (!alive[out_->start[0]]) {
    return error(Code::kInvalid, Detail::kGrammarError, "%s: nothing fits it: no text is an answer", from_.what_.c_str());
  }
  take_objects(alive);
  keep(alive);
  finish_flags();
  KVRT_TRY(refuse_left_recursion());
  find_plain_runs();
  find_byte_classes();
  return std::unique_ptr<const Automaton>(std::move(out_));
}

void GrammarLinker::determinize_rules() {
  RuleDeterminizer determinizer(from_.nodes_, out_.get());
  for (uint32_t rule = 0; rule < from_.rules_.size(); ++rule) {
    out_->start.push_back(static_cast<uint32_t>(out_->flags.size()));
    if (!determinizer.run(from_.rules_[rule].in)) copy_rule(rule);
  }
  out_->first_edge.push_back(static_cast<uint32_t>(out_->edges.size()));
  std::vector<GrammarBuilder::Node>().swap(from_.nodes_);
  out_->token_sets.resize(from_.token_sets_.size());
  for (const auto& [set, i] : from_.token_sets_) out_->token_sets[i] = set;
}

// The nodes as they are, with skips: deterministic ones would be too many.
void GrammarLinker::copy_rule(uint32_t rule) {
  const auto base = static_cast<uint32_t>(out_->flags.size());
  place_.resize(from_.nodes_.size(), GrammarBuilder::kOpen);
  std::vector<uint32_t> order;  // nodes as they are met
  auto of = [&](uint32_t node) {
    if (place_[node] == GrammarBuilder::kOpen) {
      place_[node] = base + static_cast<uint32_t>(order.size());
      order.push_back(node);
    }
    return place_[node];
  };
  of(from_.rules_[rule].in);
  for (size_t i = 0; i < order.size(); ++i) {
    const GrammarBuilder::Node node = from_.nodes_[order[i]];
    out_->flags.push_back(node.op == GrammarBuilder::kEnd ? Automaton::kFinal : 0);
    out_->first_edge.push_back(static_cast<uint32_t>(out_->edges.size()));
    auto edge = [&](uint32_t to, uint32_t callee, Automaton::Kind kind) {
      if (to != GrammarBuilder::kOpen) out_->edges.push_back({of(to), callee, kind, node.lo, node.hi});
    };
    if (node.op == GrammarBuilder::kRead) edge(node.next, node.other, Automaton::kBytes);
    if (node.op == GrammarBuilder::kGate) edge(node.next, node.other, Automaton::kGate);
    if (node.op == GrammarBuilder::kCallRule) edge(node.next, node.other, Automaton::kCall);
    if (node.op == GrammarBuilder::kReadToken) edge(node.next, node.other, Automaton::kToken);
    if (node.op == GrammarBuilder::kFork || node.op == GrammarBuilder::kSkipTo) edge(node.next, 0, Automaton::kSkip);
    if (node.op == GrammarBuilder::kFork) edge(node.other, 0, Automaton::kSkip);
  }
}

std::vector<uint32_t> GrammarLinker::rule_of_nodes() const {
  std::vector<uint32_t> rule_of(out_->nodes());
  for (uint32_t r = 0; r < out_->start.size(); ++r) {
    const size_t end = r + 1 < out_->start.size() ? out_->start[r + 1] : out_->nodes();
    std::fill(rule_of.begin() + out_->start[r], rule_of.begin() + static_cast<ptrdiff_t>(end), r);
  }
  return rule_of;
}

std::vector<bool> GrammarLinker::find_alive() const {
  const Automaton& a = *out_;
  std::vector<uint32_t> first(a.nodes() + 1, 0), from(a.edges.size());  // the edges that lead to a node, by where they come from
  for (const Edge& e : a.edges) ++first[e.to + 1];
  for (size_t n = 0; n < a.nodes(); ++n) first[n + 1] += first[n];
  std::vector<uint32_t> fill(first.begin(), first.end() - 1);
  std::vector<uint32_t> edge_at(a.edges.size());
  for (uint32_t n = 0; n < a.nodes(); ++n) {
    for (uint32_t e = a.first_edge[n]; e < a.first_edge[n + 1]; ++e) {
      from[fill[a.edges[e].to]] = n;
      edge_at[fill[a.edges[e].to]++] = e;
    }
  }
  const std::vector<uint32_t> rule_of = rule_of_nodes();
  std::vector<bool> alive(a.nodes(), false);
  std::vector<std::vector<uint32_t>> waiting(a.start.size());                              // nodes that live once a rule does
  std::vector<std::vector<uint32_t>> within(a.start.size()), ends(from_.objects_.size());  // by rule, the objects whose members it is of
  for (uint32_t o = 0; o < from_.objects_.size(); ++o) {
    for (uint32_t r : from_.objects_[o].rules) within[r].push_back(o);
    if (from_.objects_[o].other) within[*from_.objects_[o].other].push_back(o);
  }
  const auto matches = [&](uint32_t rule) { return bool{alive[a.start[rule]]}; };
  const auto object_of = [&](const Edge& e) {
    const bool end = e.kind == Automaton::kGate && from_.gates_[e.rule].way == MemberGate::kWhole;
    return end ? from_.gates_[e.rule].object : GrammarBuilder::kOpen;
  };
  std::vector<uint32_t> stack;
  auto revive = [&](uint32_t n) {
    if (!alive[n]) alive[n] = true, stack.push_back(n);
  };
  for (uint32_t n = 0; n < a.nodes(); ++n) {
    if (a.flags[n] & Automaton::kFinal) revive(n);
  }
  while (!stack.empty()) {
    const uint32_t n = stack.back();
    stack.pop_back();
    const uint32_t rule = rule_of[n];
    if (n == a.start[rule]) {
      for (uint32_t w : waiting[rule]) revive(w);
      for (uint32_t o : within[rule]) {
        if (ends[o].empty() || !from_.objects_[o].may_end(matches)) continue;
        for (uint32_t w : ends[o]) revive(w);
      }
    }
    for (uint32_t i = first[n]; i < first[n + 1]; ++i) {
      const Edge& e = a.edges[edge_at[i]];
      const uint32_t object = object_of(e);
      if (object != GrammarBuilder::kOpen && !from_.objects_[object].may_end(matches)) {
        ends[object].push_back(from[i]);
      } else if (e.kind != Automaton::kCall || alive[a.start[e.rule]]) {
        revive(from[i]);
      } else {
        waiting[e.rule].push_back(from[i]);
      }
    }
  }
  return alive;
}

// A member that nothing matches never comes: no gate opens for it.
void GrammarLinker::take_objects(const std::vector<bool>& alive) {
  const auto matches = [&](uint32_t rule) { return bool{alive[out_->start[rule]]}; };
  std::vector<uint64_t> named;
  for (const GrammarBuilder::Members& object : from_.objects_) {
    out_->objects.push_back(object);
    named.push_back(0);
    for (size_t i = 0; i < object.rules.size(); ++i) named.back() |= uint64_t{matches(object.rules[i])} << i;
  }
  out_->gates = std::move(from_.gates_);
  for (MemberGate& gate : out_->gates) {
    if (named.empty()) break;
    const auto& other = from_.objects_[gate.object].other;
    gate.named &= named[gate.object];
    gate.another = gate.another && other && matches(*other);
  }
  for (const auto& rule : from_.rules_) out_->keeps_members.push_back(rule.object != GrammarBuilder::kOpen);
}

void GrammarLinker::keep(const std::vector<bool>& alive) {
  Automaton& a = *out_;
  uint32_t kept = 0;
  for (uint32_t n = 0; n < a.nodes(); ++n) {
    const uint32_t begin = a.first_edge[n], end = a.first_edge[n + 1];
    a.first_edge[n] = kept;
    for (uint32_t e = begin; e < end; ++e) {
      const Edge edge = a.edges[e];
      if (alive[n] && alive[edge.to] && (edge.kind != Automaton::kCall || alive[a.start[edge.rule]])) a.edges[kept++] = edge;
    }
  }
  a.first_edge[a.nodes()] = kept;
  a.edges.resize(kept);
  a.edges.shrink_to_fit();
}

void GrammarLinker::finish_flags() {
  Automaton& a = *out_;
  for (uint32_t n = 0; n < a.nodes(); ++n) {
    const auto edges = edges_of(a, n);
    if (edges.empty() && (a.flags[n] & Automaton::kFinal)) a.flags[n] |= Automaton::kEndOnly;
    const auto reads = [](const Edge& e) { return e.kind == Automaton::kBytes || e.kind == Automaton::kToken; };
    if (std::any_of(edges.begin(), edges.end(), reads)) a.flags[n] |= Automaton::kReads;
  }
}

// A rule that can call itself before it has read a byte would be called for ever.
Status GrammarLinker::refuse_left_recursion() const {
  const Automaton& a = *out_;
  const std::vector<uint32_t> rule_of = rule_of_nodes();
  std::vector<bool> reached(a.nodes(), false), nullable(a.start.size(), false);  // both: without a byte from the rule's start
  std::vector<std::vector<uint32_t>> waiting(a.start.size()), first_calls(a.start.size());
  std::vector<uint32_t> stack;
  auto reach = [&](uint32_t n) {
    if (!reached[n]) reached[n] = true, stack.push_back(n);
  };
  for (uint32_t start : a.start) reach(start);
  while (!stack.empty()) {
    const uint32_t n = stack.back();
    stack.pop_back();
    const uint32_t rule = rule_of[n];
    if ((a.flags[n] & Automaton::kFinal) && !nullable[rule]) {
      nullable[rule] = true;
      for (uint32_t w : waiting[rule]) reach(w);
    }
    for (const Edge& e : edges_of(a, n)) {
      if (e.kind == Automaton::kSkip || e.kind == Automaton::kGate) reach(e.to);
      if (e.kind != Automaton::kCall) continue;
      first_calls[rule].push_back(e.rule);
      if (nullable[e.rule]) {
        reach(e.to);
      } else {
        waiting[e.rule].push_back(e.to);
      }
    }
  }
  return refuse_cycle(first_calls);
}

Status GrammarLinker::refuse_cycle(const std::vector<std::vector<uint32_t>>& first_calls) const {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(first_calls.size(), kNew);
  std::vector<std::pair<uint32_t, size_t>> path;
  for (uint32_t root = 0; root < first_calls.size(); ++root) {
    if (state[root] != kNew) continue;
    state[root] = kOpen;
    path.assign(1, {root, 0});
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == first_calls[rule].size()) {
        state[rule] = kDone;
        path.pop_back();
        continue;
      }
      const uint32_t callee = first_calls[rule][next++];
      if (state[callee] == kOpen) {
        return error(Code::kInvalid, Detail::kGrammarError, "%s: left recursion: %.100s begins with itself", from_.what_.c_str(),
                     from_.rules_[callee].name.c_str());
      }
      if (state[callee] == kNew) {
        state[callee] = kOpen;
        path.emplace_back(callee, 0);
      }
    }
  }
  return Status::ok();
}

void GrammarLinker::find_plain_runs() {
  Automaton& a = *out_;
  std::vector<bool> plain(a.start.size(), false);  // [rule] it reads at least any one character of plain text
  for (uint32_t r = 0; r < a.start.size(); ++r) {
    plain[r] = from_.rules_[r].plain;
    if (plain[r]) a.flags[a.start[r]] |= Automaton::kPlainStart;
  }
  for (int round = 0; round < 8; ++round) {  // rules that only stand for another; deeper ones are none the worse without
    for (uint32_t r = 0; r < a.start.size(); ++r) {
      if (plain[r]) continue;
      for (const Edge& e : edges_of(a, a.start[r])) {
        if (e.kind == Automaton::kCall && plain[e.rule] && (a.flags[e.to] & Automaton::kFinal)) plain[r] = true;
      }
    }
  }
  a.plain_run.assign(a.nodes(), 0);
  std::vector<uint32_t> nodes;  // nodes whose run depends on an edge
  for (uint32_t n = 0; n < a.nodes(); ++n) {
    const auto edges = edges_of(a, n);
    const bool any = std::any_of(edges.begin(), edges.end(), [&](const Edge& e) {
      return e.kind == Automaton::kSkip || (e.kind == Automaton::kCall && plain[e.rule]);
    });
    if (any) nodes.push_back(n);
  }
  bool more = true;
  for (int round = 0; round < kPlainRunMax && more; ++round) {
    more = false;
    for (size_t i = nodes.size(); i-- > 0;) {  // later nodes first: most edges lead on
      const uint32_t n = nodes[i];
      for (const Edge& e : edges_of(a, n)) {
        if (e.kind != Automaton::kSkip && (e.kind != Automaton::kCall || !plain[e.rule])) continue;
        const int run = std::min<int>(kPlainRunMax, a.plain_run[e.to] + (e.kind == Automaton::kCall));
        if (run > a.plain_run[n]) a.plain_run[n] = static_cast<uint8_t>(run), more = true;
      }
    }
  }
}

void GrammarLinker::find_byte_classes() {
  Automaton& a = *out_;
  bool cut[257] = {};
  for (const Edge& e : a.edges) {
    if (e.kind == Automaton::kBytes) cut[e.lo] = cut[e.hi + 1] = true;
  }
  uint8_t next = 0;
  for (int b = 0; b < 256; ++b) {
    if (b > 0 && cut[b]) ++next;
    a.byte_class[b] = next;
  }
  a.byte_classes = uint32_t{next} + 1;
}

}  // namespace kvrt
