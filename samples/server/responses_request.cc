// A request of /v1/responses.
#include <algorithm>

#include "error.h"
#include "request.h"

namespace {

constexpr size_t kMetadataMax = 16, kMetadataNameMax = 64, kMetadataTextMax = 512;  // as OpenAI's

// Refuses a member that is none of `names`.
void check_members(const Json& object, const std::string& where, std::initializer_list<std::string_view> names) {
  if (!object.is(Json::kObject)) expected(where, "an object", &object);
  for (const std::string& name : object.names) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse(where + "." + name, "unrecognized request argument: " + where + "." + name, "unknown_parameter");
  }
}

// A text that is one of `names`.
void check_one_of(const Json& object, const std::string& where, const char* name, std::initializer_list<std::string_view> names) {
  const Json* value = find_field(object, where, name, Json::kString);
  if (!value || std::find(names.begin(), names.end(), value->text) != names.end()) return;
  std::string what;
  for (const std::string_view n : names) what += (what.empty() ? "" : n == *(names.end() - 1) ? " or " : ", ") + std::string(n);
  expected(where + "." + name, what, value);
}

void read_response_input(const Json& v, Request* r) {
  if (!v.is(Json::kString)) {
    r->messages = read_input(v);
    return;
  }
  Message m;
  m.role = "user", m.content = v.text;
  r->messages = {m};
}

// A function as templates take it, and as the response says it. `strict` changes nothing, so the model does not read it.
void write_function(const Json& tool, bool flat, JsonWriter* w) {
  w->begin('{').pair("type", "function");
  if (!flat) w->key("function").begin('{');
  w->pair("name", tool.find("name")->text);
  for (const char* name : {"description", "parameters", "strict"}) {
    const Json* value = tool.find(name);
    const bool strict = std::string_view(name) == "strict";
    if (value && (flat || !strict)) w->key(name).raw(value->raw);
    if (!value && flat && std::string_view(name) != "description") w->key(name).null();
  }
  if (!flat) w->end('}');
  w->end('}');
}

std::string read_tool_list(const Json* list, Request* r) {
  JsonWriter said, tools;
  said.begin('['), tools.begin('[');
  const size_t count = list ? list->items.size() : 0;
  if (count > 2048) refuse("tools", "tools: expected at most 2048, found " + std::to_string(count));
  for (size_t i = 0; i < count; ++i) {
    const Json& tool = list->items[i];
    const std::string& type = field(tool, item("tools", i), "type", Json::kString).text;
    if (type != "function") {  // one that OpenAI's servers run, or one without a schema: nothing that this model could call
      std::vector<std::string>& out = r->response.left_out;
      if (std::find(out.begin(), out.end(), type) == out.end()) out.push_back(type);
      continue;
    }
    read_function(tool, item("tools", i), r);
    write_function(tool, true, &said), write_function(tool, false, &tools);
  }
  if (!r->tool_names.empty()) r->tools = tools.end(']').take();
  return said.end(']').take();
}

void read_choice(const Json& v, Request* r) {
  if (v.is(Json::kString)) return read_tool_choice(v, r);
  if (!v.is(Json::kObject)) expected("tool_choice", "none, auto, required or a function", &v);
  const Json& type = field(v, "tool_choice", "type", Json::kString);
  if (type.text != "function")
    refuse("tool_choice.type", "tool_choice.type: expected function, found " + std::string(type.raw), "unsupported_value");
  r->options.tool_choice = KVRT_TOOL_CHOICE_NAMED;
  r->tool_name = field(v, "tool_choice", "name", Json::kString).text;
}

void read_text_config(const Json& v, Request* r) {
  check_members(v, "text", {"format", "verbosity"});
  check_one_of(v, "text", "verbosity", {"low", "medium", "high"});
  const Json* format = find_field(v, "text", "format", Json::kObject);
  if (!format) return;
  const Json& type = field(*format, "text.format", "type", Json::kString);
  if (type.text == "text") return;
  r->options.grammar_kind = KVRT_GRAMMAR_JSON_SCHEMA;
  if (type.text == "json_object") {
    r->grammar = R"({"type":"object"})";
  } else if (type.text == "json_schema") {
    (void)field(*format, "text.format", "name", Json::kString);
    r->grammar = field(*format, "text.format", "schema", Json::kObject).raw;
  } else {
    expected("text.format.type", "text, json_object or json_schema", &type);
  }
}

