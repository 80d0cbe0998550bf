// Operators.
#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

const char* spelling(Op op) {
  static const char* const kSpellings[] = {
      "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"};
  return kSpellings[static_cast<size_t>(op)];
}

bool is_nan(Value v) { return std::isnan(v.as_real()); }

bool is_spelled(Value v) { return v.is(Kind::kDict) && v.dict->spelled; }

// Python's // and % of floats: the quotient is rounded down, the rest has the divisor's sign.
Value divide_down(Op op, double x, double y) {
  double rest = std::fmod(x, y), quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) {
    rest += y;
    quotient -= 1;
  }
  if (op == Op::kMod) return Value::of(rest == 0 ? std::copysign(0.0, y) : rest);
  if (quotient == 0) return Value::of(std::copysign(0.0, x / y));
  double whole = std::floor(quotient);
  return Value::of(quotient - whole > 0.5 ? whole + 1 : whole);
}

}  // namespace

Value Renderer::evaluate_binary(const Expr& e) {
  Value left = evaluate(*e.kids[0]);
  bool comparison = e.ops[0] >= Op::kEq && e.ops[0] <= Op::kNotIn;
  for (size_t i = 0; i < e.ops.size() && spend(e.at, 1); ++i) {
    Op op = e.ops[i];
    if (op == Op::kAnd || op == Op::kOr) {
      if (truth(left) == (op == Op::kOr)) return left;
      left = evaluate(*e.kids[i + 1]);
      continue;
    }
    Value right = evaluate(*e.kids[i + 1]);
    if (failed()) return {};
    if (!comparison) {
      left = apply(op, e.kids[i + 1]->at, left, right);
    } else if (!compare(op, e.kids[i + 1]->at, left, right)) {
      return Value::of(false);
    } else {
      left = right;  // a < b < c
    }
  }
  return comparison ? Value::of(true) : left;
}

Value Renderer::concat(uint32_t at, Value a, Value b) {
  std::string_view left = str(at, a), right = str(at, b);
  if (!spend(at, right.size() / 256)) return {};
  std::string_view joined = arena_->concat(left, right);
  return Value::of(joined.empty() ? std::string_view("") : joined);
}

// Escaped text escapes what it is added to.
Value Renderer::add_texts(uint32_t at, Value a, Value b) {
  const bool markup = a.markup || b.markup;
  if (markup && !a.markup) a = escape_text(*this, at, a.str());
  if (markup && !b.markup) b = escape_text(*this, at, b.str());
  Value sum = failed() ? Value() : concat(at, a, b);
  sum.markup = markup && sum.is(Kind::kString);
  return sum;
}

// The items of two lists, or of two tuples.
Value Renderer::join(uint32_t at, Value a, Value b) {
  auto joined = make_list();
  for (const List* part : {a.list, b.list}) {
    if (!spend(at, part->size / 16)) return {};
    for (uint32_t i = 0; i < part->size && joined != nullptr; ++i) joined->push(arena_, part->data[i]);
  }
  return Value::of(joined, a.kind);
}

// Of texts, of which one may be a dict that is spelled as one, and of sequences of one kind. False: Python does not add such values.
bool Renderer::add(uint32_t at, Value a, Value b, Value* sum) {
  if (a.is(Kind::kString) && is_spelled(b)) b = Value::of(str(at, b));
  if (b.is(Kind::kString) && is_spelled(a)) a = Value::of(str(at, a));
  if (a.is(Kind::kString) && b.is(Kind::kString)) return *sum = add_texts(at, a, b), true;
  if (a.kind != b.kind || !a.is_plain() || !b.is_plain()) return false;
  return *sum = join(at, a, b), true;
}

// Of two numbers.
Value Renderer::calculate(Op op, uint32_t at, Value a, Value b) {
  if (a.is(Kind::kBig) || b.is(Kind::kBig)) return unsupported(at, "an integer beyond 64 bits");
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
      return arithmetic(op, at, a, b);
    case Op::kPow:
      return power(at, a, b);
    default:
      return divide(op, at, a, b);
  }
}

