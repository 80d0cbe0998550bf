// The environment of templates: filters, tests, functions and the methods of values, as tables of plain functions.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template/value.h"

namespace kvrt::jinja {

class Renderer;
struct Args;

// Arguments of a call as they were written.
struct Arguments {
  std::vector<Value> list;
  std::vector<std::pair<std::string_view, Value>> named;
  const Args* written = nullptr;  // null: no call in the template wrote them
};

// A call of a builtin: its arguments in the order of its parameters, absent where not given.
struct Call {
  uint32_t at = 0;
  std::string_view name;
  Value self;  // the value filtered or tested, the object of a method
  std::span<const Value> args;
  const Arguments* raw = nullptr;

  bool has(size_t i) const { return i < args.size() && !(args[i].is(Kind::kUndefined) && args[i].text == nullptr); }
  bool given(size_t i) const { return has(i) && !args[i].is(Kind::kNone); }  // None counts as left out
  Value operator[](size_t i) const { return args[i]; }
};

using BuiltinFunction = Value (*)(Renderer& r, const Call& call);

// What a builtin does with a text that |safe or |escape made: it is refused by name; taken as any text; or so, and the texts of the result
// are such, too.
enum class Markup : uint8_t { kRefuse, kTake, kKeep };

struct Builtin {
  std::string_view name;
  // The parameters' names; "/" first: they cannot be named; "*": any arguments, to be read from Call::raw.
  std::string_view params;
  uint32_t required;
  BuiltinFunction run;  // null: known to Jinja or Python, not supported
  Markup markup = Markup::kRefuse;
};

// Null: Jinja and Python have no such thing either.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(Value self, std::string_view name);

// The tables' parts, by file.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> sorting_filters();
std::span<const Builtin> selection_filters();
std::span<const Builtin> tests();
std::span<const Builtin> functions();
std::span<const Builtin> string_methods();
std::span<const Builtin> string_search_methods();
std::span<const Builtin> string_property_methods();
std::span<const Builtin> container_methods(Kind kind);

}  // namespace kvrt::jinja