void read_reasoning(const Json& v, Request* r) {
  check_members(v, "reasoning", {"effort", "summary", "generate_summary", "context", "mode"});
  check_one_of(v, "reasoning", "effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  check_one_of(v, "reasoning", "summary", {"auto", "concise", "detailed"});
  if (const Json* effort = v.find("effort")) add_variables("\"reasoning_effort\":" + std::string(effort->raw), r);
}

void read_include(const Json& v, Request* r) {
  constexpr std::string_view kNothing[] = {"file_search_call.results",
                                           "web_search_call.results",
                                           "web_search_call.action.sources",
                                           "message.input_image.image_url",
                                           "computer_call_output.output.image_url",
                                           "code_interpreter_call.outputs"};  // of what this server has none of
  if (!v.is(Json::kArray)) expected("include", "a list", &v);
  for (size_t i = 0; i < v.items.size(); ++i) {
    const std::string& name = text(v.items[i], item("include", i));
    if (name == "message.output_text.logprobs")
      r->logprobs = true;
    else if (name == "reasoning.encrypted_content")
      r->response.encrypted = true;
    else if (std::find(std::begin(kNothing), std::end(kNothing), name) == std::end(kNothing))
      expected(item("include", i), "a part of a response", &v.items[i]);
  }
}

void read_metadata(const Json& v, Request*) {
  if (!v.is(Json::kObject)) expected("metadata", "an object", &v);
  if (v.items.size() > kMetadataMax) refuse("metadata", "metadata: expected at most 16 members, found " + std::to_string(v.items.size()));
  for (size_t i = 0; i < v.items.size(); ++i) {
    if (v.names[i].size() > 4 * kMetadataNameMax) refuse("metadata", "metadata: expected names of at most 64 characters");
    if (text(v.items[i], "metadata." + v.names[i]).size() > 4 * kMetadataTextMax)
      refuse("metadata." + v.names[i], "metadata." + v.names[i] + ": expected at most 512 characters");
  }
}

const Field kResponseFields[] = {
    {"input", read_response_input},
    {"instructions", [](const Json& v, Request* r) { r->response.instructions = text(v, "instructions"); }},
    {"previous_response_id", [](const Json& v, Request* r) { r->response.previous = text(v, "previous_response_id"); }},
    {"store", [](const Json& v, Request* r) { r->response.store = flag(v, "store"); }},
    {"max_output_tokens",
     [](const Json& v, Request* r) {
       if (!v.is(Json::kNumber) || v.number != -1) r->options.max_tokens = integer(v, "max_output_tokens", 1, kTokensMax);
     }},
    {"tools",
     [](const Json& v, Request*) {
       if (!v.is(Json::kArray)) expected("tools", "a list", &v);
     }},
    {"tool_choice", read_choice},
    {"parallel_tool_calls", [](const Json& v, Request* r) { r->options.parallel_calls_max = flag(v, "parallel_tool_calls") ? 0 : 1; }},
    {"text", read_text_config},
    {"reasoning", read_reasoning},
    {"include", read_include},
    {"metadata", read_metadata},
    {"top_logprobs", [](const Json& v, Request* r) { r->options.top_logprobs = integer(v, "top_logprobs", 0, 20); }},
    {"max_tool_calls", [](const Json& v, Request*) { (void)integer(v, "max_tool_calls", 0, kTokensMax); }},  // of tools of OpenAI's servers
    {"truncation",
     [](const Json& v, Request*) {
       if (text(v, "truncation") != "disabled")
         refuse("truncation", "truncation: expected disabled, as this server drops nothing of a conversation, found " + std::string(v.raw),
                "unsupported_value");
     }},
    {"background",
     [](const Json& v, Request*) {
       if (flag(v, "background")) refuse("background", "background is not supported by this server", "unsupported_parameter");
     }},
    {"chat_template_kwargs", read_template_kwargs},
    {"thinking_budget", [](const Json& v, Request* r) { r->options.reasoning_tokens_max = integer(v, "thinking_budget", 1, kTokensMax); }},
    {"client_metadata", nullptr},
    {"prompt_cache_options", nullptr},
};

// Known to OpenAI's API and not to this server.
constexpr std::string_view kRefusedInResponses[] = {"conversation", "prompt", "context_management", "moderation"};

// What the response says of the request. Only members that were checked: a client reads them by their types.
std::string said_of(const Json& object, std::string_view tools) {
  constexpr std::pair<const char*, const char*> kSame[] = {{"instructions", "null"},
                                                           {"max_output_tokens", "null"},
                                                           {"max_tool_calls", "null"},
                                                           {"metadata", "{}"},
                                                           {"parallel_tool_calls", "true"},
                                                           {"previous_response_id", "null"},
                                                           {"prompt_cache_key", "null"},

                                                           {"temperature", "1"},
                                                           {"tool_choice", "\"auto\""},
                                                           {"top_logprobs", "0"},
                                                           {"top_p", "1"}};
  JsonWriter w;
  for (const auto& [name, otherwise] : kSame) {
    const Json* value = object.find(name);
    w.key(name).raw(value ? value->raw : otherwise);
  }
  w.pair("truncation", "disabled").pair("service_tier", "default").key("background").raw("false");
  const auto part = [&](const char* of, const char* name, const char* otherwise) {
    const Json* outer = object.find(of);
    const Json* value = outer ? outer->find(name) : nullptr;
    w.key(name).raw(value ? value->raw : otherwise);
  };
  w.key("reasoning").begin('{');
  part("reasoning", "effort", "null"), part("reasoning", "summary", "null");
  w.end('}').key("text").begin('{');
  part("text", "format", R"({"type":"text"})"), part("text", "verbosity", R"("medium")");
  return w.end('}').key("tools").raw(tools).take();
}

}  // namespace

Request read_response_request(std::string_view body) {
  Request r;
  r.options.temperature = 1;
  const Json object = read_object(body);
  read_fields(object, {kResponseFields, kSamplingFields}, kRefusedInResponses, &r);
  if (r.messages.empty())
    refuse("input", object.find("input") ? "input: expected a message, a call or its result" : "input is missing",
           "missing_required_parameter");
  r.response.said = said_of(object, read_tool_list(object.find("tools"), &r));
  if (r.must_call() && r.tools.empty()) refuse("tool_choice", "tool_choice: there are no functions");
  if (!r.tool_name.empty() && std::find(r.tool_names.begin(), r.tool_names.end(), r.tool_name) == r.tool_names.end())
    refuse("tool_choice.name", "tool_choice.name: there is no function \"" + r.tool_name + "\"");
  settle_calls(&r);
  return r;
}