Value Renderer::apply(Op op, uint32_t at, Value a, Value b) {
  if (op == Op::kConcat) return concat(at, a, b);
  if (a.is_number() && b.is_number()) return calculate(op, at, a, b);
  Value sum;
  if (op == Op::kAdd && add(at, a, b, &sum)) return sum;
  if (op == Op::kMod && a.is(Kind::kString))
    return a.markup ? unsupported(at, "operator % of escaped text") : format_percent(*this, at, a.str(), b);
  if (op == Op::kMul && b.is_integral()) return repeat(at, a, b.as_int());
  if (op == Op::kMul && a.is_integral()) return repeat(at, b, a.as_int());
  return no_operator(op, at, a, b);
}

Value Renderer::no_operator(Op op, uint32_t at, Value a, Value b) {
  if (undefined(at, a) || undefined(at, b)) return {};
  if (op == Op::kSub && a.is_sequence() && a.list->form == ListForm::kView) return unsupported(at, "operator - of a view");
  return fail(at, std::string("unsupported operands of ") + spelling(op) + ": " + type_name(a) + " and " + type_name(b));
}

Value Renderer::arithmetic(Op op, uint32_t at, Value a, Value b) {
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) {
    double x = a.as_real(), y = b.as_real();
    return Value::of(op == Op::kAdd ? x + y : op == Op::kSub ? x - y : x * y);
  }
  int64_t x = a.as_int(), y = b.as_int(), z;
  bool overflow = op == Op::kAdd   ? __builtin_add_overflow(x, y, &z)
                  : op == Op::kSub ? __builtin_sub_overflow(x, y, &z)
                                   : __builtin_mul_overflow(x, y, &z);
  return overflow ? unsupported(at, "an integer beyond 64 bits") : Value::of(z);
}

Value Renderer::divide(Op op, uint32_t at, Value a, Value b) {
  if (b.as_real() == 0) return fail(at, "division by zero");
  if (op == Op::kDiv) return Value::of(a.as_real() / b.as_real());
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) return divide_down(op, a.as_real(), b.as_real());
  int64_t x = a.as_int(), y = b.as_int();
  if (x == INT64_MIN && y == -1) return op == Op::kMod ? Value::of(int64_t{0}) : unsupported(at, "an integer beyond 64 bits");
  int64_t quotient = x / y, rest = x % y;
  if (rest != 0 && (rest < 0) != (y < 0)) {
    --quotient;
    rest += y;
  }
  return Value::of(op == Op::kMod ? rest : quotient);
}

Value Renderer::whole_power(uint32_t at, int64_t base, int64_t exponent) {
  if (exponent == 0 || base == 1) return Value::of(int64_t{1});
  if (base == 0 || base == -1) return Value::of(exponent % 2 != 0 ? base : base * base);
  Value result = Value::of(int64_t{1}), square = Value::of(base);
  for (int64_t left = exponent; left > 0 && !failed(); left /= 2) {
    if (left % 2 != 0) result = arithmetic(Op::kMul, at, result, square);
    if (left > 1) square = arithmetic(Op::kMul, at, square, square);
  }
  return result;
}

// Whole numbers by squaring; Python's big ones are not supported, nor are its complex ones.
Value Renderer::power(uint32_t at, Value a, Value b) {
  const double x = a.as_real(), y = b.as_real();
  // Jinja2 writes a negative constant into Python without parentheses: -2 ** x may be -(2 ** x) there.
  if (x < 0 && std::fmod(y, 2) == 0) return unsupported(at, "an even power of a negative number");
  const bool whole = a.is_integral() && b.is_integral() && b.as_int() >= 0;
  if (whole) return whole_power(at, a.as_int(), b.as_int());
  if (x == 0 && y < 0) return fail(at, "zero to a negative power");
  const bool finite = std::isfinite(x) && std::isfinite(y);
  if (finite && x < 0 && y != std::floor(y)) return unsupported(at, "a complex number");
  const double result = std::pow(x, y);
  return finite && std::isinf(result) ? fail(at, "the result is too large") : Value::of(result);
}

Value Renderer::repeat(uint32_t at, Value v, int64_t count) {
  auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  if (v.is(Kind::kString)) {
    if (v.size == 0 || times == 0) return v.markup ? escape_text(*this, at, "") : text("");
    if (times > kTemplateHeapBytesMax / v.size) return heap_limit(at);
    TextBuilder out(arena_);
    if (!spend(at, v.size * times / 256 + times / 8)) return {};
    out.repeat(v.str(), times);
    Value repeated = out.value();
    repeated.markup = v.markup;
    return repeated;
  }
  if (!v.is_plain()) return type_error(at, "cannot repeat", v);
  auto out = make_list();
  if (times > kTemplateHeapBytesMax / sizeof(Value) / std::max(v.list->size, 1u)) times = v.list->size == 0 ? 0 : kTemplateHeapBytesMax;
  for (uint64_t i = 0; i < times && spend(at, 1 + v.list->size / 16); ++i) {
    for (uint32_t k = 0; k < v.list->size && out != nullptr; ++k) out->push(arena_, v.list->data[k]);
  }
  return Value::of(out, v.kind);
}

