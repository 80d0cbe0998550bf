#include "runtime/text/grammar/grammar_states.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/text/grammar/vocab.h"

namespace kvrt {

namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0xFF51AFD7ED558CCDu;
  return h ^ (h >> 32);
}

uint64_t pack(uint32_t a, uint32_t b) { return (uint64_t{a} << 32) | b; }

// The slot of an entry that is `equal`, or the free one where it belongs. `rehash(i)` is the hash of entry i.
template <class Equal, class Rehash>
uint32_t* find_slot(std::vector<uint32_t>* slots, size_t used, uint64_t hash, Equal equal, Rehash rehash) {
  if (2 * used >= slots->size()) {
    std::vector<uint32_t> bigger(std::max<size_t>(256, 2 * slots->size()), UINT32_MAX);
    for (uint32_t entry : *slots) {
      if (entry == UINT32_MAX) continue;
      size_t at = rehash(entry) & (bigger.size() - 1);
      while (bigger[at] != UINT32_MAX) at = (at + 1) & (bigger.size() - 1);
      bigger[at] = entry;
    }
    slots->swap(bigger);
  }
  size_t at = hash & (slots->size() - 1);
  while ((*slots)[at] != UINT32_MAX && !equal((*slots)[at])) at = (at + 1) & (slots->size() - 1);
  return &(*slots)[at];
}

constexpr size_t kVisitedSlots = 4 * kGrammarConfigsMax;

}  // namespace

GrammarStates::GrammarStates(const Automaton& automaton) : automaton_(automaton) {
  visited_.resize(kVisitedSlots);
  visited_round_.assign(kVisitedSlots, 0);
  clear();
}

void GrammarStates::clear() {
  stacks_.assign(1, {0, 0, 0, 0});
  came_.assign(1, {});
  readings_.clear();
  rows_.clear();
  steps_.clear();
  stack_index_ = came_index_ = row_index_ = {};
  found_.clear();
  may_end_ = curtailed_ = false;
  intern();  // kDead
}

size_t GrammarStates::bytes() const {
  return stacks_.size() * sizeof(Stack) + came_.size() * sizeof(CameMembers) + readings_.size() * sizeof(Reading) +
         rows_.size() * sizeof(Row) + steps_.size() * sizeof(Step) +
         (stack_index_.slots.size() + came_index_.slots.size() + row_index_.slots.size()) * sizeof(uint32_t);
}

uint32_t GrammarStates::push(uint32_t back_to, uint32_t under, uint32_t came) {
  auto hash = [this](uint32_t i) { return mix(stacks_[i].came, pack(stacks_[i].back_to, stacks_[i].under)); };
  auto equal = [&](uint32_t i) { return stacks_[i].back_to == back_to && stacks_[i].under == under && stacks_[i].came == came; };
  uint32_t* slot = find_slot(&stack_index_.slots, stack_index_.used, mix(came, pack(back_to, under)), equal, hash);
  if (*slot == UINT32_MAX) {
    *slot = static_cast<uint32_t>(stacks_.size());
    ++stack_index_.used;
    stacks_.push_back({back_to, under, came, stacks_[under].depth + 1});
  }
  return *slot;
}

uint32_t GrammarStates::came(const CameMembers& members) {
  if (members == CameMembers{}) return 0;
  auto hash_of = [](const CameMembers& m) { return mix(m.others, m.named); };
  auto hash = [&](uint32_t i) { return hash_of(came_[i]); };
  auto equal = [&](uint32_t i) { return came_[i] == members; };
  uint32_t* slot = find_slot(&came_index_.slots, came_index_.used, hash_of(members), equal, hash);
  if (*slot == UINT32_MAX) {
    *slot = static_cast<uint32_t>(came_.size());
    ++came_index_.used;
    came_.push_back(members);
  }
  return *slot;
}

void GrammarStates::visit(uint32_t node, uint32_t stack) {
  const uint64_t key = pack(node, stack);
  size_t at = mix(1, key) & (kVisitedSlots - 1);
  while (visited_round_[at] == round_ && visited_[at] != key) at = (at + 1) & (kVisitedSlots - 1);
  if (visited_round_[at] == round_) return;
  if (visits_ >= kGrammarConfigsMax) {
    curtailed_ = true;
    return;
  }
  ++visits_;
  visited_round_[at] = round_;
  visited_[at] = key;
  open_.push_back({node, stack});
}

