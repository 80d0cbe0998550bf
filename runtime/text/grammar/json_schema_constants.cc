#include <algorithm>

#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

uint8_t SchemaCompiler::type_of(const Node& value) const {
  switch (value.kind) {
    case Kind::kNull:
      return kNull;
    case Kind::kBoolean:
      return kBoolean;
    case Kind::kString:
      return kString;
    case Kind::kArray:
      return kArray;
    case Kind::kObject:
      return kObject;
    case Kind::kNumber:
      break;
  }
  const auto number = Decimal::parse(document_.text(value));
  return number && number->is_integer() ? kInteger : kFraction;
}

// The values that enum and const leave; none where no schema has either.
Result<std::optional<std::vector<const JsonDocument::Node*>>> SchemaCompiler::constants(const Flat& flat) const {
  std::optional<std::vector<const Node*>> left;
  for (const Item& item : flat.items) {
    for (const char* keyword : {"const", "enum"}) {
      const Node* node = document_.member(*item.schema, keyword);
      if (!node) continue;
      std::vector<const Node*> values;
      if (std::string_view(keyword) == "const") {
        values.push_back(node);
      } else {
        if (node->kind != Kind::kArray || node->size == 0) return invalid(*node, "enum is a list of values, not empty");
        for (const Node& value : document_.children(*node)) values.push_back(&value);
      }
      if (left) {
        if (uint64_t{left->size()} * values.size() > kGrammarStatesMax) return unsupported(*node, "two long enums for one value");
        auto absent = [&](const Node* a) {
          return std::none_of(values.begin(), values.end(), [&](const Node* b) { return document_.equal(*a, *b); });
        };
        left->erase(std::remove_if(left->begin(), left->end(), absent), left->end());
      } else {
        left = std::move(values);
      }
    }
  }
  return left;
}

Result<SchemaCompiler::Part> SchemaCompiler::constants_part(const Flat& flat, const std::vector<const Node*>& values, uint8_t types) {
  std::vector<Part> parts;
  uint8_t kinds = 0;
  for (const Node* value : values) {
    const uint8_t type = type_of(*value);
    if (!(type & types)) continue;
    kinds |= type;
    parts.push_back(json_text(*value));
  }
  for (const Item& item : flat.items) {
    for (const Node& keyword : document_.children(*item.schema)) {
      const auto name = std::string(document_.key(keyword));
      if (types_about(name) & kinds) return unsupported(keyword, "enum or const together with " + name);
    }
  }
  return builder_.choice(parts);
}

SchemaCompiler::Part SchemaCompiler::json_text(const Node& value) {
  switch (value.kind) {
    case Kind::kNull:
      return builder_.literal("null");
    case Kind::kBoolean:
      return builder_.literal(value.truth ? "true" : "false");
    case Kind::kNumber:
      return builder_.literal(document_.text(value));
    case Kind::kString:
      return quoted(builder_.json_literal(document_.text(value)));
    case Kind::kArray:
    case Kind::kObject:
      break;
  }
  const bool object = value.kind == Kind::kObject;
  Part whole = builder_.literal(object ? "{" : "[");
  bool first = true;
  for (const Node& child : document_.children(value)) {
    if (!first) whole = builder_.sequence(whole, comma());
    if (object) {
      whole = builder_.sequence(whole, quoted(builder_.json_literal(document_.key(child))));
      whole = builder_.sequence(whole, colon());
    }
    whole = builder_.sequence(whole, json_text(child));
    first = false;
  }
  return builder_.sequence(whole, builder_.literal(object ? "}" : "]"));
}

// True where no value fits both, as far as types, constants and required members show it: by the standard's meaning, so that an answer
// that fits one is known not to fit the other.
Result<bool> SchemaCompiler::disjoint(const All& a, const All& b, uint32_t depth) const {
  if (depth > 4) return false;  // constants that tell branches apart lie near
  KVRT_ASSIGN(const Flat x, flatten(a));
  KVRT_ASSIGN(const Flat y, flatten(b));
  if (x.nothing_fits || y.nothing_fits) return true;
  KVRT_ASSIGN(const uint8_t x_types, types_of(x, false));
  KVRT_ASSIGN(const uint8_t y_types, types_of(y, false));
  if (!(x_types & y_types)) return true;
  KVRT_ASSIGN(const auto x_values, constants(x));
  KVRT_ASSIGN(const auto y_values, constants(y));
  auto none_of = [&](const std::vector<const Node*>& values, auto fits) { return std::none_of(values.begin(), values.end(), fits); };
  if (x_values && none_of(*x_values, [&](const Node* v) { return type_of(*v) & y_types; })) return true;
  if (y_values && none_of(*y_values, [&](const Node* v) { return type_of(*v) & x_types; })) return true;
  if (x_values && y_values) {
    if (uint64_t{x_values->size()} * y_values->size() > kGrammarRepeatsMax) return false;
    auto in_y = [&](const Node* v) { return !none_of(*y_values, [&](const Node* w) { return document_.equal(*v, *w); }); };
    return none_of(*x_values, in_y);
  }
  if ((x_types & y_types) != kObject) return false;
  for (const std::string& name : required_names(x)) {
    const auto others = required_names(y);
    const bool both = std::find(others.begin(), others.end(), name) != others.end();
    if (!both && !forbids(y, name)) continue;
    if (forbids(y, name)) return true;
    KVRT_ASSIGN(const bool apart, disjoint(schemas_of_member(x, name), schemas_of_member(y, name), depth + 1));
    if (apart) return true;
  }
  for (const std::string& name : required_names(y)) {
    if (forbids(x, name)) return true;
  }
  return false;
}

std::vector<std::string> SchemaCompiler::required_names(const Flat& flat) const {
  std::vector<std::string> names;
  for (const Item& item : flat.items) {
    const Node* list = document_.member(*item.schema, "required");
    if (!list || list->kind != Kind::kArray) continue;
    for (const Node& name : document_.children(*list)) {
      if (name.kind == Kind::kString) names.emplace_back(document_.text(name));
    }
  }
  return names;
}

// The schemas of a member's value, by each schema's properties or else its additionalProperties.
SchemaCompiler::All SchemaCompiler::schemas_of_member(const Flat& flat, std::string_view name) const {
  All all;
  for (const Item& item : flat.items) {
    const Node* properties = document_.member(*item.schema, "properties");
    const Node* schema = properties ? document_.member(*properties, name) : nullptr;
    if (!schema) schema = document_.member(*item.schema, "additionalProperties");
    if (schema) all.push_back({schema});
  }
  return all;
}

bool SchemaCompiler::forbids(const Flat& flat, std::string_view name) const {
  const All all = schemas_of_member(flat, name);
  return std::any_of(all.begin(), all.end(), [](const Item& i) { return i.schema->kind == Kind::kBoolean && !i.schema->truth; });
}

}  // namespace kvrt
