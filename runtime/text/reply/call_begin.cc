#include "runtime/text/reply/call_begin.h"

#include <algorithm>

#include "runtime/text/reply/pattern.h"

namespace kvrt::reply {

namespace {

// Elements of no width, and of white space.
size_t space_element(std::string_view pattern) { return pattern.starts_with('\n') ? 1 : pattern.starts_with("%s") ? 2 : 0; }

// The bytes of which one follows a name whose head goes on so, before a payload that begins with `payload`.
std::string bytes_after(std::string_view head, char payload) {
  std::string out;
  for (size_t size; (size = space_element(head)) > 0; head.remove_prefix(size))
    if (out.empty()) out = kWhiteSpace;
  return out + (head.empty() ? payload : head[0]);
}

}  // namespace

CallBegin::CallBegin(const CallSyntax& syntax) {
  for (std::string_view head : syntax.heads) {
    const size_t name = head.find("%n");
    if (name != std::string_view::npos) {
      add(head.substr(0, name + 2), bytes_after(head.substr(name + 2), syntax.tags != nullptr ? syntax.tags->open[0] : '{'));
    } else if (!head.empty()) {
      add_payload(head, syntax.flags);
    }
  }
}

void CallBegin::add(std::string_view pattern, std::string_view after) {
  std::string kept(pattern);
  std::erase_if(kept, [](char c) { return c == '(' || c == ')'; });  // around an identifier
  ways_.push_back({kept, std::string(after), kept.find("%n")});
}

// Of a payload that has the name in it: the name comes first, or behind the call's identifier.
void CallBegin::add_payload(std::string_view head, unsigned flags) {
  constexpr std::string_view kObjects[] = {"%s{%s\"name\"%s:%s\"%n", "%s{%s\"id\"%s:%s\"%i\"%s,%s\"name\"%s:%s\"%n",
                                           "%s{%s\"tool_name\"%s:%s\"%n", "%s{%s\"tool_call_id\"%s:%s\"%i\"%s,%s\"tool_name\"%s:%s\"%n"};
  constexpr std::string_view kKeyed[] = {"%s{%s\"%n"};
  constexpr std::string_view kPython[] = {"%s%n"};
  const auto add_all = [&](std::span<const std::string_view> patterns, std::string_view after) {
    for (std::string_view list : {"", "%s["})
      for (std::string_view pattern : patterns) add(std::string(head).append(list).append(pattern), after);
  };
  if (flags & CallSyntax::kKeyed) return add_all(kKeyed, "\"");
  add_all(kObjects, "\"");
  if (!(flags & CallSyntax::kPython)) return;
  add_all(kPython, "(");
  if (!(flags & CallSyntax::kBuiltins)) return;
  constexpr std::string_view kBuiltin[] = {"%s%n.call"};
  add_all(kBuiltin, "(");
}

CallBegin::Places CallBegin::begin(Names names) const {
  Places out;
  for (uint32_t way = 0; way < ways_.size() && !names.empty(); ++way) out.push_back({way, 0, 0, static_cast<uint32_t>(names.size()), 0});
  return out;
}

// Calls visit(kind, bytes, where they lead) for all that may come at a place.
template <typename Visit>
void CallBegin::each_step(At at, Names names, Visit visit) const {
  const Way& way = ways_[at.way];
  const std::string_view pattern = way.pattern;
  while (at.place < pattern.size()) {
    const std::string_view rest = pattern.substr(at.place);
    if (const size_t space = space_element(rest); space > 0) {
      visit(Step::kSpace, kWhiteSpace, at);
      at.place += static_cast<uint32_t>(space);
    } else if (rest.starts_with("%n")) {
      visit(Step::kName, {}, at);
      if (at.bytes == 0 || names[at.first].size() != at.bytes) return;
      at.place += 2;
    } else if (rest[0] == '%') {
      visit(Step::kRun, {}, at);
      at.place += 2;
    } else {
      return visit(Step::kByte, rest.substr(0, 1), At{at.way, at.place + 1, at.first, at.end, at.bytes});
    }
  }
  visit(Step::kAfter, way.after, at);
}

CallBegin::Places CallBegin::step(const Places& from, Names names, char c, bool* named) const {
  Places out;
  *named = false;
  const auto visit = [&](Step kind, std::string_view bytes, At to) {
    if (kind == Step::kName) {
      const auto byte = [&](std::string_view name) { return name.size() > to.bytes ? static_cast<uint8_t>(name[to.bytes]) : -1; };
      const Names left = names.subspan(to.first, to.end - to.first);
      const auto same = std::ranges::equal_range(left, static_cast<uint8_t>(c), {}, byte);
      if (same.empty()) return;
      const auto first = static_cast<uint32_t>(same.begin() - left.begin());
      out.push_back({to.way, to.place, to.first + first, to.first + first + static_cast<uint32_t>(same.size()), to.bytes + 1});
    } else if (kind == Step::kRun ? is_name(c) : bytes.find(c) != std::string_view::npos) {
      if (kind == Step::kAfter) *named = true;
      if (kind != Step::kAfter) out.push_back(to);
    }
  };
  for (const At& at : from) each_step(at, names, visit);
  return out;
}

std::string CallBegin::next(const Places& from, Names names) const {
  std::string out;
  const auto add = [&](char c) {
    if (out.find(c) == std::string::npos) out.push_back(c);
  };
  const auto visit = [&](Step kind, std::string_view bytes, At at) {
    for (char c : bytes) add(c);
    for (int c = 0; kind == Step::kRun && c < 128; ++c)
      if (is_name(static_cast<char>(c))) add(static_cast<char>(c));
    for (uint32_t i = at.first; kind == Step::kName && i < at.end; ++i)
      if (names[i].size() > at.bytes) add(names[i][at.bytes]);
  };
  for (const At& at : from) each_step(at, names, visit);
  std::sort(out.begin(), out.end());
  return out;
}

bool CallBegin::at_name(const At& at) const {
  std::string_view before = std::string_view(ways_[at.way].pattern).substr(0, ways_[at.way].name_at);
  before.remove_prefix(std::min<size_t>(at.place, before.size()));
  for (size_t size; (size = space_element(before)) > 0;) before.remove_prefix(size);
  return before.empty() && at.bytes == 0;
}

const CallBegin& call_begin(const CallSyntax& syntax) {
  static const std::vector<CallBegin> kBegins = [] {
    std::vector<CallBegin> begins;
    for (const CallSyntax& one : syntaxes()) begins.emplace_back(one);
    return begins;
  }();
  return kBegins[static_cast<size_t>(&syntax - syntaxes().data())];
}

}  // namespace kvrt::reply