void GrammarStates::close(uint32_t node, uint32_t stack) {
  visit(node, stack);
  while (!open_.empty()) {
    const Reading at = open_.back();
    open_.pop_back();
    const uint8_t flags = automaton_.flags[at.node];
    if (flags & Automaton::kReads) found_.push_back(at);
    if (flags & Automaton::kFinal) {
      if (at.stack == 0) {
        may_end_ = true;
      } else {
        visit(stacks_[at.stack].back_to, stacks_[at.stack].under);
      }
    }
    for (uint32_t e = automaton_.first_edge[at.node]; e < automaton_.first_edge[at.node + 1]; ++e) {
      const Automaton::Edge& edge = automaton_.edges[e];
      if (edge.kind == Automaton::kSkip) visit(edge.to, at.stack);
      if (edge.kind == Automaton::kGate) pass(edge, at.stack);
      if (edge.kind != Automaton::kCall) continue;
      const bool needs_frame = automaton_.keeps_members[edge.rule];
      if (!needs_frame && automaton_.flags[edge.to] & Automaton::kEndOnly) {  // nothing to come back for
        visit(automaton_.start[edge.rule], at.stack);
      } else if (stacks_[at.stack].depth >= kGrammarStackMax) {
        curtailed_ = true;
      } else {
        visit(automaton_.start[edge.rule], push(edge.to, at.stack));
      }
    }
  }
}

// A skip by way of a gate, if it opens; a member that comes by it is noted in the frame.
void GrammarStates::pass(const Automaton::Edge& edge, uint32_t stack) {
  if (!opens(edge.rule, stack)) return;
  const MemberGate& gate = automaton_.gates[edge.rule];
  if (gate.way == MemberGate::kComes) {
    const Stack frame = stacks_[stack];
    stack = push(frame.back_to, frame.under, came(automaton_.objects[gate.object].with(came_[frame.came], gate.named)));
  }
  visit(edge.to, stack);
}

uint8_t GrammarStates::plain_run_of(std::span<const Reading> readings) const {
  int run = 0;
  for (const Reading& r : readings) {
    if (!(automaton_.flags[r.node] & Automaton::kPlainStart)) continue;
    run = std::max(run, 1 + (r.stack ? automaton_.plain_run[stacks_[r.stack].back_to] : 0));
  }
  return static_cast<uint8_t>(std::min<int>(run, kPlainRunMax));
}

// Readings stay in the order in which they were found, which depends on the bytes read alone: so a limit leaves out the same ones, too.
GrammarStates::State GrammarStates::intern() {
  auto hash_row = [](std::span<const Reading> readings, bool may_end, bool curtailed) {
    uint64_t h = mix(2, uint64_t{may_end} * 2 + curtailed);
    for (const Reading& r : readings) h = mix(h, pack(r.node, r.stack));
    return h;
  };
  auto readings_of = [this](uint32_t s) { return std::span<const Reading>(readings_).subspan(rows_[s].first, rows_[s].size); };
  auto hash = [&](uint32_t s) { return hash_row(readings_of(s), rows_[s].may_end, rows_[s].curtailed); };
  auto equal = [&](uint32_t s) {
    const auto other = readings_of(s);
    return rows_[s].may_end == may_end_ && rows_[s].curtailed == curtailed_ &&
           std::equal(found_.begin(), found_.end(), other.begin(), other.end());
  };
  uint32_t* slot = find_slot(&row_index_.slots, row_index_.used, hash_row(found_, may_end_, curtailed_), equal, hash);
  if (*slot == UINT32_MAX) {
    *slot = static_cast<uint32_t>(rows_.size());
    ++row_index_.used;
    rows_.push_back({static_cast<uint32_t>(readings_.size()), static_cast<uint32_t>(found_.size()), kNone, 0, plain_run_of(found_),
                     may_end_, curtailed_});
    readings_.insert(readings_.end(), found_.begin(), found_.end());
  }
  return *slot;
}

