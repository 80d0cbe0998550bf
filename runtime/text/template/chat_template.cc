#include "runtime/text/template/chat_template.h"

#include <algorithm>
#include <ctime>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/template/call_arguments.h"
#include "runtime/text/template/json_values.h"
#include "runtime/text/template/lexer.h"
#include "runtime/text/template/parser.h"
#include "runtime/text/template/render.h"

namespace kvrt {

namespace {

using jinja::Arena;
using jinja::CallArguments;
using jinja::Kind;
using jinja::OddArguments;
using jinja::Value;

Status check_messages(Value messages) {
  if (!messages.is(Kind::kList)) return error(Code::kInvalid, Detail::kFormat, "messages: expected a JSON array of objects");
  for (uint32_t i = 0; i < messages.list->size; ++i) {
    if (!messages.list->data[i].is(Kind::kDict)) return error(Code::kInvalid, Detail::kFormat, "messages: item %u is not an object", i);
  }
  return Status::ok();
}

Result<Value> parse_variables(std::string_view json, Arena* arena) {
  KVRT_ASSIGN(Value variables, jinja::parse_json(json, "variables", arena));
  if (!variables.is(Kind::kDict)) return error(Code::kInvalid, Detail::kFormat, "variables: expected a JSON object");
  for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"}) {
    if (variables.dict->find(std::string_view(own)) != nullptr)
      return error(Code::kInvalid, Detail::kNone, "variables: \"%s\" has an argument of its own", own);
  }
  return variables;
}

Result<Value> parse_array(std::string_view json, const char* what, Arena* arena) {
  if (json.empty()) return Value::none();
  KVRT_ASSIGN(Value array, jinja::parse_json(json, what, arena));
  if (!array.is(Kind::kList)) return error(Code::kInvalid, Detail::kFormat, "%s: expected a JSON array", what);
  return array;
}

class JinjaTemplate final : public ChatTemplate {
 public:
  Status init(std::string_view source) {
    if (source.size() > kTemplateSourceBytesMax) {
      return error(Code::kLimit, Detail::kTemplateLimit, "template: %zu bytes, the limit is %zu", source.size(), kTemplateSourceBytesMax);
    }
    size_t bad = find_invalid_utf8(source);
    if (bad != std::string_view::npos) return error(Code::kInvalid, Detail::kTemplateError, "template: invalid UTF-8 at byte %zu", bad);
    source_ = jinja::normalize_source(source);
    KVRT_ASSIGN(body_, jinja::parse(source_));
    return Status::ok();
  }

  // What a template takes is known only where it has run.
  Result<std::string> render(std::string_view messages_json, const TemplateOptions& options) const override {
    bool calls = false, odd = false, shown = false;
    auto usual = render(messages_json, options, OddArguments::kText, &calls, &odd, &shown);
    if (usual.is_ok() ? shown : !calls || usual.status().detail() != Detail::kTemplateError) return usual;
    if (odd) {
      auto wrapped = render(messages_json, options, OddArguments::kWrapped, &calls, &odd, &shown);
      if (wrapped.is_ok() && (shown || !usual.is_ok())) return wrapped;
    }
    if (usual.is_ok()) return usual;
    auto all_text = render(messages_json, options, OddArguments::kAllText, &calls, &odd, &shown);
    return all_text.is_ok() ? std::move(all_text) : std::move(usual);
  }

 private:
  // *calls: there are calls; *odd: some with strings that are no JSON objects; *shown: the text has these.
  Result<std::string> render(std::string_view messages_json, const TemplateOptions& options, OddArguments form, bool* calls, bool* odd,
                             bool* shown) const {
    Arena arena(kTemplateHeapBytesMax);
    KVRT_ASSIGN(Value messages, jinja::parse_json(messages_json, "messages", &arena));
    KVRT_TRY(check_messages(messages));
    CallArguments found;
    for (uint32_t i = 0; i < messages.list->size; ++i) {
      jinja::set_call_arguments(messages.list->data[i], form, &arena, &found);
      messages.list->depth = std::max(messages.list->depth, jinja::depth_of(messages.list->data[i]) + 1);
    }
    *calls = found.calls > 0;
    *odd = !found.odd.empty();
    const TemplateArguments& given = options.arguments;
    KVRT_ASSIGN(Value tools, parse_array(given.tools, "tools", &arena));
    KVRT_ASSIGN(Value documents, parse_array(given.documents, "documents", &arena));
    KVRT_ASSIGN(Value variables, parse_variables(given.variables.empty() ? "{}" : given.variables, &arena));
    jinja::Renderer renderer(source_, &arena, given.now != 0 ? given.now : static_cast<int64_t>(std::time(nullptr)));
    renderer.set_global("messages", messages);
    renderer.set_global("tools", tools);
    renderer.set_global("documents", documents);
    renderer.set_global("add_generation_prompt", Value::of(options.add_generation_prompt));
    renderer.set_global("bos_token", Value::of(options.bos_token));
    renderer.set_global("eos_token", Value::of(options.eos_token));
    for (uint32_t i = 0; i < variables.dict->size; ++i)
      renderer.set_global(variables.dict->data[i].key.str(), variables.dict->data[i].value);
    auto text = renderer.render(body_);
    *shown = text.is_ok() && jinja::shows_all(*text, found.odd);
    return text;
  }

