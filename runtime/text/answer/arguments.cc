#include "runtime/text/answer/arguments.h"

#include <map>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/limits.h"
#include "runtime/text/grammar/json_schema.h"
#include "runtime/text/reply/syntax.h"
#include "runtime/text/reply/tools.h"

namespace kvrt {

namespace {

using reply::ArgumentSchema;

std::string tool_of(std::string_view parameters) { return R"([{"name":"f","parameters":)" + std::string(parameters) + "}]"; }

// The types by which the reply parser tells what an argument's text means.
class TypesRead final : public ValueReader {
 public:
  explicit TypesRead(std::string_view parameters) : tools_(tool_of(parameters)) { (void)place_of(tools_.arguments("f")); }
  uint8_t types(uint32_t place) override {
    constexpr std::pair<unsigned, uint8_t> kSame[] = {
        {ArgumentSchema::kNull, ValueTypes::kNull},       {ArgumentSchema::kBoolean, ValueTypes::kBoolean},
        {ArgumentSchema::kInteger, ValueTypes::kInteger}, {ArgumentSchema::kNumber, ValueTypes::kInteger | ValueTypes::kFraction},
        {ArgumentSchema::kString, ValueTypes::kString},   {ArgumentSchema::kArray, ValueTypes::kArray},
        {ArgumentSchema::kObject, ValueTypes::kObject}};
    const unsigned types = schemas_[place].types();
    uint8_t out = 0;
    for (const auto& [theirs, ours] : kSame)
      if (types & theirs) out |= ours;
    return out;
  }
  uint32_t member(uint32_t place, std::string_view name) override { return place_of(schemas_[place].property(name)); }
  uint32_t items(uint32_t place) override { return place_of(schemas_[place].items()); }

 private:
  uint32_t place_of(const ArgumentSchema& schema) {
    const auto [at, fresh] = places_.try_emplace(schema.id(), static_cast<uint32_t>(schemas_.size()));
    if (fresh) schemas_.push_back(schema);
    return at->second;
  }

  ReplyTools tools_;
  std::vector<ArgumentSchema> schemas_;
  std::map<const void*, uint32_t> places_;
};

constexpr const char* kIdentifier = "^[A-Za-z_][A-Za-z0-9_]*$";
constexpr const char* kBareKey = R"(^[^\x00-\x20{}\[\],:<>"]([^\x00-\x1f{}\[\],:<>"]*[^\x00-\x20{}\[\],:<>"])?$)";
constexpr const char* kTagKey = R"(^[^\x00-\x1f<>"\/][^\x00-\x1f<>"]*$)";
constexpr const char* kEntityKey = R"(^[^\x00-\x1f<>"\/&][^\x00-\x1f<>"&]*$)";

// A part of a mark as it is written, without what only its reader may meet.
std::string written(std::string_view pattern) {
  std::string out(pattern);
  for (size_t at; (at = out.find("%s")) != std::string::npos;) out.erase(at, 2);
  return out;
}

ValueSpelling python_values() {
  ValueSpelling s;
  s.null = "None", s.yes = "True", s.no = "False";
  s.other_null = "null", s.other_yes = "true", s.other_no = "false";  // templates write objects as JSON
  s.other_name = "'", s.other_named = "':";
  s.text = ValueSpelling::Text::kPython;
  s.quote = s.quote_end = "'";
  return s;
}

// Members that stand in marks of their own, or one after the other.
ValueSpelling bare_members(const char* names) {
  ValueSpelling s;
  s.object = s.object_end = s.comma = s.name = "";
  s.space = false;
  s.bare_names = true;
  s.name_pattern = names;
  return s;
}

ValueSpelling quoted_values() {
  ValueSpelling s = bare_members(kBareKey);
  s.object = "{", s.object_end = "}", s.comma = ",", s.named = ":";
  s.string = s.string_end = s.stop = reply::kQuote;
  s.text = ValueSpelling::Text::kRaw;
  return s;
}

// Arguments in tags, their values, and JSON in them.
struct TagSpellings {
  ValueSpelling arguments, value, json, python = python_values();

  explicit TagSpellings(const reply::TagForm& form) : arguments(bare_members(form.entities ? kEntityKey : kTagKey)) {
    const std::string open(form.open), close = std::string(form.pad) + std::string(form.close), pad(form.pad);
    const size_t key = open.find("%k"), type = open.find("%t");
    arguments.entities = form.entities;
    arguments.name = open.substr(0, key);
    arguments.named = written(open.substr(key + 2, type == open.npos ? type : type - key - 2));
    if (type == open.npos) {
      arguments.named += pad;
      value.other_null = "None", value.other_yes = "True", value.other_no = "False";
    } else {
      value.typed = open.substr(type + 2) + pad;
      types(form);
    }
    const size_t again = close.find("%k");
    arguments.member_end = close.substr(0, again);
    if (again != close.npos) arguments.name_again = close.substr(again + 2);
    arguments.members = &value;

    json.stop = form.nests() ? form.begin() : form.close.substr(0, form.close.find('\n'));
    value.stop = python.stop = json.stop;
    value.string = value.string_end = "";
    value.quote = form.quote, value.quote_end = form.unquote;
    value.text = ValueSpelling::Text::kRaw;
    value.untyped_reader = true;
    value.structures = &json;
    if (form.python) value.other_structures = &python;
    if (form.nests()) nest(form);
  }
  TagSpellings(const TagSpellings&) = delete;

 private:
  void types(const reply::TagForm& form) {
    value.string_type = "string", value.number_type = "number", value.boolean_type = "boolean";
    value.null_type = "null", value.array_type = "array", value.object_type = "object";
    if (form.open.find("string=\"%t\"") == form.open.npos) return;
    value.string_type = "true";
    for (auto* type : {&value.number_type, &value.boolean_type, &value.null_type, &value.array_type, &value.object_type}) *type = "false";
  }

  // Objects and arrays are tags, too.
  void nest(const reply::TagForm& form) {
    const auto tag = [](std::string mark) { return mark.replace(mark.find("%k"), 2, "item"); };
    value.object = value.object_end = value.array = value.array_end = value.comma = "";
    value.space = false;
    value.bare_names = true;
    value.name_pattern = arguments.name_pattern;
    value.name = arguments.name, value.named = arguments.named;
    value.member_end = arguments.member_end, value.name_again = arguments.name_again;
    value.item = tag(std::string(form.open)), value.item_end = tag(std::string(form.close));
    value.members = value.items = &value;
    value.nested = true;
  }
};

}  // namespace

