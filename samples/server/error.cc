#include "error.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <span>

#include "json.h"

namespace {

// What kvrt says of a client's own words: a schema, tools, messages, the template that reads them. Its other messages are about calls and
// structs, which no client sees.
bool is_about_request(const kvrt::Error& error) {
  const std::string_view what = error.what();
  constexpr std::string_view kFirst[] = {"schema: ", "tool ", "tools: ", "messages: ", "template line "};
  return std::any_of(std::begin(kFirst), std::end(kFirst), [&](std::string_view first) { return what.starts_with(first); });
}

// In place of kvrt's message, where it is not about the request; by its first words.
struct Words {
  std::string_view theirs, ours, param;
};
constexpr std::string_view kOfPrompt = "prompt", kOfSchema = "schema";  // a parameter: the field that has it
constexpr Words kInvalid[] = {
    {"variables: ", "chat_template_kwargs: expected an object, without messages, tools, documents and add_generation_prompt",
     "chat_template_kwargs"},
    {"logit_bias", "logit_bias: no token that may come is left", "logit_bias"},
    {"the grammar leaves", "no token of this model goes on with what response_format or tools allow", kOfSchema},
    {"chat template of ", "this model's chat template cannot be read: use /v1/completions", kOfPrompt},
    {"", "this server cannot answer such a request", ""},
};
constexpr Words kUnsupported[] = {
    {"tool_choice is AUTO beside a grammar",
     "a schema beside tools: this model's calls have no mark, and one would fit the schema: leave one of them out, or send tool_choice "
     "none",
     kOfSchema},
    {"tool_choice: ", "tool_choice: how this model calls tools is not known by its chat template: send none, or auto without a schema",
     "tool_choice"},
    {"variables: ", "chat_template_kwargs: an integer beyond 64 bits is not supported", "chat_template_kwargs"},
    {"chat template of ", "this model's chat template cannot be read: use /v1/completions", kOfPrompt},
    {"", "this model has no chat template, or one that asks for what this server cannot do: use /v1/completions", kOfPrompt},
};

// It may quote any bytes of a client's, and as many.
std::string quotable(const std::string& text) {
  constexpr size_t kMost = 2000;
  if (text.size() <= kMost) return valid_utf8(text);
  const std::string_view begin = std::string_view(text).substr(0, kMost);
  return valid_utf8(begin.substr(0, begin.size() - half_character(begin))) + "...";
}

ApiError in_our_words(const kvrt::Error& error, std::span<const Words> all, const char* code, std::string_view prompt,
                      std::string_view schema) {
  const std::string_view what = error.what();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Words& w) { return what.starts_with(w.theirs); });
  return ApiError(400, found->ours, code, found->param == kOfPrompt ? prompt : found->param == kOfSchema ? schema : found->param);
}

}  // namespace

const char* ApiError::type_of(int status) { return status == 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error"; }

std::string ApiError::json() const {
  JsonWriter w;
  const auto text_or_null = [&](const char* name, const std::string& text) {
    text.empty() ? w.key(name).null() : w.pair(name, quotable(text));
  };
  w.begin('{').key("error").begin('{').pair("message", quotable(message)).pair("type", type);
  text_or_null("param", param);
  text_or_null("code", code);
  return w.end('}').end('}').take();
}

ApiError ApiError::of(const kvrt::Error& error, std::string_view prompt, std::string_view schema) {
  const bool theirs = is_about_request(error);
  switch (error.status()) {
    case KVRT_INVALID:
      if (!theirs) return in_our_words(error, kInvalid, "invalid_value", prompt, schema);
      if (error.detail() == KVRT_DETAIL_GRAMMAR_ERROR) return ApiError(400, error.what(), "invalid_json_schema", schema);
      return ApiError(400, error.what(), "invalid_value", error.detail() == KVRT_DETAIL_TEMPLATE_ERROR ? prompt : std::string_view());
    case KVRT_UNSUPPORTED:
      if (!theirs) return in_our_words(error, kUnsupported, "unsupported_value", prompt, schema);
      return ApiError(400, error.what(), "unsupported_value", schema);
    case KVRT_LIMIT:
      if (theirs) return ApiError(400, error.what(), "limit_exceeded", error.detail() == KVRT_DETAIL_GRAMMAR_LIMIT ? schema : prompt);
      if (error.detail() == KVRT_DETAIL_GRAMMAR_LIMIT)
        return ApiError(400, "what response_format or tools allow is too ambiguous to follow in this answer", "limit_exceeded", schema);
      break;
    case KVRT_NO_MEMORY:
    case KVRT_BUSY:
    case KVRT_CANCELLED:
      break;
    default:
      return failed(error.what());
  }
  return busy();
}

ApiError ApiError::failed(std::string_view what) {
  std::cerr << "kvrt-server: a request failed: " + std::string(what) + "\n";
  return ApiError(500, "the server failed at this request: its log says why", "internal_error");
}

ApiError ApiError::busy() {
  return ApiError(503, "the server has no memory left for this request beside the others: send it again in a moment", "overloaded");
}

void refuse(std::string_view param, std::string_view message, std::string_view code) { throw ApiError(400, message, code, param); }
