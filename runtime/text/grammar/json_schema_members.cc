// What schemas say about one member.
#include <algorithm>
#include <set>

#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

// The schemas that one schema applies to the same value, without its not.
std::vector<const JsonDocument::Node*> SchemaCompiler::in_place(const Node& schema) const {
  std::vector<const Node*> out;
  for (const Node& keyword : document_.children(schema)) {
    const std::string_view name = document_.key(keyword);
    if (name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef") {
      const auto to = target(keyword);
      if (to.is_ok()) out.push_back(to.value());
    } else if (name == "if" || name == "then" || name == "else") {
      out.push_back(&keyword);
    } else if (name == "allOf" || name == "anyOf" || name == "oneOf" || name == "dependentSchemas" || name == "dependencies") {
      for (const Node& part : document_.children(keyword)) out.push_back(&part);
    }
  }
  return out;
}

// Of what applies to a value, the schemas that apply because `schema` does: what they evaluate is evaluated for its unevaluatedProperties.
std::vector<const JsonDocument::Node*> SchemaCompiler::applied_by(const Flat& flat, const Node& schema) const {
  std::vector<const Node*> out{&schema};
  for (size_t i = 0; i < out.size(); ++i) {
    for (const Node* s : in_place(*out[i])) {
      looked_at_ += flat.items.size() / 16 + 1;
      auto is_it = [&](const Item& item) { return item.what == What::kSchema && item.schema == s; };
      const bool applies = std::any_of(flat.items.begin(), flat.items.end(), is_it);
      if (applies && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    }
  }
  return out;
}

// Whether a schema may come to ask for itself, of the same value.
bool SchemaCompiler::asks_for_itself(const Node& schema) const {
  auto [known, fresh] = asks_for_itself_.try_emplace(&schema, false);
  if (!fresh) return known->second;
  std::set<const Node*> seen;
  std::vector<const Node*> open{&schema};
  while (!open.empty()) {
    const Node* at = open.back();
    open.pop_back();
    std::vector<const Node*> to = in_place(*at);
    if (const Node* denied = document_.member(*at, "not")) to.push_back(denied);
    looked_at_ += to.size();
    for (const Node* s : to) {
      if (s == &schema) return asks_for_itself_[&schema] = true;
      if (seen.insert(s).second) open.push_back(s);
    }
  }
  return false;
}

Result<bool> SchemaCompiler::evaluates(const Node& schema, const Node& by, std::string_view name) const {
  if (document_.member(schema, "additionalProperties") || (&schema != &by && document_.member(schema, "unevaluatedProperties")))
    return true;
  const Node *properties = document_.member(schema, "properties"), *patterns = document_.member(schema, "patternProperties");
  if (properties && document_.member(*properties, name)) return true;
  if (patterns && patterns->kind == Kind::kObject) {
    for (const Node& pattern : document_.children(*patterns)) {
      KVRT_ASSIGN(const Regex* regex, regex_of(pattern));
      KVRT_ASSIGN(const auto found, found_in(*regex, name, pattern));
      if (found == Regex::Found::kEvery) return true;
    }
  }
  return false;
}

// The schemas of a member's value: by each schema's properties and patternProperties, or else its additionalProperties.
Result<SchemaCompiler::All> SchemaCompiler::schemas_of_member(const Flat& flat, std::string_view name) const {
  All all;
  KVRT_TRY(look(about(flat), flat.items.size() / 4 + 1));
  for (const Item& item : flat.items) {
    if (item.what == What::kMemberNot && item.name == name) all.push_back({item.schema, What::kNot});
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    const Node* properties = document_.member(*item.schema, "properties");
    const Node* schema = properties ? document_.member(*properties, name) : nullptr;
    bool found = schema != nullptr;
    if (schema) all.push_back({schema});
    const Node* patterns = document_.member(*item.schema, "patternProperties");
    if (patterns && patterns->kind == Kind::kObject) {
      for (const Node& pattern : document_.children(*patterns)) {
        KVRT_ASSIGN(const Regex* regex, regex_of(pattern));
        KVRT_ASSIGN(const auto in, found_in(*regex, name, pattern));
        if (in == Regex::Found::kSome)
          return unsupported(pattern, "a pattern that engines read in different ways for a member of that name");
        if (in == Regex::Found::kEvery) all.push_back({&pattern}), found = true;
      }
    }
    if (found) continue;
    if (const Node* others = document_.member(*item.schema, "additionalProperties")) {
      all.push_back({others});
      continue;
    }
    const Node* rest = document_.member(*item.schema, "unevaluatedProperties");
    bool evaluated = !rest;
    for (const Node* by : rest ? applied_by(flat, *item.schema) : std::vector<const Node*>()) {
      KVRT_TRY(look(*rest, 1));
      KVRT_ASSIGN(const bool one, evaluates(*by, *item.schema, name));
      evaluated = evaluated || one;
    }
    if (!evaluated) all.push_back({rest});
  }
  return all;
}

bool SchemaCompiler::lacks(const Flat& flat, std::string_view name) const {
  return std::any_of(flat.items.begin(), flat.items.end(), [&](const Item& i) { return i.what == What::kLacks && i.name == name; });
}

bool SchemaCompiler::forbids(const All& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Item& i) { return i.what == What::kSchema && i.schema->kind == Kind::kBoolean && !i.schema->truth; });
}

}  // namespace kvrt
