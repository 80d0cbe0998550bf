#include <algorithm>
#include <set>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

Status SchemaCompiler::check_members(const Flat& flat) const {
  for (const Item& item : flat.items) {
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    for (const char* keyword : {"properties", "patternProperties"}) {
      const Node* list = document_.member(*item.schema, keyword);
      if (list && list->kind != Kind::kObject) return invalid(*list, "%s is an object of schemas", keyword);
    }
    const Node* required = document_.member(*item.schema, "required");
    if (!required) continue;
    if (required->kind != Kind::kArray) return invalid(*required, "required is a list of names");
    for (const Node& name : document_.children(*required)) {
      if (name.kind != Kind::kString) return invalid(name, "required is a list of names");
    }
  }
  return Status::ok();
}

// What propertyNames says; of strings, without choices.
Result<SchemaCompiler::Flat> SchemaCompiler::name_rules(const Flat& flat) const {
  All all;
  const Node* at = nullptr;
  for (const Item& item : flat.items) {
    const Node* names = item.what == What::kSchema && !only_ref(*item.schema) ? document_.member(*item.schema, "propertyNames") : nullptr;
    if (names) all.push_back({names}), at = names;
  }
  KVRT_ASSIGN(Flat rules, flatten(all));
  for (const Item& item : rules.items) {
    const bool choice = item.what == What::kNot && !(item.done & kDenial);
    if (choice) return unsupported(*at, "propertyNames with choices");
    for (const char* keyword : {"anyOf", "oneOf", "if"}) {
      if (item.what == What::kSchema && document_.member(*item.schema, keyword))
        return unsupported(*at, std::string("propertyNames with ") + keyword);
    }
  }
  return rules;
}

