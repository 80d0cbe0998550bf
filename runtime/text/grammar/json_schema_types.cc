#include <algorithm>

#include "runtime/base/numbers.h"
#include "runtime/text/grammar/json_schema_compiler.h"

namespace kvrt {

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
  constexpr std::pair<uint8_t, std::string_view> kAbout[] = {{kObject, "properties"},
                                                             {kObject, "required"},
                                                             {kObject, "additionalProperties"},
                                                             {kObject, "patternProperties"},
                                                             {kObject, "minProperties"},
                                                             {kObject, "maxProperties"},
                                                             {kObject, "propertyNames"},
                                                             {kObject, "dependentRequired"},
                                                             {kObject, "dependencies"},
                                                             {kObject, "dependentSchemas"},
                                                             {kArray, "items"},
                                                             {kArray, "additionalItems"},
                                                             {kArray, "prefixItems"},
                                                             {kArray, "minItems"},
                                                             {kArray, "maxItems"},
                                                             {kArray, "uniqueItems"},
                                                             {kArray, "contains"},
                                                             {kArray, "unevaluatedItems"},
                                                             {kObject, "unevaluatedProperties"},
                                                             {kString, "minLength"},
                                                             {kString, "maxLength"},
                                                             {kString, "pattern"},
                                                             {kString, "format"},
                                                             {kNumber, "minimum"},
                                                             {kNumber, "maximum"},
                                                             {kNumber, "multipleOf"},
                                                             {kNumber, "exclusiveMinimum"},
                                                             {kNumber, "exclusiveMaximum"}};
  for (auto [types, name] : kAbout) {
    if (name.size() == keyword.size() && name[0] == keyword[0] && name == keyword) return types;
  }
  return 0;
}

// `implied`: where no schema names a type, those that the keywords are about.
Result<uint8_t> SchemaCompiler::types_of(const Flat& flat, bool implied) const {
  uint8_t types = kAnyType, about = 0;
  bool named = false;
  for (const Item& item : flat.items) {
    if (item.what == What::kIsObject || item.what == What::kHas || item.what == What::kMemberNot) types &= kObject;
    if (item.what == What::kDenied) {
      const std::string_view name = document_.key(*item.part);
      if (name == "type") {
        KVRT_ASSIGN(const uint8_t bits, types_named(*item.part));
        types &= static_cast<uint8_t>(~bits);
      } else if (const uint8_t bits = types_about(name)) {
        types &= bits;
      }
    }
    if (item.what != What::kSchema || only_ref(*item.schema)) continue;
    if (const Node* type = document_.member(*item.schema, "type")) {
      KVRT_ASSIGN(const uint8_t bits, types_named(*type));
      types &= bits;
      named = true;
    }
    for (const Node& keyword : document_.children(*item.schema)) about |= types_about(document_.key(keyword));
  }
  return implied && !named && (about & types) ? about & types : types;
}

Result<std::optional<uint32_t>> SchemaCompiler::count(const Node& node) const {
  const auto number = node.kind == Kind::kNumber ? Decimal::parse(document_.text(node)) : std::nullopt;
  if (!number || number->negative || !number->is_integer()) {
    return invalid(node, "%s is a count", std::string(document_.key(node)).c_str());
  }
  const std::string& digits = number->whole;
  return std::optional<uint32_t>(digits.size() > 9 ? UINT32_MAX - 1 : static_cast<uint32_t>(read_digits(digits)));
}

Result<SchemaCompiler::Counts> SchemaCompiler::counts(const Flat& flat, const char* min, const char* max) const {
  Counts out;
  for (const Item& item : flat.items) {
    if (item.what == What::kSchema && !only_ref(*item.schema)) {
      if (const Node* node = document_.member(*item.schema, min)) {
        KVRT_ASSIGN(const auto value, count(*node));
        out.min = std::max(out.min, *value);
      }
      if (const Node* node = document_.member(*item.schema, max)) {
        KVRT_ASSIGN(const auto value, count(*node));
        out.max = std::min(out.max, *value);
      }
    } else if (item.what == What::kDenied && document_.key(*item.part) == min) {
      KVRT_ASSIGN(const auto value, count(*item.part));
      out.max = std::min(out.max, *value == 0 ? 0 : *value - 1);
      if (*value == 0) out.min = std::max(out.min, 1u);  // 0 always holds: nothing denies it
    } else if (item.what == What::kDenied && document_.key(*item.part) == max) {
      KVRT_ASSIGN(const auto value, count(*item.part));
      out.min = std::max(out.min, *value + 1);
    }
  }
  return out;
}

Status SchemaCompiler::exclude_empty(const Flat& flat, Kind kind, const char* what, Counts* counts) const {
  for (const Node* value : excluded(flat)) {
    if (value->kind != kind) continue;
    if (value->size > 0) return unsupported(*value, what);
    counts->min = std::max(counts->min, 1u);
  }
  return Status::ok();
}

}  // namespace kvrt
