// Filters and tests.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/text/template_render.h"

namespace kvrt::jinja {

namespace {
constexpr std::string_view kSequenceFilters[] = {"join",   "first",      "last",   "list",       "reverse", "map",
                                                 "select", "selectattr", "reject", "rejectattr", "items"};
constexpr std::string_view kTextFilters[] = {"trim", "upper", "lower", "title", "capitalize", "replace", "string"};

template <size_t N>
bool in(const std::string_view (&names)[N], std::string_view name) {
  return std::find(names, names + N, name) != names + N;
}
}  // namespace

Value Renderer::filter(const Link& link, Value v, const Arguments& args) {
  std::string_view name = link.name;
  if (in(kTextFilters, name)) return text_filter(link, v, args);
  if (in(kSequenceFilters, name)) return sequence_filter(link, v, args);
  if (name == "length" || name == "count") return expect_args(link.at, name, args, 0, 0) ? length(link.at, v) : Value();
  if (name == "tojson") return to_json(link.at, v, args);
  if (name == "int" || name == "float") return to_number(link, v, args);
  if (name == "default" || name == "d") {
    const Value *value = args.get(0, "default_value"), *falsy = args.get(1, "boolean");
    bool replaced = v.is(Kind::kUndefined) || (falsy != nullptr && truth(*falsy) && !truth(v));
    return !replaced ? v : value != nullptr ? *value : text("");
  }
  if (name == "abs") {
    if (!expect_args(link.at, name, args, 0, 0)) return {};
    if (!v.is_number()) return type_error(link.at, "abs of", v);
    if (v.is(Kind::kFloat)) return Value::of(std::fabs(v.real));
    return v.as_int() < 0 ? negate(link.at, v) : Value::of(v.as_int());
  }
  return unsupported(link.at, "filter \"" + link.name + "\"");
}

Value Renderer::text_filter(const Link& link, Value v, const Arguments& args) {
  std::string_view name = link.name;
  std::string printed;
  std::string_view s = v.str();
  if (!v.is(Kind::kString)) {
    printed = str(link.at, v);
    if (failed()) return {};
    s = arena_->copy(printed);
  }
  if (!spend(link.at, s.size() / 64)) return {};
  if (name == "string") return Value::of(s);
  if (name == "trim") {
    const Value* chars = args.get(0, "chars");
    if (chars != nullptr && !chars->is(Kind::kNone) && !chars->is(Kind::kString))
      return type_error(link.at, "trim: expected a string, found", *chars);
    if (chars != nullptr && chars->is(Kind::kString) && !spend(link.at, chars->size * s.size() / 4096)) return {};
    return Value::of(strip(s, chars, true, true));
  }
  if (name == "replace") {
    const Value *from = args.get(0, "old"), *to = args.get(1, "new"), *count = args.get(2, "count");
    if (from == nullptr || to == nullptr) return fail(link.at, "replace needs two arguments");
    if (!from->is(Kind::kString) || !to->is(Kind::kString)) return fail(link.at, "replace needs strings");
    if (count != nullptr && !count->is(Kind::kNone) && !count->is_integral()) return type_error(link.at, "replace: the count is", *count);
    return replace(link.at, s, from->str(), to->str(), count == nullptr || count->is(Kind::kNone) ? -1 : count->as_int());
  }
  if (name == "title" &&
      !std::all_of(s.begin(), s.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' '; })) {
    return unsupported(link.at, "filter \"title\" of text with other characters than letters and spaces");  // Jinja's rule is not Python's
  }
  return expect_args(link.at, name, args, 0, 0) ? change_case(link.at, s, name) : Value();
}

Value Renderer::length(uint32_t at, Value v) {
  if (v.is(Kind::kUndefined)) return Value::of(int64_t{0});
  if (v.is(Kind::kString)) return spend(at, v.size / 64) ? Value::of(static_cast<int64_t>(count_code_points(v.str()))) : Value();
  if (v.is(Kind::kDict)) return Value::of(static_cast<int64_t>(v.dict->size));
  if (v.is_sequence() && v.list->form != ListForm::kGenerator) return Value::of(static_cast<int64_t>(v.list->size));
  return fail(at, std::string("no length: ") + (v.is_sequence() ? "generator" : type_name(v)));
}

Value Renderer::sequence_filter(const Link& link, Value v, const Arguments& args) {
  std::string_view name = link.name;
  if (name == "join") return join(link.at, v, args);
  if (name == "map") return map(link, v, args);
  if (name != "items" && name != "first" && name != "last" && name != "list" && name != "reverse") return select(link, v, args);
  if (!expect_args(link.at, name, args, 0, 0)) return {};
  if (name == "items") {
    if (v.is(Kind::kUndefined)) {
      auto none = create<List>(arena_);
      if (none != nullptr) none->form = ListForm::kGenerator;
      return Value::of(none);
    }
    if (!v.is(Kind::kDict)) return fail(link.at, "items needs a mapping");
    return spend(link.at, v.dict->size) ? dict_items(*v.dict, ListForm::kGenerator, true, true) : Value();
  }
  const List* items = iterate(link.at, v);
  if (items == nullptr) return {};
  if (name == "first") return items->size > 0 ? items->data[0] : Value::undefined("no first item, sequence was empty");
  if (name == "last") return items->size > 0 ? items->data[items->size - 1] : Value::undefined("no last item, sequence was empty");
  if (!spend(link.at, items->size / 16)) return {};
  auto out = create<List>(arena_);
  std::string reversed;
  for (uint32_t i = 0; i < items->size && out != nullptr; ++i) {
    Value item = items->data[name == "reverse" ? items->size - 1 - i : i];
    if (name == "reverse" && v.is(Kind::kString)) {
      reversed.append(item.str());
    } else {
      out->push(arena_, item);
    }
  }
  if (name == "reverse" && v.is(Kind::kString)) return text(reversed);
  if (name == "reverse" && out != nullptr) out->form = ListForm::kGenerator;
  return Value::of(out);
}

