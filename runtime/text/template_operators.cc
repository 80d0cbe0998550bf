// Operators, attributes, subscripts and slices.
#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/text/template_render.h"

namespace kvrt::jinja {

namespace {

constexpr std::string_view kStringMethods[] = {
    "capitalize",   "casefold", "center",   "count",   "encode",    "endswith",   "expandtabs",   "find",      "format",    "format_map",
    "index",        "isalnum",  "isalpha",  "isascii", "isdecimal", "isdigit",    "isidentifier", "islower",   "isnumeric", "isprintable",
    "isspace",      "istitle",  "isupper",  "join",    "ljust",     "lower",      "lstrip",       "maketrans", "partition", "removeprefix",
    "removesuffix", "replace",  "rfind",    "rindex",  "rjust",     "rpartition", "rsplit",       "rstrip",    "split",     "splitlines",
    "startswith",   "strip",    "swapcase", "title",   "translate", "upper",      "zfill"};
constexpr std::string_view kListMethods[] = {"append", "clear", "copy",   "count",   "extend", "index",
                                             "insert", "pop",   "remove", "reverse", "sort"};
constexpr std::string_view kDictMethods[] = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                             "pop",   "popitem", "setdefault", "update", "values"};
constexpr std::string_view kNumberMethods[] = {"real",       "imag",      "numerator", "denominator", "bit_length",
                                               "bit_count",  "conjugate", "to_bytes",  "from_bytes",  "as_integer_ratio",
                                               "is_integer", "hex",       "fromhex"};

template <size_t N>
bool in(const std::string_view (&names)[N], std::string_view name) {
  return std::find(names, names + N, name) != names + N;
}

// Whether Python's object has an attribute of this name (an implemented one was taken before).
bool has_method(Value v, std::string_view name) {
  switch (v.kind) {
    case Kind::kString:
      return in(kStringMethods, name);
    case Kind::kList:
    case Kind::kTuple:
      return in(kListMethods, name);
    case Kind::kDict:
      return in(kDictMethods, name);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return in(kNumberMethods, name);
    default:
      return false;
  }
}

// Index `i` of Python among `size`; false when there is none.
bool python_index(int64_t i, size_t size, size_t* out) {
  if (i < 0) i += static_cast<int64_t>(size);
  *out = static_cast<size_t>(i);
  return i >= 0 && *out < size;
}

const char* spelling(Op op) {
  static const char* const kSpellings[] = {
      "+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"};
  return kSpellings[static_cast<size_t>(op)];
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

Value Renderer::apply(Op op, uint32_t at, Value a, Value b) {
  if (op == Op::kConcat || (op == Op::kAdd && a.is(Kind::kString) && b.is(Kind::kString))) {
    std::string left_text, right_text;
    std::string_view left = a.str(), right = b.str();
    if (!a.is(Kind::kString)) left = left_text = str(at, a);
    if (!b.is(Kind::kString)) right = right_text = str(at, b);
    if (!spend(at, right.size() / 256)) return {};
    if (!a.is(Kind::kString) && right.empty()) return text(left);  // the arena keeps no bytes of ours otherwise
    return Value::of(arena_->concat(left, right));
  }
  if (a.is_number() && b.is_number())
    return op == Op::kAdd || op == Op::kSub || op == Op::kMul ? arithmetic(op, at, a, b) : divide(op, at, a, b);
  if (op == Op::kMul && b.is_integral()) return repeat(at, a, b.as_int());
  if (op == Op::kMul && a.is_integral()) return repeat(at, b, a.as_int());
  if (op == Op::kMod && a.is(Kind::kString)) return unsupported(at, "formatting with %");
  if (op == Op::kAdd && a.kind == b.kind && a.is_sequence() && a.list->form == ListForm::kPlain && b.list->form == ListForm::kPlain) {
    auto sum = create<List>(arena_);
    for (const List* part : {a.list, b.list}) {
      if (!spend(at, part->size / 16)) return {};
      for (uint32_t i = 0; i < part->size && sum != nullptr; ++i) sum->push(arena_, part->data[i]);
    }
    return Value::of(sum, a.kind);
  }
  if (undefined(at, a) || undefined(at, b)) return {};
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
  return overflow ? limit(at, "an integer beyond 64 bits") : Value::of(z);
}

Value Renderer::divide(Op op, uint32_t at, Value a, Value b) {
  if (b.as_real() == 0) return fail(at, "division by zero");
  if (op == Op::kDiv) return Value::of(a.as_real() / b.as_real());
  if (a.is(Kind::kFloat) || b.is(Kind::kFloat)) {
    double x = a.as_real(), y = b.as_real(), rest = std::fmod(x, y);
    if (rest != 0 && (rest < 0) != (y < 0)) rest += y;
    if (op == Op::kMod) return Value::of(rest == 0 ? std::copysign(0.0, y) : rest);
    double quotient = (x - rest) / y, whole = std::floor(quotient);
    return Value::of(quotient - whole > 0.5 ? whole + 1 : whole);
  }
  int64_t x = a.as_int(), y = b.as_int();
  if (x == INT64_MIN && y == -1) return op == Op::kMod ? Value::of(int64_t{0}) : limit(at, "an integer beyond 64 bits");
  int64_t quotient = x / y, rest = x % y;
  if (rest != 0 && (rest < 0) != (y < 0)) {
    --quotient;
    rest += y;
  }
  return Value::of(op == Op::kMod ? rest : quotient);
}

Value Renderer::negate(uint32_t at, Value v) {
  if (v.is(Kind::kFloat)) return Value::of(-v.real);
  return arithmetic(Op::kSub, at, Value::of(int64_t{0}), v);
}

Value Renderer::repeat(uint32_t at, Value v, int64_t count) {
  auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  if (v.is(Kind::kString)) {
    if (v.size == 0 || times == 0) return text("");
    if (times > kTemplateHeapBytesMax / v.size)
      return limit(at, "needs more than the heap limit of " + std::to_string(kTemplateHeapBytesMax) + " bytes");
    std::string s;
    if (!spend(at, v.size * times / 256)) return {};
    s.reserve(v.size * times);
    for (uint64_t i = 0; i < times; ++i) s.append(v.str());
    return text(s);
  }
  if (!v.is_sequence() || v.list->form != ListForm::kPlain) return type_error(at, "cannot repeat", v);
  auto out = create<List>(arena_);
  if (times > kTemplateHeapBytesMax / sizeof(Value) / std::max(v.list->size, 1u)) times = v.list->size == 0 ? 0 : kTemplateHeapBytesMax;
  for (uint64_t i = 0; i < times && spend(at, 1 + v.list->size / 16); ++i) {
    for (uint32_t k = 0; k < v.list->size && out != nullptr; ++k) out->push(arena_, v.list->data[k]);
  }
  return Value::of(out, v.kind);
}

bool Renderer::compare(Op op, uint32_t at, Value a, Value b) {
  if (a.is(Kind::kString) && b.is(Kind::kString) && !spend(at, std::min(a.size, b.size) / 256)) return false;
  if ((a.is_sequence() && b.is_sequence()) && !spend(at, std::min(a.list->size, b.list->size))) return false;
  if (op == Op::kEq) return equal(a, b);
  if (op == Op::kNe) return !equal(a, b);
  if (op == Op::kIn || op == Op::kNotIn) return contains(at, b, a) == (op == Op::kIn);
  int order = 0;
  if (a.is_integral() && b.is_integral()) {
    order = a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
  } else if (a.is_number() && b.is_number()) {
    double x = a.as_real(), y = b.as_real();
    if (std::isnan(x) || std::isnan(y)) return false;
    order = x < y ? -1 : x > y;
  } else if (a.is(Kind::kString) && b.is(Kind::kString)) {
    order = a.str().compare(b.str());  // UTF-8 sorts as its code points do
  } else if (!undefined(at, a) && !undefined(at, b)) {
    if (a.is_sequence() && a.kind == b.kind) return unsupported(at, "ordering sequences"), false;
    return fail(at, std::string(spelling(op)) + " between " + type_name(a) + " and " + type_name(b)), false;
  }
  return op == Op::kLt ? order < 0 : op == Op::kLe ? order <= 0 : op == Op::kGt ? order > 0 : order >= 0;
}

bool Renderer::contains(uint32_t at, Value container, Value item) {
  if (container.is(Kind::kString)) {
    if (!item.is(Kind::kString)) return type_error(at, "'in <string>' requires a string, found", item), false;
    return spend(at, container.size / 64) && container.str().find(item.str()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) return container.dict->find(item) != nullptr;
  const List* items = iterate(at, container);
  if (items == nullptr || !spend(at, items->size / 4)) return false;
  return std::any_of(items->data, items->data + items->size, [item](Value v) { return equal(v, item); });
}

Value Renderer::attribute(uint32_t at, Value v, std::string_view name) {
  if (undefined(at, v)) return {};
  if (v.is(Kind::kLoop)) {
    const Loop& loop = *v.loop;
    uint32_t n = loop.items->size, i = loop.index;
    auto number = [](uint32_t x) { return Value::of(static_cast<int64_t>(x)); };
    if (name == "index") return number(i + 1);
    if (name == "index0") return number(i);
    if (name == "revindex") return number(n - i);
    if (name == "revindex0") return number(n - i - 1);
    if (name == "first") return Value::of(i == 0);
    if (name == "last") return Value::of(i + 1 == n);
    if (name == "length") return number(n);
    if (name == "depth") return number(loop.depth);
    if (name == "depth0") return number(loop.depth - 1);
    if (name == "previtem") return i > 0 ? loop.items->data[i - 1] : Value::undefined("there is no previous item");
    if (name == "nextitem") return i + 1 < n ? loop.items->data[i + 1] : Value::undefined("there is no next item");
    return unsupported(at, "loop." + std::string(name));
  }
  if (v.is(Kind::kNamespace)) {
    const Value* found = v.space->values.find(name);
    return found != nullptr ? *found : Value::undefined(name);
  }
  if (has_method(v, name)) return unsupported(at, std::string("the method ") + type_name(v) + "." + std::string(name) + " as a value");
  if (name.substr(0, 2) == "__") return unsupported(at, "attribute " + std::string(name));
  const Value* found = v.is(Kind::kDict) ? v.dict->find(name) : nullptr;
  return found != nullptr ? *found : Value::undefined(name);
}

Value Renderer::item(uint32_t at, Value v, Value key) {
  if (undefined(at, v)) return {};
  std::string_view name = key.is(Kind::kString) ? key.str() : std::string_view("item");
  if (v.is(Kind::kDict)) {
    if (const Value* found = v.dict->find(key)) return *found;
  } else if (key.is_integral() && v.is_sequence() && v.list->form <= ListForm::kRange) {
    size_t i;
    return python_index(key.as_int(), v.list->size, &i) ? v.list->data[i] : Value::undefined("item");
  } else if (key.is_integral() && v.is(Kind::kString)) {
    const List* points = iterate(at, v);
    size_t i;
    return points != nullptr && python_index(key.as_int(), points->size, &i) ? points->data[i] : Value::undefined("item");
  }
  return key.is(Kind::kString) ? attribute(at, v, name) : Value::undefined(name);
}

Value Renderer::slice(const Link& link, Value v) {
  int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    Value bound = link.args.list[i] == nullptr ? Value::none() : evaluate(*link.args.list[i]);
    if (failed()) return {};
    if (bound.is(Kind::kNone)) continue;
    if (!bound.is_integral()) return type_error(link.at, "a slice needs integers, found", bound);
    bounds[i] = bound.as_int();
    given[i] = true;
  }
  if (undefined(link.at, v)) return {};
  bool string = v.is(Kind::kString);
  if (!string && !(v.is_sequence() && v.list->form == ListForm::kPlain)) return Value::undefined("slice");
  if (bounds[2] == 0) return fail(link.at, "a slice's step cannot be zero");
  const List* items = iterate(link.at, v);
  if (items == nullptr) return {};
  int64_t n = items->size, step = std::clamp<int64_t>(bounds[2], -n - 1, n + 1);
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto clip = [&](size_t i, int64_t otherwise) {
    if (!given[i]) return otherwise;
    return std::clamp(bounds[i] < 0 ? bounds[i] + n : bounds[i], low, high);
  };
  int64_t begin = clip(0, step > 0 ? low : high), end = clip(1, step > 0 ? high : low);
  auto out = create<List>(arena_);
  std::string s;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    if (string) {
      s.append(items->data[i].str());
    } else if (out != nullptr) {
      out->push(arena_, items->data[i]);
    }
  }
  spend(link.at, static_cast<uint64_t>(n) / 16);
  return string ? text(s) : Value::of(out, v.kind);
}

}  // namespace kvrt::jinja
