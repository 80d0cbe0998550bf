#include "runtime/text/grammar/json_schema.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "runtime/base/numbers.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

namespace {

// Keywords that constrain and are not supported. If they passed without a word, an answer could be one that the schema refuses.
constexpr std::string_view kUnsupported[] = {"patternProperties",
                                             "propertyNames",
                                             "unevaluatedItems",
                                             "unevaluatedProperties",
                                             "if",
                                             "dependentRequired",
                                             "dependentSchemas",
                                             "dependencies",
                                             "contains",
                                             "not",
                                             "$dynamicRef",
                                             "$recursiveRef"};

}  // namespace

Status SchemaCompiler::invalid(const Node& at, const char* format, ...) const {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return error(Code::kInvalid, Detail::kGrammarError, "schema: %.200s: %s", document_.pointer(at).c_str(), what);
}

Status SchemaCompiler::unsupported(const Node& at, const std::string& what) const {
  return error(Code::kUnsupported, Detail::kNone, "schema: %.200s: %.200s is not supported", document_.pointer(at).c_str(), what.c_str());
}

uint32_t SchemaCompiler::rule_for(All all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  auto [at, fresh] = rules_.try_emplace(all, 0);
  if (fresh) {
    at->second = builder_.add_rule(all.empty() ? "any value" : document_.pointer(*all.front().schema));
    if (builder_.status().is_ok()) pending_.emplace_back(at->second, std::move(all));
  }
  return at->second;
}

Result<std::unique_ptr<const Automaton>> SchemaCompiler::compile() {
  rule_for({{&document_.root()}});  // the root is rule 0
  character_rule();
  space_rule();
  while (!pending_.empty()) {
    const auto [rule, all] = std::move(pending_.front());
    pending_.pop_front();
    KVRT_ASSIGN(const Flat flat, flatten(all));
    Part part = builder_.empty();
    KVRT_ASSIGN(const Part inside, value(flat));
    part = builder_.sequence(part, inside);
    KVRT_TRY(builder_.status());
    builder_.define(rule, part);
  }
  return builder_.build();
}

// Items that were followed before stay as they are: the schemas that they lead to are among them.
Result<SchemaCompiler::Flat> SchemaCompiler::flatten(const All& all) const {
  Flat flat;
  for (const Item& item : all) {
    if (item.done & kFollowed) flat.items.push_back(item);
  }
  const size_t before = flat.items.size();
  for (const Item& item : all) {
    std::vector<const Node*> path;
    if (!(item.done & kFollowed)) KVRT_TRY(follow(*item.schema, before, &path, &flat));
  }
  return flat;
}

Status SchemaCompiler::follow(const Node& schema, size_t before, std::vector<const Node*>* path, Flat* flat) const {
  if (schema.kind == Kind::kBoolean) {
    flat->nothing_fits = flat->nothing_fits || !schema.truth;
    return Status::ok();
  }
  if (schema.kind != Kind::kObject) return invalid(schema, "a schema is an object, true or false");
  if (std::find(path->begin(), path->end(), &schema) != path->end()) return invalid(schema, "a $ref that only leads back to itself");
  if (path->size() >= kGrammarDepthMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "schema: %.200s: $ref and allOf nested deeper than %u",
                 document_.pointer(schema).c_str(), kGrammarDepthMax);
  }
  for (size_t i = 0; i < flat->items.size(); ++i) {
    if (flat->items[i].schema != &schema) continue;
    // A branch that asks for the schema that it is a branch of would justify itself.
    if (i < before) return unsupported(schema, "a branch's $ref to a schema that applies to the same value already");
    return Status::ok();  // the same schema by two ways says nothing new
  }
  KVRT_TRY(check_keywords(schema));
  path->push_back(&schema);
  flat->items.push_back({&schema, kFollowed});
  if (const Node* ref = document_.member(schema, "$ref")) {
    KVRT_ASSIGN(const Node* to, target(*ref));
    KVRT_TRY(follow(*to, before, path, flat));
  }
  if (const Node* list = document_.member(schema, "allOf")) {
    KVRT_ASSIGN(const auto parts, schemas(*list));
    for (const Node* part : parts) KVRT_TRY(follow(*part, before, path, flat));
  }
  path->pop_back();
  return Status::ok();
}

