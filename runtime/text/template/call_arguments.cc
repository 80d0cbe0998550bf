#include "runtime/text/template/call_arguments.h"

#include <algorithm>

#include "runtime/base/json.h"
#include "runtime/text/template/json_values.h"
#include "runtime/text/template/print.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

using std::string_view_literals::operator""sv;

const Value* member(const Value& of, std::string_view name, Kind kind) {
  const Value* found = of.is(Kind::kDict) ? of.dict->find(name) : nullptr;
  return found != nullptr && found->is(kind) ? found : nullptr;
}

std::string_view without_blanks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\n\r"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t\n\r") + 1 - begin);
}

Value as_text(Value object, Arena* arena) {
  TextBuilder json(arena);
  append_json(object, {}, &json);
  return json.value();
}

Value empty_object(Arena* arena) { return Value::of(create<Dict>(arena)); }

// The arguments as the template sees them.
Value seen(Value given, OddArguments odd, Arena* arena, CallArguments* found) {
  const bool string = given.is(Kind::kString);
  Value object = given;
  if (given.is(Kind::kNone) || (string && without_blanks(given.str()).empty())) {
    object = empty_object(arena);
  } else if (string) {
    auto parsed = parse_json(given.str(), "arguments", arena);
    object = parsed.is_ok() ? *parsed : Value();
  }
  if (!object.is(Kind::kDict)) {
    if (!string || arena->full()) return given;
    found->odd.push_back(given.str());
    if (odd != OddArguments::kWrapped) return given;
    object = empty_object(arena);
    if (object.is(Kind::kDict)) object.dict->set(arena, Value::of("arguments"sv), given);
  }
  if (!object.is(Kind::kDict)) return given;  // no memory
  if (odd == OddArguments::kAllText) return as_text(object, arena);
  object.dict->spelled = true;
  return object;
}

// A container's depth after something in it grew.
void deepen(uint32_t* depth, Value inner) { *depth = std::max(*depth, depth_of(inner) + 1); }

void set_in(Value function, OddArguments odd, Arena* arena, CallArguments* found) {
  const Value* given = function.dict->find("arguments");
  if (given == nullptr) return;
  ++found->calls;
  function.dict->set(arena, Value::of("arguments"sv), seen(*given, odd, arena, found));
}

}  // namespace

void set_call_arguments(Value message, OddArguments odd, Arena* arena, CallArguments* found) {
  if (const Value* call = member(message, "function_call", Kind::kDict)) {  // an older form
    set_in(*call, odd, arena, found);
    deepen(&message.dict->depth, *call);
  }
  const Value* calls = member(message, "tool_calls", Kind::kList);
  for (uint32_t i = 0; calls != nullptr && i < calls->list->size; ++i) {
    const Value call = calls->list->data[i];
    if (!call.is(Kind::kDict)) continue;
    const Value* function = member(call, "function", Kind::kDict);
    set_in(function != nullptr ? *function : call, odd, arena, found);
    if (function != nullptr) deepen(&call.dict->depth, *function);
    deepen(&calls->list->depth, call);
  }
  if (calls != nullptr) deepen(&message.dict->depth, *calls);
}

bool shows_all(std::string_view output, std::span<const std::string_view> strings) {
  constexpr size_t kLookedFor = 16;  // each is a walk over the output
  for (std::string_view string : strings.first(std::min(strings.size(), kLookedFor))) {
    string = without_blanks(string);
    size_t at = find_text(output, string), size = string.size();
    if (at == output.npos) {
      std::string quoted;
      append_json_string(string, &quoted);
      size = quoted.size() - 2;
      at = find_text(output, std::string_view(quoted).substr(1, size));
    }
    if (at == output.npos) return false;
    output.remove_prefix(at + size);
  }
  return true;
}

}  // namespace kvrt::jinja
