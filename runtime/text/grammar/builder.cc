#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/linker.h"

namespace kvrt {

const CodePointSet& plain_text() {
  // Without the characters that some grammars exclude from "any character": DEL, and the two that end a line in ECMAScript.
  static const CodePointSet kPlain = CodePointSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}, {0x2028, 0x2029}}.complement();
  return kPlain;
}

namespace {

// The shortest way to write a character within a JSON string that must not stand for itself there; "" for the others.
std::string json_escape(char32_t c) {
  constexpr std::string_view kShort = "\b\f\n\r\t\"\\", kNames = "bfnrt\"\\";
  if (c < 0x80) {
    const size_t at = kShort.find(static_cast<char>(c));
    if (at != std::string_view::npos) return {'\\', kNames[at]};
  }
  if (c >= 0x20) return "";
  const char* hex = "0123456789abcdef";
  return {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
}

}  // namespace

uint32_t GrammarBuilder::add(Node node) {
  if (nodes_.size() >= kGrammarStatesMax) {
    if (limit_.empty()) limit_ = "more than " + std::to_string(kGrammarStatesMax) + " states";
    nodes_.back() = node;  // no node that will be used links to it
    return kGrammarStatesMax - 1;
  }
  nodes_.push_back(node);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

Status GrammarBuilder::status() const {
  if (limit_.empty()) return Status::ok();
  return error(Code::kLimit, Detail::kGrammarLimit, "%s: %s", what_.c_str(), limit_.c_str());
}

uint32_t GrammarBuilder::add_rule(std::string name) {
  if (rules_.size() >= kGrammarRulesMax && limit_.empty()) {
    limit_ = "more than " + std::to_string(kGrammarRulesMax) + " rules";
  }
  if (!limit_.empty() && !rules_.empty()) return 0;
  rules_.push_back({std::move(name)});
  return static_cast<uint32_t>(rules_.size() - 1);
}

void GrammarBuilder::keep_members(uint32_t rule, Members members) {
  if (!limit_.empty()) return;
  rules_[rule].object = static_cast<uint32_t>(objects_.size());
  objects_.push_back(std::move(members));
}

uint32_t GrammarBuilder::add_gate(uint32_t rule, MemberGate::Way way, uint64_t named, bool another) {
  if (!limit_.empty()) return 0;
  gates_.push_back({rules_[rule].object, way, another, named});
  return static_cast<uint32_t>(gates_.size() - 1);
}

void GrammarBuilder::define(uint32_t rule, Part part) {
  const uint32_t end = add({kEnd, 0, 0, kOpen, 0});
  link(part.out, end);
  rules_[rule].in = part.in;
}

void GrammarBuilder::add_way(uint32_t rule, Part part) {
  const uint32_t before = rules_[rule].in, way = fork();
  define(rule, part);
  link(way, before);
  link(way, part.in);
  rules_[rule].in = way;
}

void GrammarBuilder::link(uint32_t node, uint32_t to) {
  if (!limit_.empty()) return;
  (nodes_[node].op == kFork && nodes_[node].next != kOpen ? nodes_[node].other : nodes_[node].next) = to;
}

void GrammarBuilder::link(uint32_t node, std::span<const uint32_t> to) {
  if (to.empty()) return link(node, never().in);
  for (; to.size() > 1; to = to.subspan(1)) {
    const uint32_t way = fork();
    link(way, to.front());
    link(node, way);
    node = way;
  }
  link(node, to.front());
}

uint32_t GrammarBuilder::fork() { return add({kFork, 0, 0, kOpen, kOpen}); }

GrammarBuilder::Part GrammarBuilder::single(Node node) {
  const uint32_t n = add(node);
  return {n, n, n};
}

GrammarBuilder::Part GrammarBuilder::bytes(uint8_t lo, uint8_t hi, uint32_t gate) { return single({kRead, lo, hi, kOpen, gate}); }
GrammarBuilder::Part GrammarBuilder::call(uint32_t rule) { return single({kCallRule, 0, 0, kOpen, rule}); }
GrammarBuilder::Part GrammarBuilder::token(const TokenSet& set) {
  return single({kReadToken, 0, 0, kOpen, token_sets_.try_emplace(set, static_cast<uint32_t>(token_sets_.size())).first->second});
}
GrammarBuilder::Part GrammarBuilder::never() { return single({kFail, 0, 0, kOpen, 0}); }

GrammarBuilder::Part GrammarBuilder::literal(std::string_view text) {
  if (text.empty()) return empty();
  Part part{};
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const Part next = bytes(byte, byte);
    part = i == 0 ? next : sequence(part, next);
  }
  return part;
}

std::string GrammarBuilder::json_text(std::string_view utf8) {
  std::string text;
  for (char c : utf8) {
    const std::string escape = json_escape(static_cast<uint8_t>(c));
    text += escape.empty() ? std::string(1, c) : escape;
  }
  return text;
}

GrammarBuilder::Part GrammarBuilder::sequence(Part a, Part b) {
  link(a.out, b.in);
  return {std::min(a.first, b.first), a.in, b.out};
}

GrammarBuilder::Part GrammarBuilder::choice(std::span<const Part> parts) {
  if (parts.empty()) return never();
  Part whole = parts.back();
  if (parts.size() == 1) return whole;
  whole.out = empty().in;  // one for all: a chain of them would be walked from each
  link(parts.back().out, whole.out);
  for (size_t i = parts.size() - 1; i-- > 0;) {
    const uint32_t in = fork();
    link(in, parts[i].in);
    link(in, whole.in);
    link(parts[i].out, whole.out);
    whole.in = in;
    whole.first = std::min(whole.first, parts[i].first);
  }
  return whole;
}

GrammarBuilder::Part GrammarBuilder::repeat(Part a, uint32_t min, uint32_t max) {
  if (max == 0) return empty();
  const uint32_t end = static_cast<uint32_t>(nodes_.size()), size = end - a.first;
  const uint32_t copies = max == kNoMax ? std::max(min, 1u) : max;
  // As it was made: linking changes it.
  const std::vector<Node> original(nodes_.begin() + a.first, nodes_.end());
  const uint32_t out = empty().in;
  Part part{a.first, kOpen, out};
  uint32_t previous = kOpen;
  for (uint32_t i = 0; i < copies && limit_.empty(); ++i) {
    uint32_t shift = 0;
    if (i > 0) {
      shift = static_cast<uint32_t>(nodes_.size()) - a.first;
      for (Node node : original) {
        auto move = [&](uint32_t* to) {
          if (*to != kOpen && *to >= a.first && *to < a.first + size) *to += shift;
        };
        move(&node.next);
        if (node.op == kFork) move(&node.other);
        add(node);
        if (!limit_.empty()) break;
      }
    }
    uint32_t in = a.in + shift;
    if (i >= min) {  // this copy and those after it may be left out
      const uint32_t way = fork();
      link(way, in);
      link(way, out);
      in = way;
    }
    if (previous == kOpen) {
      part.in = in;
    } else {
      link(previous, in);
    }
    previous = a.out + shift;
    if (i + 1 == copies && max == kNoMax) {  // the last one again and again
      const uint32_t again = fork();
      link(again, a.in + shift);
      link(again, out);
      link(previous, again);
      return part;
    }
  }
  link(previous, out);
  return part;
}

uint32_t GrammarBuilder::class_rule(const CodePointSet& set, Spelling spelling) {
  auto [at, fresh] = classes_.try_emplace({spelling, set.ranges()}, 0);
  if (fresh) {
    at->second = add_rule("");
    rules_[at->second].plain = limit_.empty() && set.covers(plain_text());
  }
  return at->second;
}

GrammarBuilder::Part GrammarBuilder::characters(const CodePointSet& set, Spelling spelling) {
  if (set.ranges().empty()) return never();
  bool small = set.ranges().back().second < 0x80 && set.ranges().size() <= 8;
  if (spelling == Spelling::kJson) small = small && set.intersection({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).ranges().empty();
  if (!small) return call(class_rule(set, spelling));
  std::vector<Part> parts;
  for (auto [lo, hi] : set.ranges()) parts.push_back(bytes(static_cast<uint8_t>(lo), static_cast<uint8_t>(hi)));
  return choice(parts);
}

// Rules of their own and not parts in place: an answer's text is read by few of them, however often a grammar names them.
void GrammarBuilder::define_classes() {
  for (const auto& [key, rule] : classes_) {
    CodePointSet set;
    for (auto [first, last] : key.second) set.add(first, last);
    const CodePointSet escaped = key.first == Spelling::kJson ? CodePointSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}} : CodePointSet{};
    std::vector<Part> parts;
    for (const Utf8Range& range : utf8_ranges(set.without(escaped))) {
      Part one = bytes(range.bytes[0].first, range.bytes[0].second);
      for (uint32_t i = 1; i < range.size; ++i) one = sequence(one, bytes(range.bytes[i].first, range.bytes[i].second));
      parts.push_back(one);
    }
    const CodePointSet spelled = set.intersection(escaped);
    for (auto [first, last] : spelled.ranges()) {
      for (char32_t c = first; c <= last; ++c) parts.push_back(literal(json_escape(c)));
    }
    define(rule, choice(parts));
  }
}

