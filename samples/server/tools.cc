// The tools of a chat, and which of them has to be called.
#include <algorithm>
#include <array>

#include "error.h"
#include "request.h"

namespace {

constexpr size_t kNameBytesMax = 64;
constexpr size_t kToolsMax = 2048;

void check_name(const Json& name, const std::string& where) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  const bool ok = !name.text.empty() && name.text.size() <= kNameBytesMax && std::all_of(name.text.begin(), name.text.end(), fits);
  if (!ok) expected(where, "1 to 64 letters, digits, _ and -", &name);
}

// The arguments of a call are an object, so its schema is that of one. What the members' schemas say, kvrt reads.
void check_parameters(const Json& schema, const std::string& where) {
  const auto bad = [](const std::string& field, const char* what, const Json& found) {
    try {
      expected(field, what, &found);
    } catch (ApiError& e) {
      e.code = "invalid_function_parameters";
      throw;
    }
  };
  if (!schema.is(Json::kObject)) bad(where, "the JSON schema of an object", schema);
  if (const Json* type = schema.find("type"); type && type->text != "object") bad(where + ".type", "\"object\"", *type);
  if (const Json* members = schema.find("properties")) {
    if (!members->is(Json::kObject)) bad(where + ".properties", "an object", *members);
    for (size_t i = 0; i < members->items.size(); ++i) {
      const Json& one = members->items[i];
      if (!one.is(Json::kObject) && !one.is(Json::kBool)) bad(where + ".properties." + members->names[i], "a JSON schema", one);
    }
  }
  const Json* required = schema.find("required");
  if (!required) return;
  if (!required->is(Json::kArray)) bad(where + ".required", "a list of names", *required);
  for (size_t i = 0; i < required->items.size(); ++i) {
    if (!required->items[i].is(Json::kString)) bad(item(where + ".required", i), "a name", required->items[i]);
  }
}

const Json& function_of(const Json& value, const std::string& where) {
  const Json& type = field(value, where, "type", Json::kString);
  if (type.text != "function")
    refuse(where + ".type", where + ".type: expected \"function\", found " + std::string(type.raw), "unsupported_value");
  return field(value, where, "function", Json::kObject);
}

}  // namespace

void read_function(const Json& function, const std::string& where, Request* r) {
  const Json& name = field(function, where, "name", Json::kString);
  check_name(name, where + ".name");
  if (std::find(r->tool_names.begin(), r->tool_names.end(), name.text) != r->tool_names.end())
    expected(where + ".name", "another name than those of the tools before", &name);
  r->tool_names.push_back(name.text);
  (void)find_field(function, where, "description", Json::kString);
  (void)find_field(function, where, "strict", Json::kBool);
  if (const Json* parameters = function.find("parameters")) check_parameters(*parameters, where + ".parameters");
}

void read_tools(const Json& list, Request* r) {
  if (!list.is(Json::kArray)) expected("tools", "a list", &list);
  if (list.items.size() > kToolsMax)
    refuse("tools", "tools: expected at most " + std::to_string(kToolsMax) + ", found " + std::to_string(list.items.size()));
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Json& function = function_of(list.items[i], item("tools", i));
    read_function(function, item("tools", i) + ".function", r);
  }
  if (!list.items.empty()) r->tools = list.raw;
}

void read_tool_choice(const Json& v, Request* r) {
  constexpr const char* kWhat = "none, auto, required or a function";
  r->options.tool_choice = KVRT_TOOL_CHOICE_NAMED;
  if (v.is(Json::kString)) {
    constexpr std::array<std::string_view, 3> kNames = {"none", "auto", "required"};
    const auto found = std::find(kNames.begin(), kNames.end(), v.text);
    if (found == kNames.end()) expected("tool_choice", kWhat, &v);
    // auto is kvrt's default: of a tool whose schema cannot be bound, the arguments' types are.
    constexpr std::array<uint32_t, 3> kChoices = {KVRT_TOOL_CHOICE_NONE, KVRT_TOOL_CHOICE_DEFAULT, KVRT_TOOL_CHOICE_REQUIRED};
    r->options.tool_choice = kChoices[static_cast<size_t>(found - kNames.begin())];
    return;
  }
  if (!v.is(Json::kObject)) expected("tool_choice", kWhat, &v);
  r->tool_name = field(function_of(v, "tool_choice"), "tool_choice.function", "name", Json::kString).text;
}

void drop_tools(Request* r) {
  r->tools.clear();
  r->options.tool_choice = KVRT_TOOL_CHOICE_DEFAULT;
  r->options.parallel_calls_max = 0;
}

void settle_calls(Request* r) {
  if (r->must_call()) r->grammar.clear(), r->options.grammar_kind = KVRT_GRAMMAR_DEFAULT;
  if (!r->grammar.empty() && r->options.tool_choice == KVRT_TOOL_CHOICE_DEFAULT) r->options.tool_choice = KVRT_TOOL_CHOICE_AUTO;
  if (r->tools.empty()) drop_tools(r);
  r->options.reply = KVRT_REPLY_AUTO;
}