bool Renderer::compare(Op op, uint32_t at, Value a, Value b) {
  if (op == Op::kEq) return same(a, b);
  if (op == Op::kNe) return !same(a, b);
  if (op == Op::kIn || op == Op::kNotIn) return contains(at, b, a) == (op == Op::kIn);
  if (a.is_number() && b.is_number() && (is_nan(a) || is_nan(b))) return false;
  int sign = order(at, a, b);
  return op == Op::kLt ? sign < 0 : op == Op::kLe ? sign <= 0 : op == Op::kGt ? sign > 0 : sign >= 0;
}

// By the first items that differ, else by length.
int Renderer::order_items(uint32_t at, const List& a, const List& b) {
  uint32_t n = std::min(a.size, b.size);
  for (uint32_t i = 0; i < n && spend(at, 1); ++i) {
    if (!same(a.data[i], b.data[i])) return order(at, a.data[i], b.data[i]);
  }
  return a.size < b.size ? -1 : a.size > b.size;
}

int Renderer::order(uint32_t at, Value a, Value b) {
  if (a.is_number() && b.is_number()) {
    if (is_nan(a) || is_nan(b)) return unsupported(at, "ordering nan"), 0;
    if (!spend(at, (a.size + b.size) / 64)) return 0;
    return order_numbers(a, b);
  }
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    if (!spend(at, std::min(a.size, b.size) / 256)) return 0;
    int sign = a.str().compare(b.str());  // UTF-8 sorts as its code points do
    return sign < 0 ? -1 : sign > 0;
  }
  if (a.kind == b.kind && a.is_plain() && b.is_plain()) return order_items(at, *a.list, *b.list);
  return no_order(at, a, b);
}

int Renderer::no_order(uint32_t at, Value a, Value b) {
  if (undefined(at, a) || undefined(at, b)) return 0;
  if (a.is_sequence() && b.is_sequence() && a.list->form == ListForm::kView) return unsupported(at, "ordering views"), 0;
  return fail(at, std::string("no order between ") + type_name(a) + " and " + type_name(b)), 0;
}

// The list or dict that keeps Python from hashing the value; null: there is none.
const Value* Renderer::unhashable(uint32_t at, const Value* v) {
  if (v->is(Kind::kDict) || (v->is(Kind::kList) && v->list->form == ListForm::kPlain)) return v;
  for (uint32_t i = 0; v->is(Kind::kTuple) && i < v->list->size && spend(at, 1); ++i) {
    if (const Value* part = unhashable(at, &v->list->data[i])) return part;
  }
  return nullptr;
}

// Whether a generator gives the item: it takes those that it looks at.
bool Renderer::take_until(uint32_t at, List* items, Value item) {
  items->capacity = 0;
  bool found = false;
  while (items->size > 0 && !found && spend(at, 1)) {
    found = same(*items->data++, item);
    --items->size;
  }
  return found;
}

bool Renderer::contains(uint32_t at, Value container, Value item) {
  if (container.is(Kind::kString)) {
    if (!item.is(Kind::kString)) return type_error(at, "'in <string>' requires a string, found", item), false;
    return spend(at, search_steps(container.str(), item.str())) && find_text(container.str(), item.str()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) {
    if (const Value* part = unhashable(at, &item)) return fail(at, std::string("a key cannot be a ") + type_name(*part)), false;
    return find(at, *container.dict, item) != nullptr;
  }
  if (container.is_sequence() && container.list->form == ListForm::kGenerator) return take_until(at, container.list, item);
  bool view = container.is_sequence() && container.list->form == ListForm::kView;
  if (view && (item.is(Kind::kList) || unhashable(at, &item))) return unsupported(at, "looking for a list or dict in a view"), false;
  const List* items = iterate(at, container);
  if (items == nullptr || !spend(at, items->size / 4)) return false;
  return std::any_of(items->data, items->data + items->size, [&](Value v) { return same(v, item); });
}

}  // namespace kvrt::jinja
