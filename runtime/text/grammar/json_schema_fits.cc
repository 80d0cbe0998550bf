// Whether a value that is known fits a schema: so enum and const go with every other keyword.
#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

uint32_t characters_of(std::string_view utf8) {
  return static_cast<uint32_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

#define KVRT_FITS_IF(condition) ((condition) ? Fits::kYes : Fits::kNo)

Result<SchemaCompiler::Fits> SchemaCompiler::fits(const Node& value, const Item& item, uint32_t depth) const {
  auto opposite = [](Fits f) { return f == Fits::kUnknown ? f : KVRT_FITS_IF(f == Fits::kNo); };
  const bool object = value.kind == Kind::kObject;
  const Node* member = object ? document_.member(value, item.name) : nullptr;
  Fits f = Fits::kNo;
  switch (item.what) {
    case What::kSchema:
      return fits_schema(value, *item.schema, depth);
    case What::kNot: {
      KVRT_ASSIGN(f, fits_schema(value, *item.schema, depth));
      return opposite(f);
    }
    case What::kDenied: {
      KVRT_ASSIGN(f, fits_keyword(value, *item.schema, *item.part, depth));
      return opposite(f);
    }
    case What::kIsObject:
      return KVRT_FITS_IF(object);
    case What::kHas:
      return KVRT_FITS_IF(member);
    case What::kLacks:
      return KVRT_FITS_IF(!member);
    case What::kLeftOut:
      return Fits::kUnknown;
    case What::kMemberNot:
      break;
  }
  if (!member) return Fits::kNo;
  KVRT_ASSIGN(f, fits_schema(*member, *item.schema, depth));
  return opposite(f);
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_schema(const Node& value, const Node& schema, uint32_t depth) const {
  if (schema.kind == Kind::kBoolean) return KVRT_FITS_IF(schema.truth);
  if (schema.kind != Kind::kObject) return invalid(schema, "a schema is an object, true or false");
  if (depth > kGrammarDepthMax) return Fits::kUnknown;
  Fits all = Fits::kYes;
  for (const Node& keyword : document_.children(schema)) {
    if (only_ref(schema) && document_.key(keyword) != "$ref") continue;
    KVRT_ASSIGN(const Fits one, fits_keyword(value, schema, keyword, depth + 1));
    all = std::min(all, one);
    if (all == Fits::kNo) break;
  }
  return all;
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_keyword(const Node& value, const Node& schema, const Node& keyword,
                                                          uint32_t depth) const {
  const std::string_view name = document_.key(keyword);
  KVRT_TRY(look(keyword, 1));
  if (name == "type") {
    KVRT_ASSIGN(const uint8_t types, types_named(keyword));
    const uint8_t type = type_of(value);
    const bool spelled = type == kInteger && document_.text(value).find_first_of(".eE") != std::string_view::npos;
    if (spelled && (types & kNumber) == kInteger) return Fits::kUnknown;  // drafts differ
    return KVRT_FITS_IF(type & types);
  }
  if (name == "const") return KVRT_FITS_IF(equal(value, keyword));
  if (name == "enum") {
    for (const Node& one : document_.children(keyword)) {
      if (equal(value, one)) return Fits::kYes;
    }
    return Fits::kNo;
  }
  if (name.starts_with("unevaluated")) return Fits::kUnknown;
  const uint8_t about = types_about(name);
  if (!about) return fits_applicator(value, schema, keyword, depth);
  if (!(about & type_of(value))) return Fits::kYes;
  if (about == kNumber) return fits_number(value, schema, keyword);
  if (about == kArray) return fits_array(value, schema, keyword, depth);
  if (about == kObject) return fits_object(value, schema, keyword, depth);
  return fits_text(value, keyword);
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_text(const Node& value, const Node& keyword) const {
  const std::string_view name = document_.key(keyword), text = document_.text(value);
  if (name == "pattern") {
    KVRT_ASSIGN(const Regex* regex, regex_of(keyword));
    KVRT_ASSIGN(const auto found, found_in(*regex, text, keyword));
    return found == Regex::Found::kSome ? Fits::kUnknown : KVRT_FITS_IF(found == Regex::Found::kEvery);
  }
  if (name == "format") {
    KVRT_ASSIGN(const Regex* every, format_regex(keyword, false));
    KVRT_ASSIGN(const Regex* some, format_regex(keyword, true));
    if (!some) return Fits::kYes;
    KVRT_ASSIGN(const auto some_found, found_in(*some, text, keyword));
    if (some_found == Regex::Found::kNone) return Fits::kNo;
    if (!every) return Fits::kUnknown;
    KVRT_ASSIGN(const auto every_found, found_in(*every, text, keyword));
    return every_found == Regex::Found::kEvery ? Fits::kYes : Fits::kUnknown;
  }
  KVRT_ASSIGN(const auto length, count(keyword));
  return KVRT_FITS_IF(name == "minLength" ? characters_of(text) >= *length : characters_of(text) <= *length);
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_number(const Node& value, const Node& schema, const Node& keyword) const {
  const auto number = Decimal::parse(document_.text(value));
  const std::string name(document_.key(keyword));
  const Node* flag = name == "minimum" || name == "maximum"
                         ? document_.member(schema, name == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum")
                         : nullptr;
  if (keyword.kind == Kind::kBoolean) return Fits::kYes;  // draft 4: with minimum or maximum
  if (keyword.kind != Kind::kNumber) return invalid(keyword, "%s is a number", name.c_str());
  const auto bound = Decimal::parse(document_.text(keyword));
  if (!number || !bound) return Fits::kUnknown;
  if (name == "multipleOf") {
    const auto multiple = is_multiple(*number, *bound);
    return multiple ? KVRT_FITS_IF(*multiple) : Fits::kUnknown;
  }
  const int c = compare(*number, *bound);
  const bool exclusive = name.starts_with("exclusive") || (flag && flag->kind == Kind::kBoolean && flag->truth);
  return KVRT_FITS_IF((c == 0 && !exclusive) || (name.ends_with("inimum") ? c > 0 : c < 0));
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_unique(const Node& value, const Node& keyword) const {
  if (keyword.kind == Kind::kBoolean && !keyword.truth) return Fits::kYes;
  for (const Node& a : document_.children(value)) {
    for (const Node& b : document_.children(value)) {
      if (&a != &b && equal(a, b)) return Fits::kNo;
    }
    KVRT_TRY(look(keyword, 0));
  }
  return Fits::kYes;
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_array(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const {
  const std::string_view name = document_.key(keyword);
  if (name == "minItems" || name == "maxItems") {
    KVRT_ASSIGN(const auto bound, count(keyword));
    return KVRT_FITS_IF(name == "minItems" ? value.size >= *bound : value.size <= *bound);
  }
  if (name == "uniqueItems") return fits_unique(value, keyword);
  if (name == "contains" && (document_.member(schema, "minContains") || document_.member(schema, "maxContains"))) return Fits::kUnknown;
  return fits_items(value, schema, keyword, depth);
}

// By prefixItems, items, additionalItems or contains: each item by the schema that applies to it.
Result<SchemaCompiler::Fits> SchemaCompiler::fits_items(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const {
  const std::string_view name = document_.key(keyword);
  const Node *prefix = document_.member(schema, "prefixItems"), *items = document_.member(schema, "items");
  if (!prefix && items && items->kind == Kind::kArray) prefix = items;
  std::vector<const Node*> leading;
  if (prefix && prefix->kind == Kind::kArray) {
    for (const Node& one : document_.children(*prefix)) leading.push_back(&one);
  }
  Fits all = Fits::kYes, any = Fits::kNo;
  size_t index = 0;
  for (const Node& item : document_.children(value)) {
    const bool in_prefix = index < leading.size();
    const Node* applies = &keyword;
    if (name != "contains") {
      const bool is_list = &keyword == prefix;
      if (is_list != in_prefix) applies = nullptr;
      if (name == "additionalItems" && (!items || items->kind != Kind::kArray)) applies = nullptr;
      if (is_list && in_prefix) applies = leading[index];
    }
    ++index;
    if (!applies) continue;
    KVRT_ASSIGN(const Fits one, fits_schema(item, *applies, depth));
    all = std::min(all, one);
    any = std::max(any, one);
  }
  return name == "contains" ? any : all;
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_object(const Node& value, const Node& schema, const Node& keyword, uint32_t depth) const {
  const std::string_view name = document_.key(keyword);
  if (name == "propertyNames") return value.size == 0 ? Fits::kYes : Fits::kUnknown;
  if (name == "minProperties" || name == "maxProperties") {
    KVRT_ASSIGN(const auto bound, count(keyword));
    return KVRT_FITS_IF(name == "minProperties" ? value.size >= *bound : value.size <= *bound);
  }
  if (name == "required") {
    for (const Node& one : document_.children(keyword)) {
      if (one.kind == Kind::kString && !document_.member(value, document_.text(one))) return Fits::kNo;
    }
    return Fits::kYes;
  }
  if (name.starts_with("depend")) return fits_dependents(value, schema, keyword, depth);
  Fits all = Fits::kYes;
  for (const Node& member : document_.children(value)) {
    KVRT_ASSIGN(const std::optional<Fits> one, fits_member(member, schema, keyword, depth));
    if (!one) return Fits::kUnknown;
    all = std::min(all, *one);
  }
  return all;
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_dependents(const Node& value, const Node& schema, const Node& keyword,
                                                             uint32_t depth) const {
  Fits all = Fits::kYes;
  for (const Node& one : document_.children(keyword)) {
    KVRT_ASSIGN(const Ways ways, dependent(one, schema));
    if (!document_.member(value, document_.key(one))) continue;
    for (const Item& item : ways.back()) {
      KVRT_ASSIGN(const Fits f, fits(value, item, depth));
      all = std::min(all, f);
    }
  }
  return all;
}

// By properties, patternProperties or additionalProperties: all of this keyword's schemas that apply to the member. None: a pattern may match
// its name.
Result<std::optional<SchemaCompiler::Fits>> SchemaCompiler::fits_member(const Node& member, const Node& schema, const Node& keyword,
                                                                        uint32_t depth) const {
  const Node *properties = document_.member(schema, "properties"), *patterns = document_.member(schema, "patternProperties");
  const std::string_view key = document_.key(member);
  const Node* listed = properties ? document_.member(*properties, key) : nullptr;
  bool matched = listed != nullptr;
  std::vector<const Node*> apply;
  if (listed && &keyword == properties) apply.push_back(listed);
  if (patterns && &keyword != properties) {
    for (const Node& pattern : document_.children(*patterns)) {
      KVRT_ASSIGN(const Regex* regex, regex_of(pattern));
      KVRT_ASSIGN(const auto found, found_in(*regex, key, pattern));
      if (found == Regex::Found::kSome) return std::optional<Fits>();
      if (found == Regex::Found::kNone) continue;
      matched = true;
      if (&keyword == patterns) apply.push_back(&pattern);
    }
  }
  if (!matched && document_.key(keyword) == "additionalProperties") apply.push_back(&keyword);
  Fits all = Fits::kYes;
  for (const Node* one : apply) {
    KVRT_ASSIGN(const Fits f, fits_schema(member, *one, depth));
    all = std::min(all, f);
  }
  return std::optional<Fits>(all);
}

Result<SchemaCompiler::Fits> SchemaCompiler::fits_applicator(const Node& value, const Node& schema, const Node& keyword,
                                                             uint32_t depth) const {
  const std::string_view name = document_.key(keyword);
  auto opposite = [](Fits f) { return f == Fits::kUnknown ? f : KVRT_FITS_IF(f == Fits::kNo); };
  if (name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef") {
    KVRT_ASSIGN(const Node* to, target(keyword));
    return fits_schema(value, *to, depth);
  }
  if (name == "not") {
    KVRT_ASSIGN(const Fits f, fits_schema(value, keyword, depth));
    return opposite(f);
  }
  if (name == "if") {
    KVRT_ASSIGN(const Fits condition, fits_schema(value, keyword, depth));
    if (condition == Fits::kUnknown) return condition;
    const Node* then = document_.member(schema, condition == Fits::kYes ? "then" : "else");
    return then ? fits_schema(value, *then, depth) : Result<Fits>(Fits::kYes);
  }
  if (name != "allOf" && name != "anyOf" && name != "oneOf") return Fits::kYes;
  KVRT_ASSIGN(const auto parts, schemas(keyword));
  Fits all = Fits::kYes, any = Fits::kNo;
  size_t yes = 0, unknown = 0;
  for (const Node* part : parts) {
    KVRT_ASSIGN(const Fits f, fits_schema(value, *part, depth));
    all = std::min(all, f);
    any = std::max(any, f);
    yes += f == Fits::kYes;
    unknown += f == Fits::kUnknown;
  }
  if (name == "allOf") return all;
  if (name == "anyOf") return any;
  if (yes > 1 || (yes == 0 && unknown == 0)) return Fits::kNo;
  return unknown ? Fits::kUnknown : Fits::kYes;
}

}  // namespace kvrt