// Before readings are found.
void GrammarStates::begin_state() {
  if (++round_ == 0) {  // once in 2^32 steps: rounds begin anew
    std::fill(visited_round_.begin(), visited_round_.end(), 0);
    round_ = 1;
  }
  visits_ = 0;
  found_.clear();
  may_end_ = curtailed_ = false;
}

GrammarStates::State GrammarStates::begin() {
  begin_state();
  close(automaton_.start[0], 0);
  return intern();
}

void GrammarStates::add_row(State s) {
  rows_[s].next = static_cast<uint32_t>(steps_.size());
  steps_.resize(steps_.size() + automaton_.byte_classes);
}

uint64_t GrammarStates::kinds_away(State from) {
  uint64_t kinds = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (step(from, static_cast<uint8_t>(byte)) != from) kinds |= byte_kind(static_cast<uint8_t>(byte));
  }
  return kinds;
}

GrammarStates::State GrammarStates::make_step(State from, uint8_t byte) {
  begin_state();
  const Row row = rows_[from];
  for (uint32_t i = 0; i < row.size; ++i) {
    const Reading r = readings_[row.first + i];
    for (uint32_t e = automaton_.first_edge[r.node]; e < automaton_.first_edge[r.node + 1]; ++e) {
      const Automaton::Edge& edge = automaton_.edges[e];
      if (edge.kind == Automaton::kBytes && edge.lo <= byte && byte <= edge.hi && opens(edge.rule, r.stack)) close(edge.to, r.stack);
    }
  }
  if (found_.empty() && !may_end_ && !curtailed_) return kDead;
  return intern();
}

GrammarStates::State GrammarStates::step_token(State from, State by_bytes, int32_t token, bool ordinary) {
  begin_state();
  const Row row = rows_[from], bytes = rows_[by_bytes];
  may_end_ = bytes.may_end;
  curtailed_ = bytes.curtailed;
  for (uint32_t i = 0; i < bytes.size; ++i) {
    const Reading r = readings_[bytes.first + i];
    close(r.node, r.stack);
  }
  for (uint32_t i = 0; i < row.size; ++i) {
    const Reading r = readings_[row.first + i];
    for (uint32_t e = automaton_.first_edge[r.node]; e < automaton_.first_edge[r.node + 1]; ++e) {
      const Automaton::Edge& edge = automaton_.edges[e];
      if (edge.kind != Automaton::kToken) continue;
      const TokenSet& set = automaton_.token_sets[edge.rule];
      const bool named = std::binary_search(set.ids.begin(), set.ids.end(), token);
      if (set.others ? ordinary && !named : named) close(edge.to, r.stack);
    }
  }
  if (found_.empty() && !may_end_ && !curtailed_) return kDead;
  return intern();
}

GrammarStates::Copy GrammarStates::copy(State state) const {
  const Row row = rows_[state];
  Copy copy;
  copy.stacks.push_back(stacks_[0]);
  copy.came.emplace_back();
  copy.may_end = row.may_end;
  copy.curtailed = row.curtailed;
  std::unordered_map<uint32_t, uint32_t> place{{0, 0}};  // of a stack among the copied ones
  std::vector<uint32_t> path;
  for (Reading r : std::span<const Reading>(readings_).subspan(row.first, row.size)) {
    for (uint32_t s = r.stack; !place.contains(s); s = stacks_[s].under) path.push_back(s);
    for (; !path.empty(); path.pop_back()) {
      const Stack& stack = stacks_[path.back()];
      place[path.back()] = static_cast<uint32_t>(copy.stacks.size());
      copy.stacks.push_back({stack.back_to, place[stack.under], 0, stack.depth});
      copy.came.push_back(came_[stack.came]);
    }
    copy.readings.push_back({r.node, place[r.stack]});
  }
  return copy;
}

GrammarStates::State GrammarStates::add(const Copy& copy) {
  begin_state();
  std::vector<uint32_t> place{0};  // of a copied stack among these
  for (size_t i = 1; i < copy.stacks.size(); ++i)
    place.push_back(push(copy.stacks[i].back_to, place[copy.stacks[i].under], came(copy.came[i])));
  for (const Reading& r : copy.readings) found_.push_back({r.node, place[r.stack]});
  may_end_ = copy.may_end;
  curtailed_ = copy.curtailed;
  return intern();
}

}  // namespace kvrt
