// Choices, and what denies a schema. By the standard's meaning: a value that fits one way of a choice fits it, whatever the grammar narrows.
#include <algorithm>

#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

constexpr std::string_view kDependentKeywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};
// Keywords of which a denial is a demand of its own.
constexpr std::string_view kAssertions[] = {
    "type",          "enum",          "const",   "minLength", "maxLength",        "pattern",
    "minItems",      "maxItems",      "minimum", "maximum",   "exclusiveMinimum", "exclusiveMaximum",
    "minProperties", "maxProperties", "format",  "multipleOf"};

}  // namespace

void SchemaCompiler::leave_out(const Node& keyword, const std::string& what) const {
  if (left_out_.is_ok()) left_out_ = unsupported(keyword, what);
}

bool SchemaCompiler::leaves_out(const All& all) const {
  const auto way = std::find_if(all.begin(), all.end(), [](const Item& item) { return item.what == What::kLeftOut; });
  if (way == all.end()) return false;
  const std::string_view name = document_.key(*way->part);
  leave_out(*way->part, "the denial of " + (name == "oneOf" ? "a oneOf of more than 8 branches" : std::string(name)));
  return true;
}

// The ways not to fit the item's schema, unless the rest says as much.
Result<std::optional<SchemaCompiler::Ways>> SchemaCompiler::denial_of(Item* item, const Flat& flat) const {
  if (item->what != What::kNot || (item->done & kDenial)) return std::optional<Ways>();
  item->done |= kDenial;
  // What the rest says may deny the schema already. Denials that were dealt with are no part of it: they hold because this one does.
  All with = flat.items;
  std::erase_if(with, [](const Item& other) { return other.what == What::kNot && (other.done & kDenial); });
  with.push_back({item->schema});
  KVRT_ASSIGN(const bool may_fit, possible(with, 0));
  if (!may_fit) return std::optional<Ways>();
  KVRT_ASSIGN(Ways ways, denials(*item->schema, flat));
  return std::optional<Ways>(std::move(ways));
}

// Those of the first member of which something depends, and which was not dealt with.
Result<std::optional<SchemaCompiler::Ways>> SchemaCompiler::dependent_of(Item* item) const {
  int skip = item->done / kDependents;
  for (std::string_view keyword : kDependentKeywords) {
    const Node* all = document_.member(*item->schema, keyword);
    if (!all) continue;
    if (all->kind != Kind::kObject) return invalid(*all, "%s is an object", std::string(keyword).c_str());
    for (const Node& one : document_.children(*all)) {
      if (skip-- > 0) continue;
      item->done += kDependents;
      KVRT_ASSIGN(Ways ways, dependent(one, *item->schema));
      return std::optional<Ways>(std::move(ways));
    }
  }
  return std::optional<Ways>();
}

// The ways of an item's choice of this kind; none: it has no such choice, or none that is left.
Result<std::optional<SchemaCompiler::Ways>> SchemaCompiler::choice_of(Item* item, int kind, const Flat& flat) const {
  if (kind == kDenial) return denial_of(item, flat);
  const Node& schema = *item->schema;
  if (item->what != What::kSchema || only_ref(schema)) return std::optional<Ways>();
  if (kind == kDependents) return dependent_of(item);
  const Node* keyword = document_.member(schema, kind == kOneOf ? "oneOf" : kind == kAnyOf ? "anyOf" : "if");
  if (!keyword || (item->done & kind)) return std::optional<Ways>();
  item->done |= kind;
  Ways ways;
  if (kind == kOneOf) {
    KVRT_ASSIGN(ways, one_of(*keyword));
  } else if (kind == kIf) {
    KVRT_ASSIGN(ways, conditional(schema, flat));
  } else {
    KVRT_ASSIGN(const auto branches, schemas(*keyword));
    for (const Node* branch : branches) ways.push_back({{branch}});
  }
  return std::optional<Ways>(std::move(ways));
}

