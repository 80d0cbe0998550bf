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

bool is_spelled(Value v) { return v.is(Kind::kDict) && v.dict->spelled; }

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

Value Renderer::apply(Op op, uint32_t at, Value a, Value b) {
  if (op == Op::kConcat) return concat(at, a, b);
  if (op == Op::kAdd && a.is(Kind::kString) && is_spelled(b)) b = Value::of(str(at, b));
  if (op == Op::kAdd && b.is(Kind::kString) && is_spelled(a)) a = Value::of(str(at, a));
  if (op == Op::kAdd && a.is(Kind::kString) && b.is(Kind::kString)) return add_texts(at, a, b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::kBig) || b.is(Kind::kBig)) return unsupported(at, "an integer beyond 64 bits");
    if (op == Op::kPow) return power(at, a, b);
    return op == Op::kAdd || op == Op::kSub || op == Op::kMul ? arithmetic(op, at, a, b) : divide(op, at, a, b);
  }
  if (op == Op::kMod && a.markup) return unsupported(at, "operator % of escaped text");
  if (op == Op::kMod && a.is(Kind::kString)) return format_percent(*this, at, a.str(), b);
  if (op == Op::kMul && b.is_integral()) return repeat(at, a, b.as_int());
  if (op == Op::kMul && a.is_integral()) return repeat(at, b, a.as_int());
  if (op == Op::kAdd && a.kind == b.kind && a.is_sequence() && a.list->form == ListForm::kPlain && b.list->form == ListForm::kPlain) {
    auto sum = make_list();
    for (const List* part : {a.list, b.list}) {
      if (!spend(at, part->size / 16)) return {};
      for (uint32_t i = 0; i < part->size && sum != nullptr; ++i) sum->push(arena_, part->data[i]);
    }
    return Value::of(sum, a.kind);
  }
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
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) {
    double x = a.as_real(), y = b.as_real(), rest = std::fmod(x, y), quotient = (x - rest) / y;
    if (rest != 0 && (rest < 0) != (y < 0)) {
      rest += y;
      quotient -= 1;
    }
    if (op == Op::kMod) return Value::of(rest == 0 ? std::copysign(0.0, y) : rest);
    if (quotient == 0) return Value::of(std::copysign(0.0, x / y));
    double whole = std::floor(quotient);
    return Value::of(quotient - whole > 0.5 ? whole + 1 : whole);
  }
  int64_t x = a.as_int(), y = b.as_int();
  if (x == INT64_MIN && y == -1) return op == Op::kMod ? Value::of(int64_t{0}) : unsupported(at, "an integer beyond 64 bits");
  int64_t quotient = x / y, rest = x % y;
  if (rest != 0 && (rest < 0) != (y < 0)) {
    --quotient;
    rest += y;
  }
  return Value::of(op == Op::kMod ? rest : quotient);
}

// Whole numbers by squaring; Python's big ones are not supported, nor are its complex ones.
Value Renderer::power(uint32_t at, Value a, Value b) {
  // Jinja2 writes a negative constant into Python without parentheses: -2 ** x may be -(2 ** x) there.
  if (a.as_real() < 0 && std::fmod(b.as_real(), 2) == 0) return unsupported(at, "an even power of a negative number");
  bool real = a.is(Kind::kFloat) || b.is(Kind::kFloat) || b.as_int() < 0;
  if (!real) {
    Value result = Value::of(int64_t{1}), base = Value::of(a.as_int());
    if (a.as_int() >= -1 && a.as_int() <= 1)
      return b.as_int() == 0 || a.as_int() == 1 ? result : b.as_int() % 2 != 0 ? base : Value::of(a.as_int() * a.as_int());
    for (int64_t left = b.as_int(); left > 0 && !failed(); left /= 2) {
      if (left % 2 != 0) result = arithmetic(Op::kMul, at, result, base);
      if (left > 1) base = arithmetic(Op::kMul, at, base, base);
    }
    return result;
  }
  double x = a.as_real(), y = b.as_real();
  if (x == 0 && y < 0) return fail(at, "zero to a negative power");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y)) return unsupported(at, "a complex number");
  double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) return fail(at, "the result is too large");
  return Value::of(result);
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
  if (!v.is_sequence() || v.list->form != ListForm::kPlain) return type_error(at, "cannot repeat", v);
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
  if (a.is_number() && b.is_number() && (std::isnan(a.as_real()) || std::isnan(b.as_real()))) return false;
  int sign = order(at, a, b);
  return op == Op::kLt ? sign < 0 : op == Op::kLe ? sign <= 0 : op == Op::kGt ? sign > 0 : sign >= 0;
}

int Renderer::order(uint32_t at, Value a, Value b) {
  if (a.is_number() && b.is_number()) {
    if (std::isnan(a.as_real()) || std::isnan(b.as_real())) return unsupported(at, "ordering nan"), 0;
    if (!spend(at, (a.size + b.size) / 64)) return 0;
    return order_numbers(a, b);
  }
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    if (!spend(at, std::min(a.size, b.size) / 256)) return 0;
    int sign = a.str().compare(b.str());  // UTF-8 sorts as its code points do
    return sign < 0 ? -1 : sign > 0;
  }
  if (a.is_sequence() && a.kind == b.kind && a.list->form == ListForm::kPlain && b.list->form == ListForm::kPlain) {
    uint32_t n = std::min(a.list->size, b.list->size);
    for (uint32_t i = 0; i < n && spend(at, 1); ++i) {
      if (!same(a.list->data[i], b.list->data[i])) return order(at, a.list->data[i], b.list->data[i]);
    }
    return a.list->size < b.list->size ? -1 : a.list->size > b.list->size;
  }
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

bool Renderer::contains(uint32_t at, Value container, Value item) {
  if (container.is(Kind::kString)) {
    if (!item.is(Kind::kString)) return type_error(at, "'in <string>' requires a string, found", item), false;
    return spend(at, search_steps(container.str(), item.str())) && find_text(container.str(), item.str()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) {
    if (const Value* part = unhashable(at, &item)) return fail(at, std::string("a key cannot be a ") + type_name(*part)), false;
    return find(at, *container.dict, item) != nullptr;
  }
  if (container.is_sequence() && container.list->form == ListForm::kGenerator) {  // takes the items that it looks at
    List& items = *container.list;
    items.capacity = 0;
    bool found = false;
    while (items.size > 0 && !found && spend(at, 1)) {
      found = same(*items.data++, item);
      --items.size;
    }
    return found;
  }
  bool view = container.is_sequence() && container.list->form == ListForm::kView;
  if (view && (item.is(Kind::kList) || unhashable(at, &item))) return unsupported(at, "looking for a list or dict in a view"), false;
  const List* items = iterate(at, container);
  if (items == nullptr || !spend(at, items->size / 4)) return false;
  return std::any_of(items->data, items->data + items->size, [&](Value v) { return same(v, item); });
}

}  // namespace kvrt::jinja
