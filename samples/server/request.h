// A request of OpenAI's API as kvrt takes it. A field that is unknown, or that the server cannot honour, is refused by its name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"
#include "kvrt.hpp"

struct ToolCall {
  std::string id, name, arguments;  // arguments: JSON, an object, or else the string that the client sent
};

struct Message {
  std::string role, content;
  std::string reasoning;        // of an assistant's
  std::vector<ToolCall> calls;  // of an assistant's
  std::string call_id, name;    // of a tool's; name also of others

  std::string json() const;  // as kvrt takes it
  // What it says, without what clients leave out or change when they send an answer back: ids and reasoning.
  std::string said() const;
};

struct Prompt {  // of /v1/completions: a text or tokens
  std::string text;
  std::vector<int32_t> tokens;
};

struct ResponseFields {  // of /v1/responses
  std::string id;        // of the response; "": the request is another endpoint's
  std::string previous;  // previous_response_id
  std::string answer;    // of that one: the message as its session has it
  size_t answer_at = 0;  // its place in the messages
  std::string instructions;
  std::string said;                   // members of the response that say what the request said
  std::vector<std::string> left_out;  // types of tools that are none of the model's
  bool store = true, encrypted = false;
};

struct Request {
  std::string model;
  std::vector<Message> messages;  // of /v1/chat/completions and /v1/responses
  std::vector<Prompt> prompts;    // of /v1/completions
  std::string tools;              // a JSON array; "": none
  std::vector<std::string> tool_names;
  std::string variables = "{}";  // of the chat template: a JSON object
  std::string cache_key;

  bool stream = false, include_usage = false;
  bool logprobs = false, echo = false;
  uint32_t n = 1, best_of = 0;

  // The sampling; the texts that it refers to are below.
  kvrt_generate_options options = kvrt::init<kvrt_generate_options>();
  std::string stop, grammar, tool_name, prediction;
  std::vector<kvrt_token_value> bias;
  bool max_tokens_given = false, seeded = false;
  bool no_answer = false;             // max_tokens is 0: the prompt alone comes back
  std::optional<bool> draft, lookup;  // none: as the server's options say
  bool continues = false;             // `cut` is an answer that goes on; it is none of the messages
  Message cut;
  ResponseFields response;

  // Its answers are calls alone.
  bool must_call() const { return options.tool_choice == KVRT_TOOL_CHOICE_REQUIRED || options.tool_choice == KVRT_TOOL_CHOICE_NAMED; }
  // Options that refer to this request's texts; for choice `index`.
  kvrt_generate_options generate_options(uint32_t index) const;
};

Request read_chat_request(std::string_view body);
Request read_text_request(std::string_view body);
Request read_response_request(std::string_view body);

// What a field says to a request. Null: the field is taken and says nothing here.
using Read = void (*)(const Json&, Request*);
struct Field {
  const char* name;
  Read read;
};
extern const std::span<const Field> kSamplingFields;  // those that all endpoints have

// A body, which has to be an object.
Json read_object(std::string_view body);
// Its fields by the tables, of which the first that has a name counts. `refused`: names that are known, and not supported.
void read_fields(const Json& object, std::initializer_list<std::span<const Field>> tables, std::span<const std::string_view> refused,
                 Request* r);

// The value of a field; 400 where it is another.
double number(const Json& v, const std::string& name, double least, double most);
uint32_t integer(const Json& v, const std::string& name, uint32_t least, uint32_t most);
bool flag(const Json& v, const std::string& name);
const std::string& text(const Json& v, const std::string& name);
constexpr uint32_t kTokensMax = 1u << 30;
// Adds members to the variables of the chat template.
void add_variables(std::string_view members, Request* r);
void read_template_kwargs(const Json& value, Request* r);  // the field chat_template_kwargs

// A field has another value than expected: 400. Null: it is missing.
[[noreturn]] void expected(std::string_view field, std::string_view what, const Json* found);
// The field of an object; `where`: the object's own. Null where it is missing.
const Json* find_field(const Json& object, const std::string& where, const char* name, Json::Kind kind);
const Json& field(const Json& object, const std::string& where, const char* name, Json::Kind kind);
std::string item(std::string_view list, size_t index);  // "list[index]"
// A text, or parts that are all text, of these types; `expects`: what a client is told of another.
std::string read_parts(const Json& value, const std::string& where, std::span<const std::string_view> types, const char* expects);

// The list `messages` of a request.
std::vector<Message> read_messages(const Json& list);
// The arguments of a call as kvrt takes them: the object, or else the text that they are: what a model wrote wrongly, was cut, or is too deep.
std::string arguments_of(std::string_view text);
// Matches results of calls with the calls by their ids: gives them the functions' names, which OpenAI's form says at the calls alone, and puts
// those of one message's calls in the order of these.
void match_results(std::vector<Message>* messages);

// The list `input` of /v1/responses.
std::vector<Message> read_input(const Json& list);

// A function that may be called; `where`: the object that has its name. Its name is added to those of the request.
void read_function(const Json& function, const std::string& where, Request* r);
// The fields `tools` and `tool_choice` of a chat.
void read_tools(const Json& list, Request* r);
void read_tool_choice(const Json& value, Request* r);
void drop_tools(Request* r);
// Once all is read. Beside a schema the answer is calls, or content that fits; where only calls may come, it binds nothing.
void settle_calls(Request* r);
