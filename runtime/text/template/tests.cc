// Tests, which stand behind `is`.
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

struct Comparison {
  std::string_view name;
  Op op;
};
constexpr Comparison kComparisons[] = {{"eq", Op::kEq}, {"equalto", Op::kEq}, {"==", Op::kEq}, {"ne", Op::kNe},
                                       {"!=", Op::kNe}, {"lt", Op::kLt},      {"<", Op::kLt},  {"lessthan", Op::kLt},
                                       {"le", Op::kLe}, {"<=", Op::kLe},      {"gt", Op::kGt}, {"greaterthan", Op::kGt},
                                       {">", Op::kGt},  {"ge", Op::kGe},      {">=", Op::kGe}, {"in", Op::kIn}};

Value compare(Renderer& r, const Call& c) {
  for (const Comparison& known : kComparisons) {
    if (known.name == c.name) return Value::of(r.compare(known.op, c.at, c.self, c[0]));
  }
  return {};
}

template <Kind kind>
Value is_kind(Renderer&, const Call& c) {
  return Value::of(c.self.is(kind));
}

Value is_defined(Renderer&, const Call& c) { return Value::of(!c.self.is(Kind::kUndefined)); }
Value is_integer(Renderer&, const Call& c) { return Value::of(c.self.is(Kind::kInt) || c.self.is(Kind::kBig)); }
Value is_number(Renderer&, const Call& c) { return Value::of(c.self.is_number()); }
Value is_true(Renderer&, const Call& c) { return Value::of(c.self.is(Kind::kBool) && c.self.boolean); }
Value is_false(Renderer&, const Call& c) { return Value::of(c.self.is(Kind::kBool) && !c.self.boolean); }
Value is_escaped(Renderer&, const Call& c) { return Value::of(c.self.markup); }

bool of_items(Value v) { return v.is(Kind::kDict) || v.is(Kind::kString) || v.is(Kind::kUndefined); }
Value is_iterable(Renderer&, const Call& c) { return Value::of(c.self.is_sequence() || of_items(c.self) || c.self.is(Kind::kLoop)); }
Value is_sequence(Renderer&, const Call& c) { return Value::of(c.self.is_range_or_plain() || of_items(c.self)); }
Value is_callable(Renderer&, const Call& c) {
  return Value::of(c.self.is(Kind::kFunction) || c.self.is(Kind::kLoop) || c.self.is(Kind::kUndefined));
}

Value is_divisible(Renderer& r, const Call& c) {
  Value rest = r.apply(Op::kMod, c.at, c.self, c[0]);
  return r.failed() ? Value() : Value::of(r.same(rest, Value::of(int64_t{0})));
}

Value is_odd_or_even(Renderer& r, const Call& c) {
  Value rest = r.apply(Op::kMod, c.at, c.self, Value::of(int64_t{2}));
  return r.failed() ? Value() : Value::of(r.same(rest, Value::of(int64_t{c.name == "odd"})));
}

// Python's `is`, where it does not depend on how Python keeps its objects.
Value is_same(Renderer& r, const Call& c) {
  Value a = c.self, b = c[0];
  if (a.kind != b.kind) return Value::of(false);
  if (a.is(Kind::kNone)) return Value::of(true);
  if (a.is(Kind::kBool)) return Value::of(a.boolean == b.boolean);
  if (a.is_sequence() || a.is(Kind::kDict) || a.is(Kind::kNamespace)) return Value::of(a.list == b.list);
  return r.unsupported(c.at, std::string("test \"sameas\" of ") + type_name(a));
}

// islower, isupper of the value as a text.
Value is_case(Renderer& r, const Call& c) {
  std::string_view s = r.str(c.at, c.self);
  if (r.failed()) return {};
  return r.call(c.at, r.attribute(c.at, Value::of(s), c.name == "lower" ? "islower" : "isupper"), {});
}

Value is_filter(Renderer&, const Call& c) { return Value::of(c.self.is(Kind::kString) && find_filter(c.self.str()) != nullptr); }
Value is_test(Renderer&, const Call& c) { return Value::of(c.self.is(Kind::kString) && find_test(c.self.str()) != nullptr); }

constexpr Builtin kTests[] = {{"eq", "b", 1, compare, Markup::kTake},
                              {"equalto", "b", 1, compare, Markup::kTake},
                              {"==", "b", 1, compare, Markup::kTake},
                              {"ne", "b", 1, compare, Markup::kTake},
                              {"!=", "b", 1, compare, Markup::kTake},
                              {"lt", "b", 1, compare},
                              {"<", "b", 1, compare},
                              {"lessthan", "b", 1, compare},
                              {"le", "b", 1, compare},
                              {"<=", "b", 1, compare},
                              {"gt", "b", 1, compare},
                              {">", "b", 1, compare},
                              {"greaterthan", "b", 1, compare},
                              {"ge", "b", 1, compare},
                              {">=", "b", 1, compare},
                              {"in", "seq", 1, compare, Markup::kTake},
                              {"defined", "", 0, is_defined, Markup::kTake},
                              {"undefined", "", 0, is_kind<Kind::kUndefined>, Markup::kTake},
                              {"none", "", 0, is_kind<Kind::kNone>, Markup::kTake},
                              {"string", "", 0, is_kind<Kind::kString>, Markup::kTake},
                              {"mapping", "", 0, is_kind<Kind::kDict>, Markup::kTake},
                              {"boolean", "", 0, is_kind<Kind::kBool>, Markup::kTake},
                              {"integer", "", 0, is_integer, Markup::kTake},
                              {"float", "", 0, is_kind<Kind::kFloat>, Markup::kTake},
                              {"number", "", 0, is_number, Markup::kTake},
                              {"true", "", 0, is_true, Markup::kTake},
                              {"false", "", 0, is_false, Markup::kTake},
                              {"escaped", "", 0, is_escaped, Markup::kTake},
                              {"iterable", "", 0, is_iterable, Markup::kTake},
                              {"sequence", "", 0, is_sequence, Markup::kTake},
                              {"callable", "", 0, is_callable, Markup::kTake},
                              {"divisibleby", "num", 1, is_divisible},
                              {"odd", "", 0, is_odd_or_even},
                              {"even", "", 0, is_odd_or_even},
                              {"sameas", "other", 1, is_same},
                              {"lower", "", 0, is_case},
                              {"upper", "", 0, is_case},
                              {"filter", "", 0, is_filter},
                              {"test", "", 0, is_test}};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace kvrt::jinja