Result<const JsonDocument::Node*> SchemaCompiler::target(const Node& ref) const {
  if (ref.kind != Kind::kString) return invalid(ref, "$ref is a string");
  const std::string_view text = document_.text(ref);
  if (text.empty() || text[0] != '#') return unsupported(ref, "a $ref to another document");
  if (text.size() > 1 && text[1] != '/') return unsupported(ref, "a $ref to an $anchor");
  std::string pointer;
  for (size_t i = 1; i < text.size(); ++i) {
    const std::string_view hex = text.substr(i + 1, 2);
    if (text[i] == '%' && hex.size() == 2 && hex.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos) {
      pointer += static_cast<char>(read_digits(hex, 16));
      i += 2;
    } else {
      pointer += text[i];
    }
  }
  const Node* found = document_.find(pointer);
  if (!found) return invalid(ref, "there is no %.150s", std::string(text).c_str());
  return found;
}

Status SchemaCompiler::check_keywords(const Node& schema) const {
  for (const Node& keyword : document_.children(schema)) {
    const std::string_view name = document_.key(keyword);
    if (std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported)) {
      return unsupported(keyword, std::string(name));
    }
    if (name == "uniqueItems" && !(keyword.kind == Kind::kBoolean && !keyword.truth)) return unsupported(keyword, "uniqueItems");
  }
  return Status::ok();
}

Result<std::vector<const JsonDocument::Node*>> SchemaCompiler::schemas(const Node& list) const {
  if (list.kind != Kind::kArray || list.size == 0) return invalid(list, "expected a list of schemas, not empty");
  std::vector<const Node*> out;
  for (const Node& schema : document_.children(list)) out.push_back(&schema);
  return out;
}

// The values that fit all items.
Result<SchemaCompiler::Part> SchemaCompiler::value(const Flat& flat) {
  if (flat.nothing_fits) return builder_.never();
  for (size_t i = 0; i < flat.items.size(); ++i) {
    const Item& item = flat.items[i];
    if (!(item.done & kAnyOfChosen) && document_.member(*item.schema, "anyOf")) return branches(flat, i, "anyOf", kAnyOfChosen);
    if (!(item.done & kOneOfChosen) && document_.member(*item.schema, "oneOf")) return branches(flat, i, "oneOf", kOneOfChosen);
  }
  KVRT_ASSIGN(const uint8_t explicit_types, types_of(flat, false));
  KVRT_ASSIGN(const auto values, constants(flat));
  if (values) return constants_part(flat, *values, explicit_types);
  KVRT_ASSIGN(const uint8_t types, types_of(flat, true));
  std::vector<Part> parts;
  if (types & kNull) parts.push_back(builder_.literal("null"));
  if (types & kBoolean) {
    parts.push_back(builder_.literal("true"));
    parts.push_back(builder_.literal("false"));
  }
  if (types & kNumber) {
    KVRT_ASSIGN(const Part part, number_value(flat, types));
    parts.push_back(part);
  }
  if (types & kString) {
    KVRT_ASSIGN(const Part part, string_value(flat));
    parts.push_back(part);
  }
  if (types & kArray) {
    KVRT_ASSIGN(const Part part, array_value(flat));
    parts.push_back(part);
  }
  if (types & kObject) {
    KVRT_ASSIGN(const Part part, object_value(flat));
    parts.push_back(part);
  }
  return builder_.choice(parts);
}

Result<SchemaCompiler::Part> SchemaCompiler::branches(const Flat& flat, size_t index, const char* keyword, int bit) {
  const Node& list = *document_.member(*flat.items[index].schema, keyword);
  KVRT_ASSIGN(const auto branch, schemas(list));
  if (bit == kOneOfChosen) {
    if (branch.size() > kSchemaBranchesMax) {
      return error(Code::kLimit, Detail::kGrammarLimit, "schema: %.200s: %zu branches, the limit is %u", document_.pointer(list).c_str(),
                   branch.size(), kSchemaBranchesMax);
    }
    for (size_t i = 0; i < branch.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        KVRT_ASSIGN(const bool apart, disjoint({{branch[i]}}, {{branch[j]}}, 0));
        if (!apart)
          return unsupported(*branch[i], "a oneOf branch that may fit together with branch " + std::to_string(j) + " (use anyOf)");
      }
    }
  }
  std::vector<Part> parts;
  for (const Node* schema : branch) {
    All all = flat.items;
    all[index].done |= bit;
    all.push_back({schema});
    parts.push_back(builder_.call(rule_for(std::move(all))));
    KVRT_TRY(builder_.status());
  }
  return builder_.choice(parts);
}

