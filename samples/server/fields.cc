// What is expected of a request's fields, and how a refusal names them.
#include <algorithm>
#include <cmath>

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

double number(const Json& v, const std::string& name, double least, double most) {
  if (!v.is(Json::kNumber) || v.number < least || v.number > most) {
    JsonWriter bounds;
    bounds.begin('[').number(least).number(most).end(']');
    expected(name, "a number in " + bounds.take(), &v);
  }
  return v.number;
}

uint32_t integer(const Json& v, const std::string& name, uint32_t least, uint32_t most) {
  if (!v.is(Json::kNumber) || v.number < least || v.number > most || v.number != std::floor(v.number))
    expected(name, "a whole number from " + std::to_string(least) + " to " + std::to_string(most), &v);
  return static_cast<uint32_t>(v.number);
}

bool flag(const Json& v, const std::string& name) {
  if (!v.is(Json::kBool)) expected(name, "true or false", &v);
  return v.truth;
}

const std::string& text(const Json& v, const std::string& name) {
  if (!v.is(Json::kString)) expected(name, "a string", &v);
  return v.text;
}

void add_variables(std::string_view members, Request* r) {
  if (members.find_first_not_of(" \t\r\n") == members.npos) return;
  r->variables.insert(r->variables.size() - 1, (r->variables == "{}" ? "" : ",") + std::string(members));
}

void read_template_kwargs(const Json& v, Request* r) {
  if (!v.is(Json::kObject)) expected("chat_template_kwargs", "an object", &v);
  add_variables(v.raw.substr(1, v.raw.size() - 2), r);
}

Json read_object(std::string_view body) {
  Json object;
  try {
    object = read_json(body);
  } catch (const JsonError& e) {
    refuse("", e.what(), "invalid_json");
  }
  if (!object.is(Json::kObject)) refuse("", "the body: expected a JSON object", "invalid_json");
  return object;
}

void read_fields(const Json& object, std::initializer_list<std::span<const Field>> tables, std::span<const std::string_view> refused,
                 Request* r) {
  for (size_t i = 0; i < object.items.size(); ++i) {
    const std::string& name = object.names[i];
    const auto before = object.names.begin() + static_cast<ptrdiff_t>(i);  // known and different, all of them: few
    if (std::find(object.names.begin(), before, name) != before) refuse(name, name + " comes twice");
    const Json* value = object.items[i].is(Json::kNull) ? nullptr : &object.items[i];
    const bool no = std::find(refused.begin(), refused.end(), name) != refused.end();
    if (no && value) refuse(name, name + " is not supported by this server", "unsupported_parameter");
    const Field* found = nullptr;
    for (const std::span<const Field> table : tables) {
      const auto it = std::find_if(table.begin(), table.end(), [&](const Field& f) { return name == f.name; });
      if (!found && it != table.end()) found = &*it;
    }
    if (!found && !no) refuse(name, "unrecognized request argument: " + name, "unknown_parameter");
    if (value && found && found->read) found->read(*value, r);
  }
  if (r->model.empty()) refuse("model", "model is missing", "missing_required_parameter");
}
