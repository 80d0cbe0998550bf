// The messages of a chat.
#include <algorithm>
#include <map>

#include "error.h"
#include "request.h"

namespace {

constexpr size_t kMessagesMax = 2048;  // as OpenAI's
constexpr std::string_view kChatParts[] = {"text", "refusal"};

std::string text_of(const Json& object, const char* name, const std::string& where) {
  const Json* value = find_field(object, where, name, Json::kString);
  return value ? value->text : "";
}

ToolCall read_call(const Json& value, const std::string& where) {
  const Json& function = field(value, where, "function", Json::kObject);
  const std::string at = where + ".function";
  ToolCall call{text_of(value, "id", where), field(function, at, "name", Json::kString).text, text_of(function, "arguments", at)};
  if (call.name.empty()) refuse(at + ".name", at + ".name is empty");
  call.arguments = call.arguments.empty() ? "{}" : arguments_of(call.arguments);
  return call;
}

Message read_message(const Json& value, const std::string& where) {
  const Json& role = field(value, where, "role", Json::kString);
  Message m;
  m.role = role.text == "developer" ? "system" : role.text;
  const bool assistant = m.role == "assistant";
  if (m.role != "system" && m.role != "user" && m.role != "tool" && !assistant)
    expected(where + ".role", "system, developer, user, assistant or tool", &role);
  const Json* content = value.find("content");
  if (content) m.content = read_parts(*content, where + ".content", kChatParts, "text");
  // What a tool gives may be nothing.
  if (!content && !assistant && m.role != "tool") expected(where + ".content", "a text or a list of parts", nullptr);
  if (const Json* calls = find_field(value, where, "tool_calls", Json::kArray)) {
    if (!assistant)
      refuse(where + ".tool_calls", where + ".tool_calls: expected of the role assistant alone, found " + std::string(role.raw));
    for (size_t i = 0; i < calls->items.size(); ++i) m.calls.push_back(read_call(calls->items[i], item(where + ".tool_calls", i)));
  }
  if (value.find("function_call"))
    refuse(where + ".function_call", where + ".function_call is not supported: use tool_calls", "unsupported_value");
  if (assistant) {
    m.reasoning = text_of(value, "reasoning_content", where);
    if (m.content.empty()) m.content = text_of(value, "refusal", where);
  }
  m.name = text_of(value, "name", where);
  if (m.role == "tool") m.call_id = field(value, where, "tool_call_id", Json::kString).text;
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

std::string arguments_of(std::string_view text) {
  try {
    if (read_json(text, kArgumentsDepthMax).is(Json::kObject)) return std::string(text);
  } catch (const JsonError&) {
  }
  return JsonWriter().string(text).take();
}

std::string read_parts(const Json& value, const std::string& where, std::span<const std::string_view> types, const char* expects) {
  if (value.is(Json::kString)) return value.text;
  if (!value.is(Json::kArray)) expected(where, "a text or a list of parts", &value);
  std::string out;
  for (size_t i = 0; i < value.items.size(); ++i) {
    const std::string part = item(where, i);
    const std::string& type = field(value.items[i], part, "type", Json::kString).text;
    if (std::find(types.begin(), types.end(), type) == types.end())
      refuse(part + ".type", part + ".type: expected " + expects + ", as the model reads text alone, found \"" + type + "\"",
             "unsupported_value");
    out += field(value.items[i], part, type == "refusal" ? "refusal" : "text", Json::kString).text;
  }
  return out;
}

std::vector<Message> read_messages(const Json& list) {
  if (!list.is(Json::kArray)) expected("messages", "a list of messages", &list);
  if (list.items.empty()) refuse("messages", "messages: expected one message or more, found none");
  if (list.items.size() > kMessagesMax)
    refuse("messages", "messages: expected at most " + std::to_string(kMessagesMax) + ", found " + std::to_string(list.items.size()));
  std::vector<Message> out;
  for (size_t i = 0; i < list.items.size(); ++i) out.push_back(read_message(list.items[i], item("messages", i)));
  match_results(&out);
  return out;
}

void match_results(std::vector<Message>* messages) {
  std::map<std::string, std::string> called;  // the functions, by the ids of their calls
  for (auto m = messages->begin(); m != messages->end(); ++m) {
    for (const ToolCall& call : m->calls) called[call.id] = call.name;
    if (m->calls.size() > 1) {  // templates that show no ids tell results apart by their order
      std::map<std::string_view, size_t> order;
      for (const ToolCall& call : m->calls) order.try_emplace(call.id, order.size());
      const auto end = std::find_if(m + 1, messages->end(), [](const Message& other) { return other.role != "tool"; });
      const bool known = std::all_of(m + 1, end, [&](const Message& result) { return order.contains(result.call_id); });
      if (known) std::stable_sort(m + 1, end, [&](const Message& a, const Message& b) { return order[a.call_id] < order[b.call_id]; });
    }
    const auto call = called.find(m->call_id);
    if (m->role == "tool" && m->name.empty() && call != called.end()) m->name = call->second;
  }
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
