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
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
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

// Those of them that all items let pass.
Result<SchemaCompiler::Part> SchemaCompiler::constants_part(const Flat& flat, const std::vector<const Node*>& values) {
  struct Check {
    const Item* item;
    const Node* keyword;  // of a schema
  };
  std::vector<Check> checks;
  for (const Item& item : flat.items) {
    if (item.what != What::kSchema) checks.push_back({&item, item.schema});
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    for (const Node& keyword : document_.children(*item.schema)) {
      const std::string_view name = document_.key(keyword);
      const bool known = name == "enum" || name == "const" || name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef" ||
                         name == "allOf" || name == "not";  // among the items
      if (!known) checks.push_back({&item, &keyword});
    }
  }
  std::vector<Part> parts;
  for (const Node* value : values) {
    Fits all = Fits::kYes;
    const Node* doubt = nullptr;
    for (const Check& check : checks) {
      const bool schema = check.item->what == What::kSchema;
      KVRT_ASSIGN(const Fits one, schema ? fits_keyword(*value, *check.item->schema, *check.keyword, 0) : fits(*value, *check.item, 0));
      all = std::min(all, one);
      if (one == Fits::kUnknown) doubt = check.keyword;
    }
    if (all == Fits::kNo) continue;
    if (all == Fits::kUnknown) return unsupported(*doubt, "enum or const together with " + std::string(document_.key(*doubt)));
    KVRT_ASSIGN(const Part part, json_text(*value));
    parts.push_back(part);
  }
  return builder_.choice(parts);
}

Result<SchemaCompiler::Part> SchemaCompiler::json_text(const Node& value) {
  switch (value.kind) {
    case Kind::kNull:
      return builder_.literal("null");
    case Kind::kBoolean:
      return builder_.literal(value.truth ? "true" : "false");
    case Kind::kNumber:
      return builder_.literal(document_.text(value));
    case Kind::kString:
      return quoted(builder_.json_literal(document_.text(value)));
    case Kind::kObject:
      return object_text(value);
    case Kind::kArray:
      break;
  }
  Part whole = builder_.literal("[");
  bool first = true;
  for (const Node& child : document_.children(value)) {
    whole = builder_.sequence(whole, first ? builder_.call(space_rule()) : comma());
    KVRT_ASSIGN(const Part item, json_text(child));
    whole = builder_.sequence(whole, item);
    first = false;
  }
  if (!first) whole = builder_.sequence(whole, builder_.call(space_rule()));
  return builder_.sequence(whole, builder_.literal("]"));
}

// Members in any order: a node for each set of those that have come.
Result<SchemaCompiler::Part> SchemaCompiler::object_text(const Node& value) {
  if (value.size > kSchemaOrdersMax)
    return unsupported(value, "a constant object of more than " + std::to_string(kSchemaOrdersMax) + " members");
  const Part open = builder_.literal("{");
  if (value.size == 0) return builder_.sequence(open, builder_.literal("}"));
  std::vector<uint32_t> rules;
  for (const Node& child : document_.children(value)) {
    rules.push_back(builder_.add_rule("a constant's member"));
    Part one = builder_.sequence(quoted(builder_.json_literal(document_.key(child))), colon());
    KVRT_ASSIGN(const Part inside, json_text(child));
    one = builder_.sequence(one, inside);
    KVRT_TRY(builder_.status());
    builder_.define(rules.back(), one);
  }
  std::vector<uint32_t> came;
  for (uint32_t set = 0; set < 1u << rules.size(); ++set) came.push_back(builder_.join());
  for (uint32_t set = 0; set + 1 < came.size(); ++set) {
    const Part before = set == 0 ? builder_.call(space_rule()) : comma();
    std::vector<uint32_t> ways;
    for (size_t i = 0; i < rules.size(); ++i) {
      if (set >> i & 1) continue;
      const Part one = builder_.call(rules[i]);
      builder_.link(one.out, came[set | 1u << i]);
      ways.push_back(one.in);
    }
    builder_.link(came[set], before.in);
    builder_.link(before.out, ways);
  }
  builder_.link(open.out, came[0]);
  Part close = builder_.call(space_rule());
  close = builder_.sequence(close, builder_.literal("}"));
  builder_.link(came.back(), close.in);
  return Part{open.first, open.in, close.out};
}

}  // namespace kvrt
