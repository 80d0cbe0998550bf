#include "runtime/text/reply/calls.h"

#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/reply/literals.h"
#include "runtime/text/reply/tools.h"
#include "runtime/text/template/json_values.h"
#include "runtime/text/template/print.h"

namespace kvrt::reply {

using std::string_view_literals::operator""sv;

namespace {

using jinja::Arena;
using jinja::Dict;
using jinja::Kind;
using jinja::Value;

const Value* find(const Dict& dict, std::string_view name, std::string_view other_name) {
  const Value* value = dict.find(name);
  return value != nullptr ? value : dict.find(other_name);
}

// One call as the families write it, and its canonical form.
class Calls {
 public:
  Calls(unsigned flags, Arena* arena, std::vector<ReplyPart>* out) : flags_(flags), arena_(arena), out_(out) {}

  // {"name", "arguments"}, by the names that the families have for them, or OpenAI's {"id", "function": {"name", "arguments"}}.
  bool append(Value value) {
    if (!value.is(Kind::kDict)) return false;
    const Value* function = value.dict->find("function");
    const Dict& call = function != nullptr && function->is(Kind::kDict) ? *function->dict : *value.dict;
    const Value *name = find(call, "name", "tool_name"), *id = find(*value.dict, "id", "tool_call_id");
    if ((flags_ & CallSyntax::kKeyed) && call.size == 1) return append(call.data[0].key, call.data[0].value, Value());
    const Value* arguments = find(call, "arguments", "parameters");
    if (name == nullptr || (arguments == nullptr && (flags_ & CallSyntax::kStrict))) return false;
    return append(*name, arguments == nullptr ? Value::of(jinja::create<Dict>(arena_)) : *arguments, id == nullptr ? Value() : *id);
  }

  bool append(Value name, Value arguments, Value id) {
    if (arguments.is(Kind::kString)) {  // as OpenAI's API has them
      auto parsed = jinja::parse_json(arguments.str(), "arguments", arena_);
      if (!parsed.is_ok()) return false;
      arguments = *parsed;
    }
    if (!name.is(Kind::kString) || name.size == 0 || !arguments.is(Kind::kDict)) return false;
    Dict* call = jinja::create<Dict>(arena_);
    if (call == nullptr) return false;
    call->set(arena_, Value::of("name"sv), name);
    call->set(arena_, Value::of("arguments"sv), arguments);
    if (id.is(Kind::kString) && id.size > 0) call->set(arena_, Value::of("id"sv), id);
    jinja::TextBuilder json(arena_);
    if (!jinja::append_json(Value::of(call), {",", ":", {}, false, false, false}, &json) || arena_->full()) return false;
    out_->push_back({ReplyPart::Kind::kToolCall, std::string(json.view())});
    return true;
  }

 private:
  unsigned flags_;
  Arena* arena_;
  std::vector<ReplyPart>* out_;
};

using Types = ArgumentSchema::Types;

bool is_of(const Value& value, unsigned types) {
  switch (value.kind) {
    case Kind::kNone:
      return types & Types::kNull;
    case Kind::kBool:
      return types & Types::kBoolean;
    case Kind::kInt:
    case Kind::kBig:
      return types & (Types::kInteger | Types::kNumber);
    case Kind::kFloat:
      return types & Types::kNumber || ((types & Types::kInteger && value.real == std::trunc(value.real)));
    case Kind::kList:
      return types & Types::kArray;
    case Kind::kDict:
      return types & Types::kObject;
    default:
      return types & Types::kString;
  }
}

// The values of arguments in tags.
class TaggedValues {
 public:
  TaggedValues(const TagForm& form, Arena* arena) : form_(form), arena_(arena) {}

  Value read(const Argument& argument, const ArgumentSchema& schema) {
    const unsigned types = schema.types();
    if (types != Types::kUnknown || argument.type.empty()) return read(argument.value, schema, types);
    const bool text = argument.type == "true" || argument.type == "string";
    return read(argument.value, schema, text ? Types::kString : ~0U & ~Types::kString);
  }

 private:
  Value read(std::string_view text, const ArgumentSchema& schema, unsigned types) {
    const Value string = Value::of(arena_->copy(text));
    if (types == Types::kString) return string;
    if (form_.nests() && !(types & Types::kString)) {
      if (text.find(form_.begin()) != std::string_view::npos) return nested(text, schema, types);
      if (const std::optional<Value> empty = text.empty() ? empty_of(types) : std::nullopt) return *empty;
    }
    auto parsed = jinja::parse_json(text, "argument", arena_);
    if (parsed.is_ok() && !parsed->is(Kind::kString)) return types == Types::kUnknown || is_of(*parsed, types) ? *parsed : string;
    if (types == Types::kUnknown || (types & Types::kString && form_.typed())) return string;
    std::string json;  // some templates write str() of a value
    if (!python_value_to_json(text, &json)) return string;
    parsed = jinja::parse_json(json, "argument", arena_);
    return parsed.is_ok() && !parsed->is(Kind::kString) && is_of(*parsed, types) ? *parsed : string;
  }