Value Renderer::join(uint32_t at, Value v, const Arguments& args) {
  const Value *separator = args.get(0, "d"), *member = args.get(1, "attribute");
  std::string between = separator == nullptr ? std::string() : str(at, *separator);
  const List* items = iterate(at, v);
  std::string out;
  for (uint32_t i = 0; items != nullptr && i < items->size && spend(at, 1); ++i) {
    if (i > 0) out.append(between);
    Value element = member == nullptr || member->is(Kind::kNone) ? items->data[i] : item(at, items->data[i], *member);
    out.append(str(at, element));
    if (!spend(at, (between.size() + element.size) / 256)) return {};
    if (out.size() > kTemplateHeapBytesMax)
      return limit(at, "needs more than the heap limit of " + std::to_string(kTemplateHeapBytesMax) + " bytes");
  }
  return failed() ? Value() : text(out);
}

Value Renderer::map(const Link& link, Value v, const Arguments& args) {
  const Value *member = args.get(1, "attribute"), *otherwise = args.get(2, "default");
  bool by_attribute = args.list.empty() && member != nullptr;
  if (!by_attribute && (args.list.empty() || !args.list[0].is(Kind::kString)))
    return fail(link.at, "map needs the name of a filter or attribute=");
  const List* items = iterate(link.at, v);
  auto out = create<List>(arena_);
  if (items == nullptr || out == nullptr) return {};
  Link inner;
  inner.kind = Link::kFilter;
  inner.at = link.at;
  Arguments rest;
  if (!by_attribute) {
    inner.name = args.list[0].str();
    rest.list.assign(args.list.begin() + 1, args.list.end());
    rest.named = args.named;
    if (inner.name == "map" || in(kSequenceFilters, inner.name)) return unsupported(link.at, "map(\"" + inner.name + "\")");
  } else if (member->is(Kind::kString) && member->str().find('.') != std::string_view::npos) {
    return unsupported(link.at, "map by a dotted attribute");
  }
  for (uint32_t i = 0; i < items->size && spend(link.at, 2); ++i) {
    Value mapped = by_attribute ? item(link.at, items->data[i], *member) : filter(inner, items->data[i], rest);
    if (by_attribute && otherwise != nullptr && mapped.is(Kind::kUndefined)) mapped = *otherwise;
    if (failed()) return {};
    out->push(arena_, mapped);
  }
  out->form = ListForm::kGenerator;
  return Value::of(out);
}

// select, reject (a test of the item), selectattr, rejectattr (a test of its attribute).
Value Renderer::select(const Link& link, Value v, const Arguments& args) {
  bool by_attribute = link.name == "selectattr" || link.name == "rejectattr";
  bool wanted = link.name[0] == 's';
  if (!args.named.empty()) return unsupported(link.at, link.name + " with named arguments");
  size_t skip = by_attribute ? 1 : 0;
  if (by_attribute && (args.list.empty() || !args.list[0].is(Kind::kString)))
    return fail(link.at, link.name + " needs the name of an attribute");
  if (by_attribute && args.list[0].str().find('.') != std::string_view::npos)
    return unsupported(link.at, link.name + " by a dotted attribute");
  Value test_name = args.list.size() > skip ? args.list[skip] : Value::none();
  if (args.list.size() > skip && !test_name.is(Kind::kString)) return fail(link.at, link.name + " needs the name of a test");
  Arguments rest;
  if (args.list.size() > skip + 1) rest.list.assign(args.list.begin() + static_cast<ptrdiff_t>(skip) + 1, args.list.end());
  const List* items = iterate(link.at, v);
  auto out = create<List>(arena_);
  if (items == nullptr || out == nullptr) return {};
  for (uint32_t i = 0; i < items->size && spend(link.at, 2); ++i) {
    Value tested = by_attribute ? item(link.at, items->data[i], args.list[0]) : items->data[i];
    bool holds = test_name.is(Kind::kString) ? test(link.at, test_name.str(), tested, rest) : truth(tested);
    if (holds == wanted) out->push(arena_, items->data[i]);
  }
  out->form = ListForm::kGenerator;
  return failed() ? Value() : Value::of(out);
}

