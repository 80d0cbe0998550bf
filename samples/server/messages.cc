// The messages of a chat.
#include "error.h"
#include "request.h"

namespace {

// A text, or parts that are all text.
std::string read_content(const Json& value, const std::string& where) {
  if (value.is(Json::kString)) return value.text;
  if (!value.is(Json::kArray)) refuse(where, where + ": expected a text or a list of parts");
  std::string out;
  for (size_t i = 0; i < value.items.size(); ++i) {
    const std::string part = where + "[" + std::to_string(i) + "]";
    const Json* type = value.items[i].find("type");
    if (!type || !type->is(Json::kString)) refuse(part, part + ": expected an object with a type");
    if (type->text != "text" && type->text != "refusal")
      refuse(part, part + ": " + type->text + " is not supported: the model reads text alone", "unsupported_value");
    const Json* text = value.items[i].find(type->text);
    if (!text || !text->is(Json::kString)) refuse(part, part + ": expected a string " + type->text);
    out += text->text;
  }
  return out;
}

std::string text_of(const Json& object, std::string_view name, const std::string& where) {
  const Json* value = object.find(name);
  if (!value) return {};
  if (!value->is(Json::kString)) refuse(where, where + "." + std::string(name) + ": expected a string");
  return value->text;
}

ToolCall read_call(const Json& value, const std::string& where) {
  const Json* function = value.find("function");
  if (!function || !function->is(Json::kObject)) refuse(where, where + ": expected {\"id\", \"type\": \"function\", \"function\": {...}}");
  ToolCall call{text_of(value, "id", where), text_of(*function, "name", where), text_of(*function, "arguments", where)};
  if (call.name.empty()) refuse(where, where + ".function.name is missing");
  if (call.arguments.empty()) call.arguments = "{}";
  try {
    if (!read_json(call.arguments).is(Json::kObject)) refuse(where, where + ".function.arguments: expected a JSON object in a string");
  } catch (const JsonError& e) {
    refuse(where, where + ".function.arguments: " + e.what());
  }
  return call;
}

Message read_message(const Json& value, const std::string& where) {
  if (!value.is(Json::kObject)) refuse(where, where + ": expected an object");
  Message m;
  m.role = text_of(value, "role", where);
  if (m.role == "developer") m.role = "system";
  if (m.role != "system" && m.role != "user" && m.role != "assistant" && m.role != "tool")
    refuse(where, where + ".role: expected system, developer, user, assistant or tool, found \"" + m.role + "\"");
  const bool assistant = m.role == "assistant";
  const Json* content = value.find("content");
  if (content) m.content = read_content(*content, where + ".content");
  if (const Json* calls = value.find("tool_calls")) {
    if (!assistant) refuse(where, where + ": tool_calls of role " + m.role);
    if (!calls->is(Json::kArray)) refuse(where, where + ".tool_calls: expected a list");
    for (size_t i = 0; i < calls->items.size(); ++i)
      m.calls.push_back(read_call(calls->items[i], where + ".tool_calls[" + std::to_string(i) + "]"));
  }
  if (value.find("function_call")) refuse(where, where + ".function_call is not supported: use tool_calls", "unsupported_value");
  if (!content && !assistant) refuse(where, where + ".content is missing");
  if (assistant) {
    m.reasoning = text_of(value, "reasoning_content", where);
    if (m.content.empty()) m.content = text_of(value, "refusal", where);
  }
  m.name = text_of(value, "name", where);
  if (m.role == "tool") {
    m.call_id = text_of(value, "tool_call_id", where);
    if (m.call_id.empty()) refuse(where, where + ".tool_call_id is missing");
  }
  return m;
}

void write_calls(const std::vector<ToolCall>& calls, bool ids, JsonWriter* w) {
  w->key("tool_calls").begin('[');
  for (const ToolCall& c : calls) {
    w->begin('{').pair("type", "function");
    if (ids && !c.id.empty()) w->pair("id", c.id);
    w->key("function").begin('{').pair("name", c.name).key("arguments").raw(c.arguments).end('}').end('}');
  }
  w->end(']');
}

}  // namespace

std::vector<Message> read_messages(const Json& list) {
  if (!list.is(Json::kArray) || list.items.empty()) refuse("messages", "messages: expected a list of one message or more");
  std::vector<Message> out;
  for (size_t i = 0; i < list.items.size(); ++i) {
    out.push_back(read_message(list.items[i], "messages[" + std::to_string(i) + "]"));
    Message& m = out.back();
    if (m.role != "tool" || !m.name.empty()) continue;
    // Templates may want the tool's name, which OpenAI's form says at the call alone.
    for (const Message& before : out) {
      for (const ToolCall& call : before.calls) {
        if (call.id == m.call_id) m.name = call.name;
      }
    }
  }
  return out;
}

std::string Message::json() const {
  JsonWriter w;
  w.begin('{').pair("role", role).pair("content", content);
  if (!reasoning.empty()) w.pair("reasoning_content", reasoning);
  if (!calls.empty()) write_calls(calls, true, &w);
  if (!call_id.empty()) w.pair("tool_call_id", call_id);
  if (!name.empty()) w.pair("name", name);
  return w.end('}').take();
}

std::string Message::said() const {
  JsonWriter w;
  w.begin('{').pair("role", role).pair("content", content);
  if (!calls.empty()) write_calls(calls, false, &w);
  return w.end('}').take();
}
