#include <algorithm>

#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

// What unevaluatedItems says about the items that no schema applied beside it is about.
Status SchemaCompiler::unevaluated_items(const Flat& flat, const Node& schema, Sequence* out) const {
  const Node* rest = document_.member(schema, "unevaluatedItems");
  if (!rest) return Status::ok();
  size_t evaluated = 0;
  for (const Node* by : applied_by(flat, schema)) {
    KVRT_TRY(look(*rest, 1));
    const Node *prefix = document_.member(*by, "prefixItems"), *items = document_.member(*by, "items");
    if (const Node* contains = document_.member(*by, "contains")) return unsupported(*contains, "contains together with unevaluatedItems");
    const bool list = !prefix && items && items->kind == Kind::kArray;
    const Node* others = list ? document_.member(*by, "additionalItems") : items;
    if (others || (by != &schema && document_.member(*by, "unevaluatedItems"))) return Status::ok();
    if (list) prefix = items;
    if (prefix) evaluated = std::max<size_t>(evaluated, prefix->size);
  }
  for (size_t i = evaluated; i < out->places.size(); ++i) out->places[i].push_back({rest});
  return Status::ok();
}

Result<SchemaCompiler::ItemLists> SchemaCompiler::item_lists(const Node& schema) const {
  ItemLists l{document_.member(schema, "prefixItems"), document_.member(schema, "items")};
  if (!l.prefix && l.items && l.items->kind == Kind::kArray) l = {l.items, document_.member(schema, "additionalItems")};  // before 2020-12
  if (l.prefix && l.prefix->kind != Kind::kArray) return invalid(*l.prefix, "prefixItems is a list of schemas");
  return l;
}

Status SchemaCompiler::contain(const Node& keyword, All all, uint32_t from, Sequence* out) const {
  if (out->contains) return unsupported(keyword, "a second item that is to be contained");
  out->contains = std::move(all);
  out->contains_from = from;
  return Status::ok();
}

Status SchemaCompiler::add_contained(const Node& schema, Sequence* out) const {
  const Node* wanted = document_.member(schema, "contains");
  if (!wanted) return Status::ok();
  if (const Node* most = document_.member(schema, "maxContains")) return unsupported(*most, "maxContains");
  if (const Node* least = document_.member(schema, "minContains")) {
    KVRT_ASSIGN(const auto n, count(*least));
    if (*n == 0) return Status::ok();
    if (*n > 1) return unsupported(*least, "minContains above 1");
  }
  return contain(*wanted, {{wanted}}, 0, out);
}

Status SchemaCompiler::add_items(const Flat& flat, const Node& schema, Sequence* out) const {
  KVRT_ASSIGN(const ItemLists l, item_lists(schema));
  uint32_t at = 0;
  if (l.prefix) {
    for (const Node& one : document_.children(*l.prefix)) out->places[at++].push_back({&one});
  }
  for (; l.items && at < out->places.size(); ++at) out->places[at].push_back({l.items});
  KVRT_TRY(unevaluated_items(flat, schema, out));
  const Node* unique = document_.member(schema, "uniqueItems");
  out->unique = out->unique || (unique && !(unique->kind == Kind::kBoolean && !unique->truth));
  return add_contained(schema, out);
}

// What the schemas say about items.
Result<SchemaCompiler::Sequence> SchemaCompiler::sequence(const Flat& flat) const {
  Sequence out;
  uint32_t leading = 0;
  for (const Item& item : flat.items) {
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    KVRT_ASSIGN(const ItemLists l, item_lists(*item.schema));
    if (l.prefix) leading = std::max(leading, l.prefix->size);
  }
  out.places.resize(leading + 1);
  for (const Item& item : flat.items) {
    if (item.what == What::kDenied) {
      const std::string_view name = document_.key(*item.part);
      KVRT_ASSIGN(const ItemLists l, item_lists(*item.schema));
      if (name == "items") KVRT_TRY(contain(*item.part, {{item.part, What::kNot}}, l.prefix ? l.prefix->size : 0, &out));
      for (size_t i = 0; name == "contains" && i < out.places.size(); ++i) out.places[i].push_back({item.part, What::kNot});
    }
    if (item.what == What::kSchema && !only_ref(*item.schema)) KVRT_TRY(add_items(flat, *item.schema, &out));
  }
  KVRT_ASSIGN(out.items, counts(flat, "minItems", "maxItems"));
  KVRT_TRY(exclude_empty(flat, Kind::kArray, "an array that is not to be", &out.items));
  return out;
}