Value Renderer::to_json(uint32_t at, Value v, const Arguments& args) {
  if (!args.list.empty()) return unsupported(at, "tojson with positional arguments");
  int indent = -1;
  for (const auto& [name, value] : args.named) {
    bool no_change = (name == "ensure_ascii" || name == "sort_keys") && !truth(value);
    if (name == "indent" && value.is_integral() && value.as_int() >= 0 && value.as_int() <= 16) {
      indent = static_cast<int>(value.as_int());
    } else if (!no_change && !(value.is(Kind::kNone) && (name == "separators" || name == "indent"))) {
      return unsupported(at, "tojson with this " + std::string(name));
    }
  }
  std::string json;
  if (!append_json(v, indent, false, &json))
    return undefined(at, v) ? Value() : fail(at, std::string("a value in this ") + type_name(v) + " has no JSON form");
  return spend(at, json.size() / 64) ? text(json) : Value();
}

Value Renderer::to_number(const Link& link, Value v, const Arguments& args) {
  bool real = link.name == "float";
  const Value* given = args.get(0, "default");
  Value otherwise = given != nullptr ? *given : real ? Value::of(0.0) : Value::of(int64_t{0});
  if (args.count() > (given != nullptr ? 1u : 0u)) return unsupported(link.at, link.name + " with a base");
  if (undefined(link.at, v)) return {};
  double d = 0;
  if (v.is(Kind::kString)) {
    std::string_view s = strip(v.str(), nullptr, true, true);
    if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
    if (s.find('_') != std::string_view::npos) return unsupported(link.at, link.name + " of digits with _");
    int64_t i = 0;
    auto whole = std::from_chars(s.data(), s.data() + s.size(), i);
    bool all = whole.ptr == s.data() + s.size() && !s.empty();
    if (!real && all) return whole.ec == std::errc() ? Value::of(i) : limit(link.at, "an integer beyond 64 bits");
    auto read = std::from_chars(s.data(), s.data() + s.size(), d);
    if (s.empty() || read.ec != std::errc() || read.ptr != s.data() + s.size()) return otherwise;
  } else if (v.is_number()) {
    if (!real && v.is_integral()) return Value::of(v.as_int());
    d = v.as_real();
  } else {
    return otherwise;
  }
  if (real) return Value::of(d);
  if (!std::isfinite(d)) return otherwise;
  return std::fabs(d) < 9.2e18 ? Value::of(static_cast<int64_t>(d)) : limit(link.at, "an integer beyond 64 bits");
}

bool Renderer::test(uint32_t at, std::string_view name, Value v, const Arguments& args) {
  struct Comparison {
    std::string_view name;
    Op op;
  };
  static constexpr Comparison kComparisons[] = {{"eq", Op::kEq}, {"equalto", Op::kEq}, {"==", Op::kEq},       {"ne", Op::kNe},
                                                {"!=", Op::kNe}, {"lt", Op::kLt},      {"lessthan", Op::kLt}, {"<", Op::kLt},
                                                {"le", Op::kLe}, {"<=", Op::kLe},      {"gt", Op::kGt},       {"greaterthan", Op::kGt},
                                                {">", Op::kGt},  {"ge", Op::kGe},      {">=", Op::kGe},       {"in", Op::kIn}};
  for (const Comparison& c : kComparisons) {
    if (name == c.name) return expect_args(at, name, args, 1, 1) && compare(c.op, at, v, args.list[0]);
  }
  if (name == "divisibleby") {
    if (!expect_args(at, name, args, 1, 1)) return false;
    if (!v.is_integral() || !args.list[0].is_integral())
      return type_error(at, "divisibleby needs integers, found", v.is_integral() ? args.list[0] : v), false;
    Value rest = divide(Op::kMod, at, v, args.list[0]);
    return !failed() && rest.as_int() == 0;
  }
  if (args.count() > 0) return unsupported(at, "test \"" + std::string(name) + "\" with arguments"), false;
  bool sequence = v.is_sequence() && v.list->form <= ListForm::kRange;
  if (name == "defined") return !v.is(Kind::kUndefined);
  if (name == "undefined") return v.is(Kind::kUndefined);
  if (name == "none") return v.is(Kind::kNone);
  if (name == "string") return v.is(Kind::kString);
  if (name == "mapping") return v.is(Kind::kDict);
  if (name == "number") return v.is_number();
  if (name == "integer") return v.is(Kind::kInt);
  if (name == "float") return v.is(Kind::kFloat);
  if (name == "boolean") return v.is(Kind::kBool);
  if (name == "true" || name == "false") return v.is(Kind::kBool) && v.boolean == (name == "true");
  if (name == "iterable") return v.is_sequence() || v.is(Kind::kDict) || v.is(Kind::kString) || v.is(Kind::kUndefined) || v.is(Kind::kLoop);
  if (name == "sequence") return sequence || v.is(Kind::kDict) || v.is(Kind::kString) || v.is(Kind::kUndefined);
  if (name == "odd" || name == "even") {
    if (!v.is_integral()) return type_error(at, std::string(name) + " needs an integer, found", v), false;
    return (v.as_int() % 2 != 0) == (name == "odd");
  }
  return unsupported(at, "test \"" + std::string(name) + "\""), false;
}

}  // namespace kvrt::jinja