Result<uint32_t> add_arguments(const reply::WrittenCalls& written, std::string_view parameters, const GrammarVocab& vocab,
                               GrammarBuilder* builder) {
  using Arguments = reply::WrittenCalls::Arguments;
  if (parameters.empty()) parameters = R"({"type":"object","properties":{}})";
  switch (written.arguments) {
    case Arguments::kJson:
      break;
    case Arguments::kPython: {
      const ValueSpelling values = python_values();
      ValueSpelling arguments = bare_members(kIdentifier);
      arguments.comma = ", ", arguments.named = "=";
      arguments.text = values.text;
      arguments.members = &values;
      return add_arguments_schema(parameters, {&arguments, nullptr, &vocab}, builder);
    }
    case Arguments::kQuoted: {
      const ValueSpelling arguments = quoted_values();
      return add_arguments_schema(parameters, {&arguments, nullptr, &vocab}, builder);
    }
    case Arguments::kTags: {
      const TagSpellings spellings(*written.tags);
      TypesRead reader(parameters);
      return add_arguments_schema(parameters, {&spellings.arguments, &reader, &vocab}, builder);
    }
  }
  return add_arguments_schema(parameters, {}, builder);
}

std::string loose_parameters(std::string_view parameters) {
  const ReplyTools tools(tool_of(parameters));
  const ArgumentSchema schema = tools.arguments("f");
  std::string out = R"({"type":"object","additionalProperties":true,"properties":{)";
  std::string_view comma;
  const std::vector<std::string_view> names = schema.property_names();
  if (names.size() > kGrammarRulesMax) return R"({"type":"object"})";  // each is a rule
  for (std::string_view name : names) {
    out.append(comma);
    append_json_string(name, &out);
    const unsigned its = schema.property(name).types();
    std::string types;
    for (const auto& [text, type] : ArgumentSchema::kTypeNames)
      if (its & type) types.append(types.empty() ? "\"" : ",\"").append(text).append("\"");
    out += types.empty() ? ":{}" : ":{\"type\":[" + types + "]}";
    comma = ",";
  }
  return out + "}}";
}

}  // namespace kvrt
