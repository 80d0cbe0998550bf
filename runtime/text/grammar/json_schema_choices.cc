// Choices, and what denies a schema. By the standard's meaning: a value that fits one way of a choice fits it, whatever the grammar narrows.
#include <algorithm>

#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

constexpr std::string_view kDependentKeywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};

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

// The ways of the first choice that is left, without those that contradict the rest; none: no choice is left. First those that say what a
// value is, then what it is not: the former leave less of the latter.
Result<std::optional<SchemaCompiler::Ways>> SchemaCompiler::next_choice(Flat* flat) {
  std::optional<Ways> ways;
  constexpr int kOrder[] = {kOneOf, kAnyOf, kIf, kDependents, kDenial};
  for (const int bit : kOrder) {
    for (size_t i = 0; i < flat->items.size() && !ways; ++i) {
      Item& item = flat->items[i];
      const Node& schema = *item.schema;
      if (bit == kDenial) {
        if (item.what != What::kNot || (item.done & kDenial)) continue;
        item.done |= kDenial;
        // What the rest says may deny the schema already. Denials that were dealt with are no part of it: they hold because this one does.
        All with = flat->items;
        std::erase_if(with, [](const Item& other) { return other.what == What::kNot && (other.done & kDenial); });
        with.push_back({&schema});
        KVRT_ASSIGN(const bool may_fit, possible(with, 0));
        if (!may_fit) continue;
        KVRT_ASSIGN(ways, denials(schema, *flat));
        continue;
      }
      if (item.what != What::kSchema || only_ref(schema) || (bit != kDependents && (item.done & bit))) continue;
      if (bit == kDependents) {
        int skip = item.done / kDependents;
        for (std::string_view keyword : kDependentKeywords) {
          const Node* all = document_.member(schema, keyword);
          if (!all || ways) continue;
          if (all->kind != Kind::kObject) return invalid(*all, "%s is an object", std::string(keyword).c_str());
          for (const Node& one : document_.children(*all)) {
            if (ways) break;
            if (skip-- > 0) continue;
            item.done += kDependents;
            KVRT_ASSIGN(ways, dependent(one, schema));
          }
        }
        continue;
      }
      const Node* keyword = document_.member(schema, bit == kOneOf ? "oneOf" : bit == kAnyOf ? "anyOf" : "if");
      if (!keyword) continue;
      item.done |= bit;
      if (bit == kOneOf) {
        KVRT_ASSIGN(ways, one_of(*keyword));
      } else if (bit == kIf) {
        KVRT_ASSIGN(ways, conditional(schema, *flat));
      } else {
        KVRT_ASSIGN(const auto branches, schemas(*keyword));
        ways.emplace();
        for (const Node* branch : branches) ways->push_back({{branch}});
      }
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
Result<SchemaCompiler::Ways> SchemaCompiler::one_of(const Node& list) {
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

Status SchemaCompiler::deny_keyword(const Node& schema, const Node& keyword, const Flat& flat, Ways* ways) const {
  const std::string_view name = document_.key(keyword);
  auto denied = [&](const Node& part) { ways->push_back({{&schema, What::kDenied, 0, &part}}); };
  auto left_out = [&] { ways->push_back({{&schema, What::kLeftOut, 0, &keyword}}); };
  auto is = [&](std::initializer_list<std::string_view> names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (is({"type", "enum", "const", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "minimum",
          "maximum", "exclusiveMinimum", "exclusiveMaximum", "format", "multipleOf"})) {
    if (keyword.kind == Kind::kBoolean && name.starts_with("exclusive")) return left_out(), Status::ok();
    denied(keyword);
  } else if (name == "items" && keyword.kind != Kind::kArray) {
    denied(keyword);
  } else if (name == "required" && keyword.kind == Kind::kArray) {
    for (const Node& one : document_.children(keyword)) {
      ways->push_back({{&schema, What::kIsObject}, {&schema, What::kLacks, 0, nullptr, document_.text(one)}});
    }
  } else if (name == "properties" && keyword.kind == Kind::kObject) {
    for (const Node& one : document_.children(keyword)) ways->push_back({{&one, What::kMemberNot, 0, nullptr, document_.key(one)}});
  } else if (name == "additionalProperties" || name == "patternProperties") {
    return deny_others(schema, keyword, flat, ways);
  } else if (name == "allOf") {
    KVRT_ASSIGN(const auto parts, schemas(keyword));
    for (const Node* part : parts) ways->push_back({{part, What::kNot}});
  } else if (name == "anyOf" || name == "oneOf") {
    KVRT_ASSIGN(const auto parts, schemas(keyword));
    All none;
    for (const Node* part : parts) none.push_back({part, What::kNot});
    ways->push_back(std::move(none));
    if (name == "oneOf" && parts.size() > 8) left_out();
    for (size_t i = 0; name == "oneOf" && parts.size() <= 8 && i < parts.size(); ++i) {
      for (size_t j = 0; j < i; ++j) ways->push_back({{parts[i]}, {parts[j]}});
    }
  } else if (name == "not") {
    ways->push_back({{&keyword}});
  } else if (name == "if") {
    const Node *then = document_.member(schema, "then"), *otherwise = document_.member(schema, "else");
    if (then) ways->push_back({{&keyword}, {then, What::kNot}});
    if (otherwise) ways->push_back({{&keyword, What::kNot}, {otherwise, What::kNot}});
  } else if (name == "dependentRequired" || name == "dependentSchemas") {
    for (const Node& one : document_.children(keyword)) {
      const Item has{&schema, What::kHas, 0, nullptr, document_.key(one)};
      if (name == "dependentSchemas") ways->push_back({has, {&one, What::kNot}});
      for (const Node& needed : document_.children(one)) {
        if (name == "dependentRequired") ways->push_back({has, {&schema, What::kLacks, 0, nullptr, document_.text(needed)}});
      }
    }
  } else if (types_about(name) || is({"contentSchema"})) {
    left_out();
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
  ways->push_back({{&schema, What::kLeftOut, 0, &keyword}});
  for (std::string_view name : names) {
    bool other = !properties || !document_.member(*properties, name);
    for (size_t i = 0; patterns && patterns->kind == Kind::kObject && i == 0; ++i) {
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