Result<SchemaCompiler::Part> SchemaCompiler::array_value(const Flat& flat) {
  KVRT_ASSIGN(Sequence s, sequence(flat));
  const auto leading = static_cast<uint32_t>(s.places.size() - 1);
  if (s.items.min > leading + kGrammarRepeatsMax) {
    return limit(about(flat), "minItems above " + std::to_string(kGrammarRepeatsMax));
  }
  if (s.items.max < s.items.min) return builder_.never();
  const bool endless = s.items.max == GrammarBuilder::kNoMax;
  if (!endless) s.items.max = std::min(s.items.max, leading + kGrammarRepeatsMax);
  if (s.unique && s.items.max > 1) return unique_items(flat, s);
  // A place before each item, and one after all that are counted; a second row of them once the item that is to be contained has come.
  const uint32_t top = endless ? std::max({leading, s.items.min, s.contains ? s.contains_from : 0, 1u}) : s.items.max;
  const uint32_t rows = s.contains ? 2 : 1;
  std::vector<uint32_t> before;
  for (uint32_t i = 0; i < rows * (top + 1); ++i) before.push_back(builder_.join());
  const Part open = mark(spelling().array), first = space();
  Part close = space();
  close = builder_.sequence(close, mark(spelling().array_end));
  const uint32_t out = builder_.join();
  builder_.link(close.out, out);
  std::vector<uint32_t> ways{first.in};
  if (s.items.min == 0 && !s.contains) {
    const Part none = mark(spelling().array_end);
    builder_.link(none.out, out);
    ways.push_back(none.in);
  }
  builder_.link(open.out, ways);
  builder_.link(first.out, before[0]);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t i = 0; i <= top; ++i) {
      const uint32_t at = before[row * (top + 1) + i];
      ways.clear();
      if (i > 0 && i >= s.items.min && row + 1 == rows) ways.push_back(close.in);
      if (i < top || endless) {
        const uint32_t to = std::min(i + 1, top);
        const All& all = s.places[std::min(i, leading)];
        const uint32_t separator = builder_.join();
        if (i == 0) {
          ways.push_back(separator);
        } else {
          const Part between = comma();
          builder_.link(between.out, separator);
          ways.push_back(between.in);
        }
        const Part one = item(all);
        builder_.link(one.out, before[row * (top + 1) + to]);
        std::vector<uint32_t> items{one.in};
        if (row + 1 < rows && i >= s.contains_from) {
          All both = all;
          both.insert(both.end(), s.contains->begin(), s.contains->end());
          const Part wanted = item(both);
          builder_.link(wanted.out, before[top + 1 + to]);
          items.push_back(wanted.in);
        }
        builder_.link(separator, items);
      }
      builder_.link(at, ways);
      KVRT_TRY(builder_.status());
    }
  }
  return Part{before[0], open.in, out};
}

// A rule for each constant that an item may be.
Result<std::vector<uint32_t>> SchemaCompiler::constant_rules(const Flat& flat, const Sequence& s) {
  const Node* at = flat.items.front().schema;
  for (const Item& item : flat.items) {
    if (const Node* unique = document_.member(*item.schema, "uniqueItems")) at = unique;
  }
  KVRT_ASSIGN(const Flat each, flatten(s.places.back()));
  KVRT_ASSIGN(auto values, constants(each));
  if (!values || s.places.size() > 1 || s.contains) return unsupported(*at, "uniqueItems of other items than constants");
  std::vector<uint32_t> rules;
  for (size_t i = 0; i < values->size(); ++i) {
    const Node* value = (*values)[i];
    KVRT_TRY(look(*at, 1));
    const bool again =
        std::any_of(values->begin(), values->begin() + static_cast<ptrdiff_t>(i), [&](const Node* v) { return equal(*v, *value); });
    KVRT_ASSIGN(const Part part, within(item_place(), [&] { return constants_part(each, {value}); }));
    KVRT_TRY(builder_.status());
    if (again) continue;
    rules.push_back(builder_.add_rule("a unique item"));
    builder_.define(rules.back(), part);
  }
  return rules;
}

// Items that are constants, each at most once: few of them in any order, many in their own.
Result<SchemaCompiler::Part> SchemaCompiler::unique_items(const Flat& flat, const Sequence& s) {
  KVRT_ASSIGN(const std::vector<uint32_t> rules, constant_rules(flat, s));
  const auto n = static_cast<uint32_t>(rules.size());
  const uint32_t max = std::min(s.items.max, n);
  if (max < s.items.min) return builder_.never();
  const bool any_order = n <= kSchemaOrdersMax;
  // A place for each set that has come; or for the last that has come (0: none) and their count, as far as that matters.
  const uint32_t counted = any_order ? 0 : s.items.max < n ? max : std::min(s.items.min, max);
  const uint32_t last_count = any_order ? 1u << n : n + 1;
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < last_count * (counted + 1); ++i) places.push_back(builder_.join());
  const Part open = mark(spelling().array), first = space();
  Part close = space();
  close = builder_.sequence(close, mark(spelling().array_end));
  const Part none = mark(spelling().array_end);
  const uint32_t out = builder_.join();
  builder_.link(none.out, out);
  builder_.link(close.out, out);
  const uint32_t begin[] = {first.in, none.in};
  builder_.link(open.out, std::span<const uint32_t>(begin, s.items.min == 0 ? 2 : 1));
  builder_.link(first.out, places[0]);
  for (uint32_t p = 0; p < places.size(); ++p) {
    const uint32_t set = p % last_count, so_far = any_order ? static_cast<uint32_t>(__builtin_popcount(set)) : p / last_count;
    std::vector<uint32_t> ways, items;
    if (set != 0 && so_far >= s.items.min) ways.push_back(close.in);
    const bool full = (any_order || s.items.max < n) && so_far == max;
    for (uint32_t i = 0; i < n && !full; ++i) {
      if (any_order ? (set >> i & 1) != 0 : i < set) continue;
      const Part one = item_of(builder_.call(rules[i]));
      const uint32_t to = any_order ? (set | 1u << i) : i + 1 + std::min(so_far + 1, counted) * last_count;
      builder_.link(one.out, places[to]);
      items.push_back(one.in);
    }
    if (!items.empty() && set == 0) ways.insert(ways.end(), items.begin(), items.end());
    if (!items.empty() && set != 0) {
      const Part between = comma();
      builder_.link(between.out, items);
      ways.push_back(between.in);
    }
    builder_.link(places[p], ways);
    KVRT_TRY(builder_.status());
  }
  return Part{places[0], open.in, out};
}

}  // namespace kvrt