  std::optional<Value> empty_of(unsigned types) {
    if (types & Types::kArray) return Value::of(jinja::create<jinja::List>(arena_));
    if (types & Types::kObject) return Value::of(jinja::create<Dict>(arena_));
    if (types & Types::kNull) return Value::none();
    return std::nullopt;
  }

  // Tags within a value: an array's items, or an object's members.
  Value nested(std::string_view text, const ArgumentSchema& schema, unsigned types) {
    const std::string_view begin = form_.begin();
    Dict* members = jinja::create<Dict>(arena_);
    jinja::List* items = jinja::create<jinja::List>(arena_);
    bool only_items = true;
    for (size_t at; (at = text.find(begin)) != std::string_view::npos;) {
      text.remove_prefix(at + begin.size());
      const size_t name_end = text.find('>');
      const std::string_view name = text.substr(0, name_end);
      text.remove_prefix(name_end + 1);
      const size_t end = find_close(text);
      const bool is_item = name == "item" && (types & Types::kArray || types == Types::kUnknown);
      only_items &= is_item;
      const ArgumentSchema its = is_item ? schema.items() : schema.property(name);
      const Value value = read(text.substr(0, end), its, its.types());
      members->set(arena_, Value::of(arena_->copy(name)), value);
      items->push(arena_, value);
      text.remove_prefix(text.find('>', end) + 1);
    }
    return only_items ? Value::of(items) : Value::of(members);
  }

  // Where the mark that closes the value at the begin of `text` stands: it has passed a TagScan.
  size_t find_close(std::string_view text) const {
    const std::string_view begin = form_.begin();
    int open = 0;
    for (size_t at = 0; (at = text.find(begin, at)) != std::string_view::npos; at += begin.size()) {
      const bool closes = text.substr(at + begin.size()).starts_with('/');
      if (closes && open == 0) return at;
      open += closes ? -1 : 1;
    }
    return text.size();
  }

  const TagForm& form_;
  Arena* arena_;
};

bool append_tagged(std::string_view payload, const PatternReader& head, const TagForm& form, const ReplyTools* tools, Arena* arena,
                   std::vector<ReplyPart>* out) {
  if (find_invalid_utf8(payload) != std::string_view::npos) return false;
  TagScan scan;
  scan.reset(form);
  for (char c : payload) (void)scan.feed(c);
  const ArgumentSchema schema = tools == nullptr ? ArgumentSchema() : tools->arguments(head.name);
  TaggedValues values(form, arena);
  Dict* arguments = jinja::create<Dict>(arena);
  for (const Argument& argument : scan.arguments()) {
    if (arena->full()) return false;
    arguments->set(arena, Value::of(arena->copy(argument.key)), values.read(argument, schema.property(argument.key)));
  }
  return Calls(0, arena, out).append(Value::of(std::string_view(head.name)), Value::of(arguments), Value());
}

Result<Value> parse(std::string_view payload, unsigned flags, Arena* arena) {
  std::string json;
  if (flags & CallSyntax::kQuoted) {
    const bool valid = find_invalid_utf8(payload) == std::string_view::npos && quoted_to_json(payload, &json);
    return jinja::parse_json(valid ? json : "", "tool call", arena);
  }
  auto parsed = jinja::parse_json(payload, "tool call", arena);
  if (parsed.is_ok() || !(flags & CallSyntax::kPython) || !python_calls_to_json(payload, flags & CallSyntax::kBuiltins, &json))
    return parsed;
  return jinja::parse_json(json, "tool call", arena);
}

}  // namespace

bool append_calls(std::string_view payload, const PatternReader& head, const CallSyntax& syntax, const ReplyTools* tools,
                  std::vector<ReplyPart>* out) {
  Arena arena(kTemplateHeapBytesMax);
  if (syntax.tags != nullptr) return append_tagged(payload, head, *syntax.tags, tools, &arena, out);
  auto parsed = parse(payload, syntax.flags, &arena);
  if (!parsed.is_ok()) return false;
  std::vector<ReplyPart> parts;
  Calls calls(syntax.flags, &arena, &parts);
  if (!head.name.empty()) {
    if (!calls.append(Value::of(std::string_view(head.name)), *parsed, Value::of(std::string_view(head.id)))) return false;
  } else if (parsed->is(Kind::kList)) {
    for (uint32_t i = 0; i < parsed->list->size; ++i)
      if (!calls.append(parsed->list->data[i])) return false;
  } else if (!calls.append(*parsed)) {
    return false;
  }
  for (ReplyPart& part : parts) out->push_back(std::move(part));
  return !parts.empty();
}

}  // namespace kvrt::reply