Result<std::unique_ptr<const Automaton>> GrammarBuilder::build() {
  define_classes();
  KVRT_TRY(status());
  return GrammarLinker(this).link();
}

// From the ends of rules back to where they begin. A call needs what follows it and its rule, an object's end its members, another node one
// way on.
std::vector<bool> GrammarBuilder::matching(std::span<const uint32_t> rules, uint32_t first, std::span<const uint32_t> assumed) const {
  const uint32_t size = nodes() - first;  // nodes by their places from `first` on
  const auto place = [&](uint32_t node) { return node == kOpen || node < first ? kOpen : node - first; };
  const auto callee = [&](const Node& n) { return n.op == kCallRule ? place(rules_[n.other].in) : kOpen; };
  const auto ends_object = [&](const Node& n) {
    return n.op == kGate && gates_[n.other].way == MemberGate::kWhole ? &objects_[gates_[n.other].object] : nullptr;
  };
  const auto each_edge = [&](auto visit) {
    for (uint32_t at = 0; at < size; ++at) {
      const Node& n = nodes_[first + at];
      if (const Members* object = ends_object(n)) {
        for (uint32_t member : object->rules)
          if (place(rules_[member].in) != kOpen) visit(at, place(rules_[member].in));
        if (object->other && place(rules_[*object->other].in) != kOpen) visit(at, place(rules_[*object->other].in));
      }
      for (uint32_t to : {place(n.next), n.op == kFork ? place(n.other) : callee(n)})
        if (to != kOpen && n.op != kFail) visit(at, to);
    }
  };
  std::vector<uint32_t> begin(size + 2, 0);
  each_edge([&](uint32_t, uint32_t to) { ++begin[to + 2]; });
  for (size_t n = 2; n < begin.size(); ++n) begin[n] += begin[n - 1];
  std::vector<uint32_t> from(begin.back());  // the nodes that lead to node n: [begin[n], begin[n + 1])
  each_edge([&](uint32_t n, uint32_t to) { from[begin[to + 1]++] = n; });

  std::vector<bool> alive(size, false);
  std::vector<uint32_t> stack;
  const auto revive = [&](uint32_t n) {
    if (!alive[n]) alive[n] = true, stack.push_back(n);
  };
  std::vector<bool> lives(assumed.empty() ? 0 : rules_.size(), false);
  for (uint32_t rule : assumed) lives[rule] = true;
  const auto rule_lives = [&](uint32_t one) { return place(rules_[one].in) == kOpen || alive[place(rules_[one].in)]; };
  for (uint32_t n = 0; n < size; ++n)
    if (nodes_[first + n].op == kEnd) revive(n);
  while (!stack.empty()) {
    const uint32_t to = stack.back();
    stack.pop_back();
    for (uint32_t i = begin[to]; i < begin[to + 1]; ++i) {
      const Node& n = nodes_[first + from[i]];
      const uint32_t next = place(n.next);
      const Members* object = ends_object(n);
      const bool two_ways = n.op == kCallRule || object;
      if (two_ways && (next == kOpen || !alive[next])) continue;
      const auto callee_lives = [&](uint32_t one) { return (!lives.empty() && lives[one]) || rule_lives(one); };
      if (object ? object->may_end(callee_lives) : n.op != kCallRule || callee_lives(n.other)) revive(from[i]);
    }
  }
  std::vector<bool> out;
  for (uint32_t rule : rules) out.push_back(rule_lives(rule));
  return out;
}

}  // namespace kvrt