// The ways of the first choice that is left, without those that contradict the rest; none: no choice is left. First those that say what a
// value is, then what it is not: the former leave less of the latter.
Result<std::optional<SchemaCompiler::Ways>> SchemaCompiler::next_choice(Flat* flat) {
  std::optional<Ways> ways;
  constexpr int kOrder[] = {kOneOf, kAnyOf, kIf, kDependents, kDenial};
  for (const int kind : kOrder) {
    for (size_t i = 0; i < flat->items.size() && !ways; ++i) {
      KVRT_ASSIGN(ways, choice_of(&flat->items[i], kind, *flat));
    }
    if (ways) break;
  }
  if (!ways) return ways;
  Ways left;
  for (All& way : *ways) {
    if (leaves_out(way)) continue;
    All all = flat->items;
    all.insert(all.end(), way.begin(), way.end());
    KVRT_ASSIGN(const bool may, possible(all, 0));
    if (may) left.push_back(std::move(way));
  }
  return std::optional<Ways>(std::move(left));
}

// Each branch without the others, where it may fit together with them.
Result<SchemaCompiler::Ways> SchemaCompiler::one_of(const Node& list) const {
  KVRT_ASSIGN(const auto branch, schemas(list));
  if (branch.size() > kSchemaBranchesMax) {
    return limit(list, std::to_string(branch.size()) + " branches, the limit is " + std::to_string(kSchemaBranchesMax));
  }
  Ways ways;
  for (const Node* schema : branch) ways.push_back({{schema}});
  for (size_t i = 0; i < branch.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      KVRT_ASSIGN(const bool apart, disjoint({{branch[i]}}, {{branch[j]}}, 0));
      if (apart) continue;
      ways[i].push_back({branch[j], What::kNot});
      ways[j].push_back({branch[i], What::kNot});
    }
  }
  return ways;
}

Result<SchemaCompiler::Ways> SchemaCompiler::conditional(const Node& schema, const Flat& flat) const {
  const Node* condition = document_.member(schema, "if");
  Ways ways{{{condition}}, {{condition, What::kNot}}};
  if (const Node* then = document_.member(schema, "then")) ways[0].push_back({then});
  if (const Node* otherwise = document_.member(schema, "else")) ways[1].push_back({otherwise});
  if (ways[0].size() + ways[1].size() > 2) return ways;
  // By itself it asks for nothing. But what it evaluates is no longer unevaluated, where it holds.
  const bool evaluates = std::any_of(flat.items.begin(), flat.items.end(), [&](const Item& item) {
    return item.what == What::kSchema &&
           (document_.member(*item.schema, "unevaluatedItems") || document_.member(*item.schema, "unevaluatedProperties"));
  });
  return evaluates ? Ways{{{condition}}, {}} : Ways{{}};
}

// One member of dependencies, dependentRequired or dependentSchemas.
Result<SchemaCompiler::Ways> SchemaCompiler::dependent(const Node& dependency, const Node& schema) const {
  const std::string_view name = document_.key(dependency);
  Ways ways{{{&schema, What::kLacks, 0, nullptr, name}}, {{&schema, What::kHas, 0, nullptr, name}}};
  if (dependency.kind != Kind::kArray && dependency.kind != Kind::kString) {
    ways[1].push_back({&dependency});
    return ways;
  }
  if (dependency.kind == Kind::kString) {  // as in draft 3
    ways[1].push_back({&schema, What::kHas, 0, nullptr, document_.text(dependency)});
    return ways;
  }
  for (const Node& needed : document_.children(dependency)) {
    if (needed.kind != Kind::kString) return invalid(needed, "a list of names");
    ways[1].push_back({&schema, What::kHas, 0, nullptr, document_.text(needed)});
  }
  return ways;
}

// The ways in which a value does not fit a schema: one for each assertion; kLeftOut where not all can be followed.
Result<SchemaCompiler::Ways> SchemaCompiler::denials(const Node& schema, const Flat& flat) const {
  Ways ways;
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Node* ref = document_.member(schema, keyword);
    if (!ref) continue;
    KVRT_ASSIGN(const Node* to, target(*ref));
    ways.push_back({{to, What::kNot}});
    if (only_ref(schema)) return ways;
  }
  for (const Node& keyword : document_.children(schema)) KVRT_TRY(deny_keyword(schema, keyword, flat, &ways));
  return ways;
}

void SchemaCompiler::leave_denial_out(const Node& schema, const Node& keyword, Ways* ways) {
  ways->push_back({{&schema, What::kLeftOut, 0, &keyword}});
}

