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
      KVRT_TRY(look(*node, values.size() / 8));
      if (left) {
        auto absent = [&](const Node* a) {
          if (looked_at_ > kSchemaChoicesMax) return true;
          return std::none_of(values.begin(), values.end(), [&](const Node* b) { return equal(*a, *b); });
        };
        left->erase(std::remove_if(left->begin(), left->end(), absent), left->end());
        KVRT_TRY(look(*node, 0));
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
    if (!reads_back(*value)) {
      leave_out(*value, "a constant that a call's reader would not read as it is");
      continue;
    }
    KVRT_ASSIGN(const Part part, constant_text(*value));
    parts.push_back(part);
  }
  return builder_.choice(parts);
}

Result<SchemaCompiler::Part> SchemaCompiler::constant_text(const Node& value) {
  const ValueSpelling& s = spelling();
  const uint8_t type = type_of(value);
  const std::string_view text = document_.text(value);
  switch (value.kind) {
    case Kind::kNull:
      return typed(type, word(s.null, s.other_null));
    case Kind::kBoolean:
      return typed(type, value.truth ? word(s.yes, s.other_yes) : word(s.no, s.other_no));
    case Kind::kNumber:
      return typed(type, builder_.literal(text));
    case Kind::kString: {
      std::vector<Part> ways;
      for (StringForm form : string_forms(text))
        ways.push_back(string_in(s.text == ValueSpelling::Text::kRaw ? builder_.literal(text) : builder_.json_literal(text), form));
      return typed(type, builder_.choice(ways));
    }
    case Kind::kArray:
    case Kind::kObject:
      break;
  }
  KVRT_ASSIGN(const Part part, structure(type, [&] { return value.kind == Kind::kArray ? array_text(value) : object_text(value); }));
  return typed(type, part);
}

Result<SchemaCompiler::Part> SchemaCompiler::array_text(const Node& value) {
  Part whole = mark(spelling().array);
  bool first = true;
  for (const Node& child : document_.children(value)) {
    whole = builder_.sequence(whole, first ? space() : comma());
    KVRT_ASSIGN(const Part one, within(item_place(), [&] { return constant_text(child); }));
    whole = builder_.sequence(whole, item_of(one));
    first = false;
  }
  if (!first) whole = builder_.sequence(whole, space());
  return builder_.sequence(whole, mark(spelling().array_end));
}

// Members in any order: a node for each set of those that have come.
Result<SchemaCompiler::Part> SchemaCompiler::object_text(const Node& value) {
  if (value.size > kSchemaOrdersMax)
    return unsupported(value, "a constant object of more than " + std::to_string(kSchemaOrdersMax) + " members");
  const Part open = mark(spelling().object);
  if (value.size == 0) return builder_.sequence(open, mark(spelling().object_end));
  std::vector<uint32_t> rules;
  for (const Node& child : document_.children(value)) {
    rules.push_back(builder_.add_rule("a constant's member"));
    const std::string_view name = document_.key(child);
    KVRT_TRY(check_name(name, child));
    Part one = member_name(name);
    KVRT_ASSIGN(const Part inside, within(member_place(name), [&] { return constant_text(child); }));
    one = ended(builder_.sequence(one, inside), name);
    KVRT_TRY(builder_.status());
    builder_.define(rules.back(), one);
  }
  std::vector<uint32_t> came;
  for (uint32_t set = 0; set < 1u << rules.size(); ++set) came.push_back(builder_.join());
  for (uint32_t set = 0; set + 1 < came.size(); ++set) {
    const Part before = set == 0 ? space() : comma();
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
  Part close = space();
  close = builder_.sequence(close, mark(spelling().object_end));
  builder_.link(came.back(), close.in);
  return Part{open.first, open.in, close.out};
}

}  // namespace kvrt
