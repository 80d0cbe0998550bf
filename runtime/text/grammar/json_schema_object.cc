#include <algorithm>
#include <set>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

Status SchemaCompiler::check_members(const Flat& flat) const {
  for (const Item& item : flat.items) {
    const Node* properties = document_.member(*item.schema, "properties");
    if (properties && properties->kind != Kind::kObject) return invalid(*properties, "properties is an object of schemas");
    const Node* required = document_.member(*item.schema, "required");
    if (!required) continue;
    if (required->kind != Kind::kArray) return invalid(*required, "required is a list of names");
    for (const Node& name : document_.children(*required)) {
      if (name.kind != Kind::kString) return invalid(name, "required is a list of names");
    }
  }
  return Status::ok();
}

Result<SchemaCompiler::Members> SchemaCompiler::members(const Flat& flat) const {
  KVRT_TRY(check_members(flat));
  Members out;
  std::vector<std::string> names = required_names(flat);
  const std::set<std::string> required(names.begin(), names.end());
  bool properties = false, open = false, closed = false;
  std::set<std::string> seen;
  auto add = [&](std::string name) {
    if (!seen.insert(name).second) return;
    const bool must = required.count(name) > 0;
    All all = schemas_of_member(flat, name);
    out.listed.push_back({std::move(name), std::move(all), must});
  };
  for (const Item& item : flat.items) {
    if (const Node* list = document_.member(*item.schema, "properties")) {
      properties = true;
      for (const Node& member : document_.children(*list)) add(std::string(document_.key(member)));
    }
    if (const Node* others = document_.member(*item.schema, "additionalProperties")) {
      const bool no = others->kind == Kind::kBoolean && !others->truth;
      closed = closed || no;
      open = open || !no;
      out.other.push_back({others});
    }
  }
  for (std::string& name : names) add(std::move(name));
  out.others = !closed && (open || !properties);
  return out;
}

// An answer's members are not counted: a bound that always holds says nothing, another one is not supported.
Status SchemaCompiler::check_member_counts(const Flat& flat, const Members& members) const {
  KVRT_ASSIGN(const auto min, count(flat, "minProperties", true));
  KVRT_ASSIGN(const auto max, count(flat, "maxProperties", false));
  size_t least = 0;
  for (const Member& m : members.listed) least += m.required;
  const Node& at = *flat.items.front().schema;
  if (min && *min > least) return unsupported(at, "minProperties above the number of required members");
  if (max && (members.others || *max < members.listed.size())) return unsupported(at, "maxProperties below the number of members");
  return Status::ok();
}

SchemaCompiler::Part SchemaCompiler::member(Part name, const All& all) {
  Part part = builder_.sequence(quoted(name), colon());
  return builder_.sequence(part, builder_.call(rule_for(all)));
}

Result<SchemaCompiler::Part> SchemaCompiler::object_value(const Flat& flat) {
  KVRT_ASSIGN(const Members m, members(flat));
  if (!flat.items.empty()) KVRT_TRY(check_member_counts(flat, m));
  const Part open = builder_.literal("{");
  const uint32_t out = builder_.join();
  Part close = builder_.call(space_rule());
  close = builder_.sequence(close, builder_.literal("}"));
  builder_.link(close.out, out);
  const Part space = builder_.call(space_rule());
  // Two ways through the members: before any has come, and after; only the latter begins a member with a comma.
  uint32_t none_yet = space.in, some = builder_.join();
  for (const Member& listed : m.listed) {
    const Part separator = comma(), one = member(builder_.json_literal(listed.name), listed.all);
    const uint32_t none_after = builder_.join(), some_after = builder_.join();
    builder_.link(separator.out, one.in);
    builder_.link(one.out, some_after);
    const uint32_t first[] = {one.in, none_after}, next[] = {separator.in, some_after};
    builder_.link(none_yet, std::span<const uint32_t>(first, listed.required ? 1 : 2));
    builder_.link(some, std::span<const uint32_t>(next, listed.required ? 1 : 2));
    none_yet = none_after;
    some = some_after;
    KVRT_TRY(builder_.status());
  }
  const bool may_be_empty = std::none_of(m.listed.begin(), m.listed.end(), [](const Member& l) { return l.required; });
  if (m.others) {
    const Part separator = comma(), one = member(other_name(m), m.other);
    builder_.link(separator.out, one.in);
    builder_.link(none_yet, one.in);
    builder_.link(one.out, some);
    const uint32_t ways[] = {separator.in, close.in};
    builder_.link(some, ways);
  } else {
    builder_.link(none_yet, builder_.never().in);
    builder_.link(some, close.in);
  }
  std::vector<uint32_t> ways{space.in};
  if (may_be_empty) {
    const Part empty = builder_.literal("}");
    builder_.link(empty.out, out);
    ways.push_back(empty.in);
  }
  builder_.link(open.out, ways);
  return Part{open.first, open.in, out};
}

// A name that is none of the listed: each place in the tree of their characters goes on to its children, or out of the tree.
SchemaCompiler::Part SchemaCompiler::other_name(const Members& members) {
  constexpr auto kJson = GrammarBuilder::Spelling::kJson;
  if (members.listed.empty()) {
    const Part one = builder_.call(character_rule());
    return builder_.repeat(one, 0, GrammarBuilder::kNoMax);
  }
  struct Place {
    uint32_t node;
    bool is_name = false;
    std::map<char32_t, size_t> next{};
  };
  std::vector<Place> tree{{builder_.join()}};
  for (const Member& member : members.listed) {
    size_t at = 0;
    for (std::string_view rest = member.name; !rest.empty();) {
      const CodePoint c = read_code_point(rest);
      rest.remove_prefix(c.size);
      auto [child, fresh] = tree[at].next.try_emplace(c.value, tree.size());
      const size_t to = child->second;
      if (fresh) tree.push_back({builder_.join()});
      at = to;
    }
    tree[at].is_name = true;
  }
  const uint32_t free = builder_.join(), out = builder_.join();
  auto step = [&](const CodePointSet& set, uint32_t to) {
    const Part part = builder_.characters(set, kJson);
    builder_.link(part.out, to);
    return part.in;
  };
  const uint32_t free_ways[] = {step(CodePointSet::all(), free), out};
  builder_.link(free, free_ways);
  for (const Place& place : tree) {
    CodePointSet taken;
    std::vector<uint32_t> ways;
    for (auto [c, child] : place.next) {
      taken.add(c, c);
      ways.push_back(step({{c, c}}, tree[child].node));
    }
    ways.push_back(step(taken.complement(), free));
    if (!place.is_name) ways.push_back(out);
    builder_.link(place.node, ways);
  }
  return {tree[0].node, tree[0].node, out};
}

}  // namespace kvrt