Result<uint8_t> SchemaCompiler::types_named(const Node& type) const {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {{"null", kNull},      {"boolean", kBoolean}, {"object", kObject},
                                                             {"array", kArray},    {"string", kString},   {"number", kNumber},
                                                             {"integer", kInteger}};
  if (type.kind == Kind::kString) {
    for (auto [name, bits] : kNames) {
      if (name == document_.text(type)) return bits;
    }
    return invalid(type, "there is no type \"%.100s\"", std::string(document_.text(type)).c_str());
  }
  if (type.kind != Kind::kArray || type.size == 0) return invalid(type, "type is a name or a list of names");
  uint8_t types = 0;
  for (const Node& one : document_.children(type)) {
    if (one.kind != Kind::kString) return invalid(type, "type is a name or a list of names");
    KVRT_ASSIGN(const uint8_t bits, types_named(one));
    types |= bits;
  }
  return types;
}

uint8_t SchemaCompiler::types_about(std::string_view keyword) {
  constexpr std::pair<uint8_t, std::string_view> kAbout[] = {
      {kObject, "properties"},    {kObject, "required"},         {kObject, "additionalProperties"},
      {kObject, "minProperties"}, {kObject, "maxProperties"},    {kArray, "items"},
      {kArray, "prefixItems"},    {kArray, "minItems"},          {kArray, "maxItems"},
      {kString, "minLength"},     {kString, "maxLength"},        {kString, "pattern"},
      {kString, "format"},        {kNumber, "minimum"},          {kNumber, "maximum"},
      {kNumber, "multipleOf"},    {kNumber, "exclusiveMinimum"}, {kNumber, "exclusiveMaximum"}};
  for (auto [types, name] : kAbout) {
    if (name == keyword) return types;
  }
  return 0;
}

// `implied`: where no schema names a type, those that the keywords are about.
Result<uint8_t> SchemaCompiler::types_of(const Flat& flat, bool implied) const {
  uint8_t types = kAnyType, about = 0;
  bool named = false;
  for (const Item& item : flat.items) {
    if (const Node* type = document_.member(*item.schema, "type")) {
      KVRT_ASSIGN(const uint8_t bits, types_named(*type));
      types &= bits;
      named = true;
    }
    for (const Node& keyword : document_.children(*item.schema)) about |= types_about(document_.key(keyword));
  }
  return implied && !named && about ? about : types;
}

Result<std::optional<uint32_t>> SchemaCompiler::count(const Flat& flat, const char* keyword, bool largest) const {
  std::optional<uint32_t> out;
  for (const Item& item : flat.items) {
    const Node* node = document_.member(*item.schema, keyword);
    if (!node) continue;
    const auto number = node->kind == Kind::kNumber ? Decimal::parse(document_.text(*node)) : std::nullopt;
    if (!number || number->negative || !number->is_integer()) return invalid(*node, "%s is a count", keyword);
    const std::string& digits = number->whole;
    const uint32_t value = digits.size() > 9 ? UINT32_MAX - 1 : static_cast<uint32_t>(read_digits(digits));
    out = !out ? value : largest ? std::max(*out, value) : std::min(*out, value);
  }
  return out;
}

Result<std::unique_ptr<const Automaton>> compile_json_schema(std::string_view schema) {
  KVRT_ASSIGN(JsonDocument document, JsonDocument::parse(schema, "schema"));
  return SchemaCompiler(std::move(document)).compile();
}

Result<std::shared_ptr<const Grammar>> Grammar::from_json_schema(std::string_view schema) {
  KVRT_ASSIGN(auto automaton, compile_json_schema(schema));
  return std::make_shared<const Grammar>(std::move(automaton));
}

}  // namespace kvrt
