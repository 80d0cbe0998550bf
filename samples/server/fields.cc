// What is expected of a request's fields, and how a refusal names them.
#include "error.h"
#include "request.h"

namespace {

const char* kind_name(Json::Kind kind) {
  constexpr const char* kNames[] = {"null", "true or false", "a number", "a string", "a list", "an object"};
  return kNames[kind];
}

}  // namespace

void expected(std::string_view field, std::string_view what, const Json* found) {
  const std::string message = std::string(field) + ": expected " + std::string(what) + ", found ";
  if (!found) refuse(field, message + "nothing", "missing_required_parameter");
  if (found->is(Json::kArray) || found->is(Json::kObject)) refuse(field, message + kind_name(found->kind));
  constexpr size_t kMost = 64;
  size_t end = std::min(found->raw.size(), kMost);
  while (end < found->raw.size() && (found->raw[end] & 0xC0) == 0x80) --end;  // whole characters
  refuse(field, message + std::string(found->raw.substr(0, end)) + (end < found->raw.size() ? "..." : ""));
}

const Json* find_field(const Json& object, const std::string& where, const char* name, Json::Kind kind) {
  const Json* found = object.find(name);
  if (found && !found->is(kind)) expected(where + "." + name, kind_name(kind), found);
  return found;
}

const Json& field(const Json& object, const std::string& where, const char* name, Json::Kind kind) {
  if (!object.is(Json::kObject)) expected(where, "an object", &object);
  const Json* found = find_field(object, where, name, kind);
  if (!found) expected(where + "." + name, kind_name(kind), nullptr);
  return *found;
}

std::string item(std::string_view list, size_t index) { return std::string(list) + "[" + std::to_string(index) + "]"; }