Result<bool> SchemaCompiler::name_fits(const Flat& rules, std::string_view name) const {
  if (rules.nothing_fits) return false;
  if (rules.items.empty()) return true;
  KVRT_ASSIGN(const uint8_t types, types_of(rules, false));
  if (!(types & kString)) return false;
  KVRT_ASSIGN(const auto values, constants(rules));
  auto is_name = [&](const Node* v) { return v->kind == Kind::kString && document_.text(*v) == name; };
  if (values && std::none_of(values->begin(), values->end(), is_name)) return false;
  const auto out = excluded(rules);
  if (std::any_of(out.begin(), out.end(), is_name)) return false;
  KVRT_ASSIGN(const Counts lengths, counts(rules, "minLength", "maxLength"));
  const auto length = std::count_if(name.begin(), name.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
  if (length < lengths.min || length > lengths.max) return false;
  KVRT_ASSIGN(const auto demanded, demands(rules));
  for (const Demand& demand : demanded) {
    KVRT_ASSIGN(const auto found, found_in(*demand.regex, name, about(rules)));
    if (found != (demand.negated ? Regex::Found::kNone : Regex::Found::kEvery)) return false;
  }
  return true;
}

Result<SchemaCompiler::Members> SchemaCompiler::members(const Flat& flat) const {
  KVRT_TRY(check_members(flat));
  Members out;
  const std::vector<std::string_view> names = required_names(flat);
  const std::set<std::string_view> required(names.begin(), names.end());
  std::set<std::string_view> seen;
  KVRT_ASSIGN(const Flat rules, name_rules(flat));
  auto add = [&](std::string_view name) -> Status {
    if (!seen.insert(name).second) return Status::ok();
    const bool must = required.count(name) > 0;
    KVRT_ASSIGN(All all, schemas_of_member(flat, name));
    KVRT_ASSIGN(const bool fits, name_fits(rules, name));
    const bool never = lacks(flat, name) || !fits || forbids(all);
    if (!never) KVRT_TRY(check_name(name, about(flat)));
    out.listed.push_back({name, std::move(all), must, never});
    return Status::ok();
  };
  for (const Item& item : flat.items) {
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    const Node* list = document_.member(*item.schema, "properties");
    if (list) {
      for (const Node& member : document_.children(*list)) KVRT_TRY(add(document_.key(member)));
    }
    const Node* patterns = document_.member(*item.schema, "patternProperties");
    if (patterns) {
      for (const Node& pattern : document_.children(*patterns)) out.patterns.push_back(&pattern);
    }
  }
  for (std::string_view name : names) KVRT_TRY(add(name));
  for (const Item& item : flat.items) {
    if (item.what == What::kLacks) KVRT_TRY(add(item.name));
  }
  KVRT_ASSIGN(out.count, counts(flat, "minProperties", "maxProperties"));
  KVRT_TRY(exclude_empty(flat, Kind::kObject, "an object that is not to be", &out.count));
  if (!rules.items.empty()) {
    KVRT_ASSIGN(out.names, demands(rules));
    KVRT_ASSIGN(out.name_lengths, counts(rules, "minLength", "maxLength"));
  }
  KVRT_TRY(find_others(flat, &out));
  KVRT_ASSIGN(const auto constant_names, constants(rules));
  for (size_t i = 0; constant_names && i < constant_names->size(); ++i) {  // each that may come is listed: no other name is left
    const Node& name = *(*constant_names)[i];
    size_t set = 0;
    for (size_t p = 0; p < out.patterns.size(); ++p) {
      KVRT_ASSIGN(const Regex* regex, regex_of(*out.patterns[p]));
      KVRT_ASSIGN(const auto found, found_in(*regex, document_.text(name), *out.patterns[p]));
      if (found == Regex::Found::kEvery) set |= size_t{1} << p;
    }
    if (name.kind == Kind::kString && out.others[set]) KVRT_TRY(add(document_.text(name)));
  }
  KVRT_ASSIGN(const uint8_t name_types, types_of(rules, false));
  if (constant_names || rules.nothing_fits || !(name_types & kString)) out.others.assign(out.others.size(), std::nullopt);
  return written_names(std::move(out));
}

// What a schema says of members that neither its properties nor the patterns of `set` are about; null: nothing.
const SchemaCompiler::Node* SchemaCompiler::others_by(const Flat& flat, const Node& schema, const Members& m, size_t set) const {
  if (const Node* others = document_.member(schema, "additionalProperties")) return others;
  const Node* rest = document_.member(schema, "unevaluatedProperties");
  for (const Node* by : rest ? applied_by(flat, schema) : std::vector<const Node*>()) {
    bool evaluated = document_.member(*by, "additionalProperties") || (by != &schema && document_.member(*by, "unevaluatedProperties"));
    for (size_t i = 0; i < m.patterns.size(); ++i) {
      evaluated = evaluated || ((set >> i & 1) && &document_.parent(document_.parent(*m.patterns[i])) == by);
    }
    if (evaluated) return nullptr;
  }
  return rest;
}

// Which other members may come, by the patterns that match their names.
Status SchemaCompiler::find_others(const Flat& flat, Members* out) const {
  if (out->patterns.size() > kSchemaNamePatternsMax) {
    return unsupported(*out->patterns.front(), "patternProperties of more than " + std::to_string(kSchemaNamePatternsMax) + " patterns");
  }
  bool properties = false;
  for (const Item& item : flat.items) {
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    properties = properties || document_.member(*item.schema, "properties") || document_.member(*item.schema, "patternProperties");
  }
  for (size_t set = 0; set < size_t{1} << out->patterns.size(); ++set) {
    All all;
    bool stated = !properties || others_ == SchemaMembers::kOpen;
    for (const Item& item : flat.items) {
      if (item.what != What::kSchema || only_ref(*item.schema)) continue;
      KVRT_TRY(look(*item.schema, 1));
      bool matched = false;
      for (size_t i = 0; i < out->patterns.size(); ++i) {
        const Node& list = document_.parent(*out->patterns[i]);
        if (!(set >> i & 1) || &document_.parent(list) != item.schema) continue;
        all.push_back({out->patterns[i]});
        matched = true;
      }
      const Node* others = matched ? nullptr : others_by(flat, *item.schema, *out, set);
      if (others) all.push_back({others});
      stated = stated || matched || others;
    }
    out->others.push_back(stated && !forbids(all) ? std::optional<All>(std::move(all)) : std::nullopt);
  }
  return Status::ok();
}

SchemaCompiler::Part SchemaCompiler::member(std::string_view name, const All& all) {
  const Part part = builder_.sequence(member_name(name), builder_.call(rule_for(all, member_place(name))));
  return ended(part, name);
}

// The rule of a member that is not listed; none: there is no such member.
Result<std::optional<uint32_t>> SchemaCompiler::other_member(const Flat& flat, const Members& m) {
  if (std::none_of(m.others.begin(), m.others.end(), [](const auto& o) { return o.has_value(); })) return std::optional<uint32_t>();
  const bool free_names = m.names.empty() && m.name_lengths.min == 0 && m.name_lengths.max == GrammarBuilder::kNoMax;
  const uint32_t rule = builder_.add_rule("another member");
  KVRT_TRY(builder_.status());
  if (m.patterns.empty() && free_names) {
    Part part = builder_.sequence(mark(spelling().name), other_name(m));
    part = builder_.sequence(part, named(spelling().named));
    part = builder_.sequence(part, builder_.call(rule_for(*m.others.front(), member_place(kOtherName))));
    builder_.define(rule, ended(part, kOtherName));
    return std::optional<uint32_t>(rule);
  }
  std::vector<std::string> listed = names_read();
  for (const Member& one : m.listed) listed.emplace_back(one.name);
  const Node& at = m.patterns.empty() ? about(flat) : *m.patterns.front();
  KVRT_ASSIGN(const Part part, names_by_pattern(listed, m.patterns, m.names, m.name_lengths, m.others, at));
  KVRT_TRY(builder_.status());
  builder_.define(rule, part);
  return std::optional<uint32_t>(rule);
}

// The members that are listed, from and to the places by the count of members so far; counts that no bound tells apart are one.
Result<std::vector<uint32_t>> SchemaCompiler::listed_members(const Members& m, std::vector<uint32_t> at, bool bounded) {
  const size_t top = at.size() - 1;
  size_t most = 0;  // members that may have come
  for (const Member& one : m.listed) {
    if (one.never) continue;
    std::vector<uint32_t> after(top + 1);
    for (uint32_t& node : after) node = builder_.join();
    std::vector<Part> parts;
    for (size_t c = 0; c < std::min(top, most + 1); ++c) {
      parts.push_back(member(one.name, one.all));
      builder_.link(parts.back().out, after[c + 1]);
    }
    for (size_t c = 0; c <= top; ++c) {
      std::vector<uint32_t> ways;
      if (c <= most && !(bounded && c == top)) {
        const Part& part = parts[std::min(c, parts.size() - 1)];
        const Part separator = c == 0 ? builder_.empty() : comma();
        builder_.link(separator.out, part.in);
        ways.push_back(separator.in);
      }
      if (!one.required) ways.push_back(after[c]);
      builder_.link(at[c], ways);
    }
    ++most;
    at = std::move(after);
    KVRT_TRY(builder_.status());
  }
  return at;
}

Result<SchemaCompiler::Part> SchemaCompiler::object_value(const Flat& flat) {
  KVRT_ASSIGN(Members m, members(flat));
  const bool others = std::any_of(m.others.begin(), m.others.end(), [](const auto& o) { return o.has_value(); });
  if (!others || spelling().name_again.empty()) return object_of(flat, m);
  m.others.assign(m.others.size(), std::nullopt);  // no grammar has any name twice
  leave_out(about(flat), "members without known names in this model's calls");
  KVRT_ASSIGN(const Part known, object_of(flat, m));
  if (!spelling().structures) return known;
  KVRT_ASSIGN(const Part all, within({spelling().structures}, [&] { return object_value(flat); }));
  return builder_.choice(std::vector<Part>{known, all});
}

Result<SchemaCompiler::Part> SchemaCompiler::object_of(const Flat& flat, const Members& m) {
  const auto [min, max] = m.count;
  uint32_t listed = 0, optional = 0;
  bool may_be_empty = min == 0;
  for (const Member& one : m.listed) {
    if (one.never && one.required) return builder_.never();
    listed += !one.never;
    optional += !one.never && !one.required;
    may_be_empty = may_be_empty && !one.required;
  }
  if (optional > kSchemaOptionalMax)
    return limit(about(flat), "an object of more than " + std::to_string(kSchemaOptionalMax) + " members that are not required");
  KVRT_ASSIGN(const auto other, other_member(flat, m));
  // A name may come twice among the others: below a minimum they count as one.
  if (min > listed + 1 && other) return unsupported(about(flat), "minProperties above the number of named members and one more");
  if (min > listed && !other && others_ == SchemaMembers::kClosed)
    leave_out(about(flat), "a minimum of more members than are named, in a schema that is not open,");
  if (max < min || (min > listed && !other) || (max == 0 && !may_be_empty)) return builder_.never();
  if (arguments_ && listed <= MemberRules::kNamedMax && max > 0) return object_in_any_order(m, other);
  return object_in_order(m, other, may_be_empty, listed);
}

Result<SchemaCompiler::Part> SchemaCompiler::object_in_order(const Members& m, std::optional<uint32_t> other, bool may_be_empty,
                                                             uint32_t listed) {
  const auto [min, max] = m.count;
  const bool bounded = max != GrammarBuilder::kNoMax && (other || max < listed);
  const uint32_t top = std::max({bounded ? std::min(max, listed + kSchemaOthersMax) : 1, min, 1u});
  const Part open = mark(spelling().object), before = space();
  const uint32_t out = builder_.join();
  Part close = space();
  close = builder_.sequence(close, mark(spelling().object_end));
  builder_.link(close.out, out);
  std::vector<uint32_t> at(top + 1), first;
  for (uint32_t& node : at) node = builder_.join();
  builder_.link(before.out, at[0]);
  if (max > 0) first.push_back(before.in);
  if (may_be_empty) {
    const Part empty = mark(spelling().object_end);
    builder_.link(empty.out, out);
    first.push_back(empty.in);
  }
  builder_.link(open.out, first);
  KVRT_ASSIGN(at, listed_members(m, std::move(at), bounded));
  // Others come last; they are counted where there is a maximum.
  std::vector<uint32_t> with_others(top + 2, builder_.join());
  for (uint32_t c = 1; c <= top && bounded; ++c) with_others[c] = builder_.join();
  for (uint32_t c = 0; c <= top; ++c) {
    std::vector<uint32_t> ways, more{close.in};
    if (c > 0 && c >= min) ways.push_back(close.in);
    if (other && !(bounded && c == top) && c + 1 >= min) {
      const Part separator = c == 0 ? builder_.empty() : comma(), one = builder_.call(*other);
      builder_.link(separator.out, one.in);
      builder_.link(one.out, with_others[c + 1]);
      ways.push_back(separator.in);
    }
    builder_.link(at[c], ways);
    if (!other || c == 0 || (!bounded && c > 1)) continue;
    if (!(bounded && c == top)) {
      const Part separator = comma(), one = builder_.call(*other);
      builder_.link(separator.out, one.in);
      builder_.link(one.out, with_others[c + 1]);
      more.push_back(separator.in);
    }
    builder_.link(with_others[c], more);
  }
  return Part{open.first, open.in, out};
}

// A name that is none of the listed: each place in the tree of their characters goes on to its children, or out of the tree.
SchemaCompiler::Part SchemaCompiler::other_name(const Members& members) {
  constexpr auto kJson = GrammarBuilder::Spelling::kJson;
  if (members.listed.empty()) {
    const Part one = builder_.call(character_rule());
    return builder_.repeat(one, 0, GrammarBuilder::kNoMax);
  }
  struct Branch {
    uint32_t node;
    bool is_name = false;
    std::map<char32_t, size_t> next{};
  };
  std::vector<Branch> tree{{builder_.join()}};
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
  for (const Branch& place : tree) {
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
