#include "runtime/text/chat_template.h"

#include "runtime/base/limits.h"
#include "runtime/text/template_json.h"
#include "runtime/text/template_lexer.h"
#include "runtime/text/template_parser.h"
#include "runtime/text/template_render.h"
#include "runtime/text/unicode.h"

namespace kvrt {

namespace {

using jinja::Arena;
using jinja::Kind;
using jinja::Value;

Status check_messages(Value messages) {
  if (!messages.is(Kind::kList)) return error(Code::kInvalid, Detail::kFormat, "messages: expected a JSON array of objects");
  for (uint32_t i = 0; i < messages.list->size; ++i) {
    if (!messages.list->data[i].is(Kind::kDict)) return error(Code::kInvalid, Detail::kFormat, "messages: item %u is not an object", i);
  }
  return Status::ok();
}

class JinjaTemplate final : public ChatTemplate {
 public:
  Status init(std::string_view source) {
    if (source.size() > kTemplateOutputBytesMax) {
      return error(Code::kLimit, Detail::kTemplateLimit, "template: %zu bytes, the limit is %zu", source.size(), kTemplateOutputBytesMax);
    }
    size_t bad = find_invalid_utf8(source);
    if (bad != std::string_view::npos) return error(Code::kInvalid, Detail::kTemplateError, "template: invalid UTF-8 at byte %zu", bad);
    source_ = jinja::normalize_source(source);
    KVRT_ASSIGN(body_, jinja::parse(source_));
    return Status::ok();
  }

  Result<std::string> render(std::string_view messages_json, const TemplateOptions& options) const override {
    Arena arena(kTemplateHeapBytesMax);
    KVRT_ASSIGN(Value messages, jinja::parse_json(messages_json, "messages", &arena));
    KVRT_TRY(check_messages(messages));
    Value tools = Value::none();
    if (!options.tools_json.empty()) {
      KVRT_ASSIGN(tools, jinja::parse_json(options.tools_json, "tools", &arena));
    }
    jinja::Renderer renderer(source_, &arena);
    renderer.set_global("messages", messages);
    renderer.set_global("tools", tools);
    renderer.set_global("documents", Value::none());
    renderer.set_global("add_generation_prompt", Value::of(options.add_generation_prompt));
    renderer.set_global("bos_token", Value::of(options.bos_token));
    renderer.set_global("eos_token", Value::of(options.eos_token));
    return renderer.render(body_);
  }

 private:
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

std::string compact(Value value) {
  std::string json;
  jinja::append_json(value, -1, true, &json);
  return json;
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
  auto x = jinja::parse_json(a, "message", &arena), y = jinja::parse_json(b, "message", &arena);
  return x.is_ok() && y.is_ok() && jinja::equal(*x, *y);
}

Result<std::string> normalize_tools(std::string_view tools_json) {
  if (tools_json.empty()) return std::string();
  Arena arena(kTemplateHeapBytesMax);
  KVRT_ASSIGN(Value tools, jinja::parse_json(tools_json, "tools", &arena));
  if (!tools.is(Kind::kList)) return error(Code::kInvalid, Detail::kFormat, "tools: expected a JSON array");
  return compact(tools);
}

}  // namespace kvrt