Status SchemaCompiler::deny_keyword(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const {
  using Deny = Status (SchemaCompiler::*)(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const;
  static constexpr std::pair<std::string_view, Deny> kDenials[] = {
      {"items", &SchemaCompiler::deny_items},
      {"required", &SchemaCompiler::deny_required},
      {"properties", &SchemaCompiler::deny_properties},
      {"additionalProperties", &SchemaCompiler::deny_others},
      {"patternProperties", &SchemaCompiler::deny_others},
      {"allOf", &SchemaCompiler::deny_all_of},
      {"anyOf", &SchemaCompiler::deny_any_of},
      {"oneOf", &SchemaCompiler::deny_any_of},
      {"not", &SchemaCompiler::deny_not},
      {"if", &SchemaCompiler::deny_if},
      {"dependentRequired", &SchemaCompiler::deny_dependents},
      {"dependentSchemas", &SchemaCompiler::deny_dependents},
  };
  const std::string_view name = document_.key(keyword);
  if (std::ranges::find(kAssertions, name) != std::end(kAssertions)) {
    const bool flag = keyword.kind == Kind::kBoolean && name.starts_with("exclusive");
    ways->push_back({{&schema, flag ? What::kLeftOut : What::kDenied, 0, &keyword}});
    return Status::ok();
  }
  const auto* denial = std::ranges::find(kDenials, name, &std::pair<std::string_view, Deny>::first);
  if (denial != std::end(kDenials)) return (this->*denial->second)(schema, keyword, flat, ways);
  if (types_about(name) || name == "contentSchema") leave_denial_out(schema, keyword, ways);
  return Status::ok();
}

Status SchemaCompiler::deny_items(const Node& schema, const Node& keyword, const Flat&, Ways* ways) const {
  ways->push_back({{&schema, keyword.kind == Kind::kArray ? What::kLeftOut : What::kDenied, 0, &keyword}});
  return Status::ok();
}

Status SchemaCompiler::deny_required(const Node& schema, const Node& keyword, const Flat&, Ways* ways) const {
  if (keyword.kind != Kind::kArray) return leave_denial_out(schema, keyword, ways), Status::ok();
  for (const Node& one : document_.children(keyword)) {
    ways->push_back({{&schema, What::kIsObject}, {&schema, What::kLacks, 0, nullptr, document_.text(one)}});
  }
  return Status::ok();
}

Status SchemaCompiler::deny_properties(const Node& schema, const Node& keyword, const Flat&, Ways* ways) const {
  if (keyword.kind != Kind::kObject) return leave_denial_out(schema, keyword, ways), Status::ok();
  for (const Node& one : document_.children(keyword)) ways->push_back({{&one, What::kMemberNot, 0, nullptr, document_.key(one)}});
  return Status::ok();
}

Status SchemaCompiler::deny_all_of(const Node&, const Node& keyword, const Flat&, Ways* ways) const {
  KVRT_ASSIGN(const auto parts, schemas(keyword));
  for (const Node* part : parts) ways->push_back({{part, What::kNot}});
  return Status::ok();
}

// None of the branches fits, or of oneOf's two do.
Status SchemaCompiler::deny_any_of(const Node& schema, const Node& keyword, const Flat&, Ways* ways) const {
  KVRT_ASSIGN(const auto parts, schemas(keyword));
  All none;
  for (const Node* part : parts) none.push_back({part, What::kNot});
  ways->push_back(std::move(none));
  if (document_.key(keyword) != "oneOf") return Status::ok();
  if (parts.size() > 8) return leave_denial_out(schema, keyword, ways), Status::ok();
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) ways->push_back({{parts[i]}, {parts[j]}});
  }
  return Status::ok();
}

Status SchemaCompiler::deny_not(const Node&, const Node& keyword, const Flat&, Ways* ways) const {
  ways->push_back({{&keyword}});
  return Status::ok();
}

Status SchemaCompiler::deny_if(const Node& schema, const Node& keyword, const Flat&, Ways* ways) const {
  const Node *then = document_.member(schema, "then"), *otherwise = document_.member(schema, "else");
  if (then) ways->push_back({{&keyword}, {then, What::kNot}});
  if (otherwise) ways->push_back({{&keyword, What::kNot}, {otherwise, What::kNot}});
  return Status::ok();
}

