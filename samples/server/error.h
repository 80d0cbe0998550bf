// What a client is told when its request fails, in OpenAI's form.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "kvrt.hpp"

struct ApiError : std::exception {
  int status;  // of HTTP
  std::string message, type, param, code;

  ApiError(int s, std::string_view what, std::string_view error_code, std::string_view parameter = {})
      : status(s), message(what), type(type_of(s)), param(parameter), code(error_code) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string json() const;  // {"error":{"message","type","param","code"}}

  static const char* type_of(int status);
  // A failed call of kvrt, in a client's terms; the fields that have the prompt and the schemas.
  static ApiError of(const kvrt::Error& error, std::string_view prompt = {}, std::string_view schema = {});
  // The machine's fault, or a defect: the log says `what`.
  static ApiError failed(std::string_view what);
  // For want of memory.
  static ApiError busy();
};

// A mistake in the request: 400.
[[noreturn]] void refuse(std::string_view param, std::string_view message, std::string_view code = "invalid_value");