  std::string source_;
  jinja::Body body_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  auto parsed = std::make_unique<JinjaTemplate>();
  KVRT_TRY(parsed->init(source));
  return std::unique_ptr<ChatTemplate>(std::move(parsed));
}

namespace {

// Compact, and no larger than the text it came from by more than a factor that the second arena allows.
std::string compact(Value value) {
  Arena arena(kJsonBytesMax * 2);
  jinja::TextBuilder json(&arena);
  jinja::append_json(value, {",", ":", {}, false, false, false}, &json);
  return std::string(json.view());
}

Status check_message(Value message) {
  if (!message.is(Kind::kDict)) return error(Code::kInvalid, Detail::kFormat, "message: expected a JSON object");
  const Value* role = message.dict->find("role");
  if (role == nullptr || !role->is(Kind::kString)) return error(Code::kInvalid, Detail::kFormat, "message: expected a string \"role\"");
  return Status::ok();
}

}  // namespace

Result<std::string> normalize_message(std::string_view message_json) {
  Arena arena(kTemplateHeapBytesMax);
  KVRT_ASSIGN(Value message, jinja::parse_json(message_json, "message", &arena));
  KVRT_TRY(check_message(message));
  return compact(message);
}

Result<std::vector<std::string>> normalize_messages(std::string_view messages_json) {
  Arena arena(kTemplateHeapBytesMax);
  KVRT_ASSIGN(Value messages, jinja::parse_json(messages_json, "messages", &arena));
  if (!messages.is(Kind::kList)) return error(Code::kInvalid, Detail::kFormat, "messages: expected a JSON array of objects");
  std::vector<std::string> out;
  for (uint32_t i = 0; i < messages.list->size; ++i) {
    Status status = check_message(messages.list->data[i]);
    if (!status.is_ok()) return std::move(status).annotate("messages: item " + std::to_string(i));
    out.push_back(compact(messages.list->data[i]));
  }
  return out;
}

bool same_message(const std::string& a, const std::string& b) {
  if (a == b) return true;
  Arena arena(kTemplateHeapBytesMax);
  uint64_t fuel = UINT64_MAX;
  auto x = jinja::parse_json(a, "message", &arena), y = jinja::parse_json(b, "message", &arena);
  if (!x.is_ok() || !y.is_ok()) return false;
  CallArguments found;
  for (Value message : {*x, *y}) jinja::set_call_arguments(message, OddArguments::kText, &arena, &found);
  return !arena.full() && jinja::equal(*x, *y, &fuel);
}

Result<TemplateArguments> normalize_arguments(const TemplateArguments& arguments) {
  TemplateArguments out;
  out.now = arguments.now;
  for (const char* what : {"tools", "documents"}) {
    const std::string& json = *what == 't' ? arguments.tools : arguments.documents;
    if (json.empty()) continue;
    Arena arena(kTemplateHeapBytesMax);
    KVRT_ASSIGN(Value array, parse_array(json, what, &arena));
    for (uint32_t i = 0; i < array.list->size; ++i)
      if (!array.list->data[i].is(Kind::kDict)) return error(Code::kInvalid, Detail::kFormat, "%s: item %u is not an object", what, i);
    (*what == 't' ? out.tools : out.documents) = compact(array);
  }
  if (!arguments.variables.empty()) {
    Arena arena(kTemplateHeapBytesMax);
    KVRT_ASSIGN(Value variables, parse_variables(arguments.variables, &arena));
    out.variables = compact(variables);
  }
  return out;
}

}  // namespace kvrt