// The member is there, and what depends on it is not so.
Status SchemaCompiler::deny_dependents(const Node& schema, const Node& keyword, const Flat&, Ways* ways) const {
  const bool names = document_.key(keyword) == "dependentRequired";
  for (const Node& one : document_.children(keyword)) {
    const Item has{&schema, What::kHas, 0, nullptr, document_.key(one)};
    if (!names) {
      ways->push_back({has, {&one, What::kNot}});
      continue;
    }
    for (const Node& needed : document_.children(one)) ways->push_back({has, {&schema, What::kLacks, 0, nullptr, document_.text(needed)}});
  }
  return Status::ok();
}

// Members that are named elsewhere stand for all that a schema's patternProperties or additionalProperties may refuse.
Status SchemaCompiler::deny_others(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const {
  std::vector<std::string_view> names = required_names(flat);
  for (const Item& item : flat.items) {
    const Node* list = item.what == What::kSchema ? document_.member(*item.schema, "properties") : nullptr;
    if (!list) continue;
    for (const Node& one : document_.children(*list)) names.push_back(document_.key(one));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const Node *properties = document_.member(schema, "properties"), *patterns = document_.member(schema, "patternProperties");
  const bool others = document_.key(keyword) == "additionalProperties";
  leave_denial_out(schema, keyword, ways);
  for (std::string_view name : names) {
    bool other = !properties || !document_.member(*properties, name);
    if (patterns && patterns->kind == Kind::kObject) {
      for (const Node& pattern : document_.children(*patterns)) {
        KVRT_ASSIGN(const Regex* regex, regex_of(pattern));
        KVRT_ASSIGN(const auto found, found_in(*regex, name, pattern));
        other = other && found == Regex::Found::kNone;
        if (!others && found == Regex::Found::kEvery) ways->push_back({{&pattern, What::kMemberNot, 0, nullptr, name}});
      }
    }
    if (others && other) ways->push_back({{&keyword, What::kMemberNot, 0, nullptr, name}});
  }
  return Status::ok();
}

// False where types, constants or members show that no value fits all.
Result<bool> SchemaCompiler::possible(const All& all, uint32_t depth) const {
  KVRT_ASSIGN(const Flat flat, flatten(all));
  KVRT_TRY(look(document_.root(), flat.items.size() + 8));
  if (flat.nothing_fits) return false;
  KVRT_ASSIGN(const uint8_t types, types_of(flat, false));
  if (!types) return false;
  KVRT_ASSIGN(const auto values, constants(flat));
  if (values && std::none_of(values->begin(), values->end(), [&](const Node* v) { return type_of(*v) & types; })) return false;
  if (values && depth < 4) {
    bool any = false;
    for (size_t i = 0; i < values->size() && i < 64 && !any; ++i) {
      Fits all_fit = Fits::kYes;
      for (const Item& item : flat.items) {
        if (item.what == What::kSchema) continue;  // types and constants are compared above
        KVRT_ASSIGN(const Fits one, fits(*(*values)[i], item, 0));
        all_fit = std::min(all_fit, one);
      }
      any = all_fit != Fits::kNo;
    }
    if (!any && values->size() <= 64) return false;
  }
  if (types != kObject || depth > 4) return true;  // constants that tell branches apart lie near
  for (std::string_view name : required_names(flat)) {
    if (lacks(flat, name)) return false;
    KVRT_ASSIGN(const All schemas, schemas_of_member(flat, name));
    KVRT_ASSIGN(const bool may, possible(schemas, depth + 1));
    if (!may) return false;
  }
  return true;
}

Result<bool> SchemaCompiler::disjoint(const All& a, const All& b, uint32_t depth) const {
  All both = a;
  both.insert(both.end(), b.begin(), b.end());
  KVRT_ASSIGN(const bool may, possible(both, depth));
  return !may;
}

std::vector<std::string_view> SchemaCompiler::required_names(const Flat& flat) const {
  std::vector<std::string_view> names;
  for (const Item& item : flat.items) {
    if (item.what == What::kHas || item.what == What::kMemberNot) names.push_back(item.name);
    const Node* list = item.what == What::kSchema && !only_ref(*item.schema) ? document_.member(*item.schema, "required") : nullptr;
    if (!list || list->kind != Kind::kArray) continue;
    for (const Node& name : document_.children(*list)) {
      if (name.kind == Kind::kString) names.push_back(document_.text(name));
    }
  }
  return names;
}

}  // namespace kvrt
