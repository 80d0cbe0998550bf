// The items of /v1/responses as messages of a chat: what the model said in one turn (reasoning, text, calls) is one message.
#include "error.h"
#include "request.h"
#include "responses.h"

namespace {

constexpr size_t kItemsMax = 8192;

constexpr std::string_view kItemParts[] = {"input_text", "output_text", "text", "refusal"};
std::string parts_of(const Json& value, const std::string& where) {
  return read_parts(value, where, kItemParts, "input_text or output_text");
}

class InputReader {
 public:
  void read(const Json& v, const std::string& where) {
    if (!v.is(Json::kObject)) expected(where, "an object", &v);
    const Json* type = find_field(v, where, "type", Json::kString);
    if (!type || type->text == "message") return read_message(v, where, type != nullptr);
    if (type->text == "reasoning") return read_reasoning(v, where);
    if (type->text == "function_call") return read_call(v, where);
    if (type->text == "function_call_output") return read_output(v, where);
    refuse(where + ".type",
           where + ".type: expected message, reasoning, function_call or function_call_output, found \"" + type->text + "\"",
           "unsupported_value");
  }
  std::vector<Message> take() { return std::move(out_); }

 private:
  // The model's message that goes on; a new one where it is `over`.
  Message* turn(bool over) {
    if (out_.empty() || out_.back().role != "assistant" || over) out_.emplace_back().role = "assistant";
    return &out_.back();
  }
  bool has_content() const { return !out_.empty() && !out_.back().content.empty(); }
  bool has_calls() const { return !out_.empty() && !out_.back().calls.empty(); }

  void read_message(const Json& v, const std::string& where, bool typed) {
    if (!typed && !v.find("role") && v.find("id"))  // an item_reference needs no type
      refuse(where + ".id", where + ": a reference to an item is not supported: send the item", "unsupported_value");
    const Json& role = field(v, where, "role", Json::kString);
    const Json* content = v.find("content");
    if (!content) expected(where + ".content", "a text or a list of parts", nullptr);
    std::string said = parts_of(*content, where + ".content");
    if (role.text == "assistant") {
      turn(has_content() && !has_calls())->content += said;
      return;
    }
    if (role.text != "user" && role.text != "system" && role.text != "developer")
      expected(where + ".role", "user, system, developer or assistant", &role);
    Message& m = out_.emplace_back();
    m.role = role.text == "developer" ? "system" : role.text;
    m.content = std::move(said);
  }

  // Its text is in its parts, or in what an earlier answer of this server had in their place.
  void read_reasoning(const Json& v, const std::string& where) {
    std::string thought;
    if (const Json* content = find_field(v, where, "content", Json::kArray)) {
      for (size_t i = 0; i < content->items.size(); ++i)
        thought += field(content->items[i], item(where + ".content", i), "text", Json::kString).text;
    }
    const Json* sealed = find_field(v, where, "encrypted_content", Json::kString);
    if (thought.empty() && sealed && sealed->text.starts_with(kSealed)) thought = sealed->text.substr(kSealed.size());
    if (!thought.empty()) turn(has_content() || has_calls())->reasoning += thought;
  }

  void read_call(const Json& v, const std::string& where) {
    ToolCall call;
    call.id = field(v, where, "call_id", Json::kString).text;
    const Json& name = field(v, where, "name", Json::kString);
    if (name.text.empty()) expected(where + ".name", "a name", &name);
    call.name = name.text;
    call.arguments = field(v, where, "arguments", Json::kString).text;
    call.arguments = call.arguments.empty() ? "{}" : arguments_of(call.arguments);
    turn(false)->calls.push_back(std::move(call));
  }

  void read_output(const Json& v, const std::string& where) {
    Message m;
    m.role = "tool";
    m.call_id = field(v, where, "call_id", Json::kString).text;
    if (const Json* output = v.find("output")) m.content = parts_of(*output, where + ".output");  // what a function gives may be nothing
    out_.push_back(std::move(m));
  }

  std::vector<Message> out_;
};

}  // namespace

std::vector<Message> read_input(const Json& list) {
  if (!list.is(Json::kArray)) expected("input", "a text, or a list of items", &list);
  if (list.items.empty()) refuse("input", "input: expected one item or more, found none");
  if (list.items.size() > kItemsMax)
    refuse("input", "input: expected at most " + std::to_string(kItemsMax) + " items, found " + std::to_string(list.items.size()));
  InputReader reader;
  for (size_t i = 0; i < list.items.size(); ++i) reader.read(list.items[i], item("input", i));
  return reader.take();
}
