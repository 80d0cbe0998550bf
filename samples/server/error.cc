#include "error.h"

#include "json.h"

const char* ApiError::type_of(int status) { return status == 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error"; }

std::string ApiError::json() const {
  JsonWriter w;
  const auto text_or_null = [&](const char* name, const std::string& text) {
    text.empty() ? w.key(name).null() : w.pair(name, valid_utf8(text));
  };
  // It may quote any bytes of a client's.
  w.begin('{').key("error").begin('{').pair("message", valid_utf8(message)).pair("type", type);
  text_or_null("param", param);
  text_or_null("code", code);
  return w.end('}').end('}').take();
}

ApiError ApiError::of(const kvrt::Error& error, std::string_view prompt, std::string_view schema) {
  const auto make = [&](int status, const char* code, std::string_view param = {}) { return ApiError(status, error.what(), code, param); };
  switch (error.status()) {
    case KVRT_INVALID:
      if (error.detail() == KVRT_DETAIL_GRAMMAR_ERROR) return make(400, "invalid_json_schema", schema);
      return make(400, "invalid_value", error.detail() == KVRT_DETAIL_TEMPLATE_ERROR ? prompt : std::string_view());
    case KVRT_UNSUPPORTED:
      return make(400, "unsupported_value", schema);
    case KVRT_LIMIT:
      if (error.detail() == KVRT_DETAIL_GRAMMAR_LIMIT) return make(400, "limit_exceeded", schema);
      return make(400, error.detail() == KVRT_DETAIL_NONE ? "context_length_exceeded" : "limit_exceeded", prompt);
    case KVRT_NO_MEMORY:
    case KVRT_BUSY:
    case KVRT_CANCELLED:
      return make(503, "overloaded");
    default:
      return make(500, kvrt_status_name(error.status()));
  }
}

void refuse(std::string_view param, std::string_view message, std::string_view code) { throw ApiError(400, message, code, param); }
