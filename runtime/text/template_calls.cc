// Global functions, and the methods of strings, dicts and loops.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/text/template_render.h"
#include "runtime/text/unicode.h"

namespace kvrt::jinja {

namespace {
constexpr uint64_t kRangeMax = 100'000;  // Jinja's sandbox has the same

bool ascii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
}  // namespace

size_t count_code_points(std::string_view s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string_view strip(std::string_view s, const Value* chars, bool left, bool right) {
  auto stripped = [chars](std::string_view point) {
    if (chars == nullptr || chars->is(Kind::kNone)) return is_space(read_code_point(point).value);
    return chars->str().find(point) != std::string_view::npos;
  };
  while (left && !s.empty()) {
    std::string_view point = s.substr(0, std::max(read_code_point(s).size, 1u));
    if (!stripped(point)) break;
    s.remove_prefix(point.size());
  }
  while (right && !s.empty()) {
    size_t begin = s.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(s[begin]) & 0xC0) == 0x80) --begin;
    if (!stripped(s.substr(begin))) break;
    s.remove_suffix(s.size() - begin);
  }
  return s;
}

bool Renderer::expect_args(uint32_t at, std::string_view what, const Arguments& args, size_t min, size_t max) {
  if (!args.named.empty())
    return unsupported(at, std::string(what) + " with the named argument " + std::string(args.named[0].first)), false;
  if (args.list.size() >= min && args.list.size() <= max) return true;
  return fail(at, std::string(what) + ": " + std::to_string(args.list.size()) + " arguments"), false;
}

Value Renderer::call_global(const Link& link, std::string_view name, const Arguments& args) {
  if (name == "range") return range(link.at, args);
  if (name == "namespace") return make_namespace(link.at, args);
  if (name == "raise_exception") {
    if (!expect_args(link.at, name, args, 1, 1)) return {};
    return fail(link.at, "the template raised: " + str(link.at, args.list[0]));
  }
  if (name == "strftime_now" || name == "dict" || name == "lipsum" || name == "cycler" || name == "joiner") {
    return unsupported(link.at, "function " + std::string(name) + "()");
  }
  return fail(link.at, "'" + std::string(name) + "' is undefined");
}

Value Renderer::range(uint32_t at, const Arguments& args) {
  if (!expect_args(at, "range", args, 1, 3)) return {};
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < args.list.size(); ++i) {
    if (!args.list[i].is_integral()) return type_error(at, "range needs integers, found", args.list[i]);
    bounds[args.list.size() == 1 ? 1 : i] = args.list[i].as_int();
  }
  auto [begin, end, step] = bounds;
  if (step == 0) return fail(at, "range: the step is zero");
  // Unsigned: the distance of two 64-bit integers, and the items between them, wrap to the right value.
  auto from = static_cast<uint64_t>(begin), to = static_cast<uint64_t>(end), stride = static_cast<uint64_t>(step);
  bool none = step > 0 ? end <= begin : end >= begin;
  uint64_t count = none ? 0 : step > 0 ? (to - from - 1) / stride + 1 : (from - to - 1) / (0 - stride) + 1;
  if (count > kRangeMax) return limit(at, "range: more than 100000 items");
  if (!spend(at, count / 16)) return {};
  auto list = create<List>(arena_);
  if (list == nullptr) return {};
  for (uint64_t i = 0; i < count; ++i) list->push(arena_, Value::of(static_cast<int64_t>(from + i * stride)));
  list->form = ListForm::kRange;
  return Value::of(list);
}

Value Renderer::make_namespace(uint32_t at, const Arguments& args) {
  auto space = create<Namespace>(arena_);
  if (space == nullptr) return {};
  for (Value v : args.list) {
    if (!v.is(Kind::kDict)) return unsupported(at, std::string("namespace() of ") + type_name(v));
    for (uint32_t i = 0; i < v.dict->size; ++i) space->values.set(arena_, v.dict->data[i].key, v.dict->data[i].value);
  }
  for (const auto& [name, v] : args.named) space->values.set(arena_, Value::of(name), v);
  Value value;
  value.kind = Kind::kNamespace;
  value.space = space;
  return value;
}

Value Renderer::call_method(uint32_t at, Value self, std::string_view name, const Arguments& args) {
  if (self.is(Kind::kString)) return string_method(at, self.str(), name, args);
  if (self.is(Kind::kDict)) return dict_method(at, *self.dict, name, args);
  if (self.is(Kind::kLoop) && name == "cycle" && args.named.empty() && !args.list.empty()) {
    return args.list[self.loop->index % args.list.size()];
  }
  static constexpr std::string_view kMutators[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  if (self.is(Kind::kList) && std::find(std::begin(kMutators), std::end(kMutators), name) != std::end(kMutators)) {
    return fail(at, "list." + std::string(name) + ": the sandbox does not let a template change its values");
  }
  Value value = attribute(at, self, name);  // names what is a method, but not supported
  if (failed() || undefined(at, value)) return {};
  return fail(at, std::string(type_name(value)) + " is not callable");
}

Value Renderer::string_method(uint32_t at, std::string_view s, std::string_view name, const Arguments& args) {
  std::string what = "str." + std::string(name);
  auto is_text = [&](const Value& v) {
    return v.is(Kind::kString) || !type_error(at, what + ": expected a string, found", v).is(Kind::kUndefined);
  };
  if (!spend(at, s.size() / 64)) return {};
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    if (!expect_args(at, what, args, 0, 1)) return {};
    const Value* chars = args.list.empty() ? nullptr : &args.list[0];
    if (chars != nullptr && !chars->is(Kind::kNone)) {
      if (!is_text(*chars) || !spend(at, chars->size * s.size() / 4096)) return {};
    }
    return Value::of(strip(s, chars, name != "rstrip", name != "lstrip"));
  }
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize") {
    return expect_args(at, what, args, 0, 0) ? change_case(at, s, name) : Value();
  }
  if (name == "startswith" || name == "endswith") {
    return expect_args(at, what, args, 1, 1) ? Value::of(has_prefix(at, s, args.list[0], name == "endswith")) : Value();
  }
  if (name == "split") return split(at, s, args);
  if (name == "replace") {
    if (!expect_args(at, what, args, 2, 3) || !is_text(args.list[0]) || !is_text(args.list[1])) return {};
    if (args.list.size() == 3 && !args.list[2].is_integral()) return type_error(at, "str.replace: the count is", args.list[2]);
    return replace(at, s, args.list[0].str(), args.list[1].str(), args.list.size() == 3 ? args.list[2].as_int() : -1);
  }
  if (name == "join") {
    if (!expect_args(at, what, args, 1, 1)) return {};
    const List* items = iterate(at, args.list[0]);
    std::string out;
    for (uint32_t i = 0; items != nullptr && i < items->size; ++i) {
      if (!is_text(items->data[i]) || !spend(at, 1 + items->data[i].size / 256)) return {};
      if (i > 0) out.append(s);
      out.append(items->data[i].str());
      if (out.size() > kTemplateHeapBytesMax) return limit(at, "needs more than the heap limit");
    }
    return failed() ? Value() : text(out);
  }
  Value value = attribute(at, Value::of(s), name);
  if (failed() || undefined(at, value)) return {};
  return {};
}

bool Renderer::has_prefix(uint32_t at, std::string_view s, Value prefix, bool suffix) {
  if (prefix.is(Kind::kTuple)) {
    return std::any_of(prefix.list->data, prefix.list->data + prefix.list->size,
                       [&](Value v) { return !v.is(Kind::kTuple) && has_prefix(at, s, v, suffix); });
  }
  if (!prefix.is(Kind::kString)) return type_error(at, "expected a string or a tuple of strings, found", prefix), false;
  if (prefix.size > s.size()) return false;
  return (suffix ? s.substr(s.size() - prefix.size) : s.substr(0, prefix.size)) == prefix.str();
}

Value Renderer::change_case(uint32_t at, std::string_view s, std::string_view how) {
  if (!ascii(s)) return unsupported(at, std::string(how) + " of text that is not ASCII");
  std::string out(s);
  bool inside = false;  // a word that has begun
  for (char& c : out) {
    bool up = how == "upper" || (how != "lower" && !inside);
    c = up ? upper(c) : lower(c);
    inside = how == "capitalize" || is_letter(c);
  }
  return text(out);
}

Value Renderer::replace(uint32_t at, std::string_view s, std::string_view from, std::string_view to, int64_t count) {
  if (from.empty()) return unsupported(at, "replacing the empty string");
  std::string out;
  size_t begin = 0;
  uint64_t replaced = 0;
  for (; count != 0; --count, ++replaced) {
    size_t found = s.find(from, begin);
    if (found == std::string_view::npos) break;
    out.append(s.substr(begin, found - begin)).append(to);
    begin = found + from.size();
    if (out.size() > kTemplateHeapBytesMax)
      return limit(at, "needs more than the heap limit of " + std::to_string(kTemplateHeapBytesMax) + " bytes");
  }
  out.append(s.substr(begin));
  return spend(at, (s.size() + out.size()) / 64 + replaced) ? text(out) : Value();
}

Value Renderer::split(uint32_t at, std::string_view s, const Arguments& args) {
  for (const auto& [name, value] : args.named) {
    if (name != "sep" && name != "maxsplit") return fail(at, "str.split: no argument " + std::string(name));
  }
  const Value *separator = args.get(0, "sep"), *most = args.get(1, "maxsplit");
  if (args.list.size() > 2) return fail(at, "str.split: too many arguments");
  if (most != nullptr && !most->is_integral()) return type_error(at, "str.split: maxsplit is", *most);
  auto left = most == nullptr || most->as_int() < 0 ? UINT64_MAX : static_cast<uint64_t>(most->as_int());
  auto list = create<List>(arena_);
  if (list == nullptr || !spend(at, s.size() / 64)) return {};
  if (separator == nullptr || separator->is(Kind::kNone)) {
    for (s = strip(s, nullptr, true, false); !s.empty(); s = strip(s, nullptr, true, false)) {
      size_t end = 0;
      while (left > 0 && end < s.size() && !is_space(read_code_point(s.substr(end)).value))
        end += std::max(read_code_point(s.substr(end)).size, 1u);
      if (left == 0) end = s.size();
      list->push(arena_, Value::of(s.substr(0, end)));
      s = left == 0 ? std::string_view() : s.substr(end);
      --left;
    }
  } else {
    if (!separator->is(Kind::kString)) return type_error(at, "str.split: the separator is", *separator);
    if (separator->size == 0) return fail(at, "str.split: empty separator");
    for (size_t found; left > 0 && (found = s.find(separator->str())) != std::string_view::npos; --left) {
      list->push(arena_, Value::of(s.substr(0, found)));
      s.remove_prefix(found + separator->size);
    }
    list->push(arena_, Value::of(s));
  }
  return spend(at, list->size) ? Value::of(list) : Value();
}

Value Renderer::dict_items(const Dict& dict, ListForm form, bool keys, bool values) {
  auto list = create<List>(arena_);
  for (uint32_t i = 0; i < dict.size && list != nullptr; ++i) {
    const Pair& pair = dict.data[i];
    Value item = keys ? pair.key : pair.value;
    if (keys && values) {
      auto tuple = create<List>(arena_);
      if (tuple == nullptr) return {};
      tuple->push(arena_, pair.key);
      tuple->push(arena_, pair.value);
      item = Value::of(tuple, Kind::kTuple);
    }
    list->push(arena_, item);
  }
  if (list != nullptr) list->form = form;
  return Value::of(list);
}

Value Renderer::dict_method(uint32_t at, const Dict& dict, std::string_view name, const Arguments& args) {
  std::string what = "dict." + std::string(name);
  if (name == "items" || name == "keys" || name == "values") {
    if (!expect_args(at, what, args, 0, 0) || !spend(at, dict.size)) return {};
    return dict_items(dict, ListForm::kView, name != "values", name != "keys");
  }
  if (name == "get") {
    if (!expect_args(at, what, args, 1, 2)) return {};
    const Value* found = dict.find(args.list[0]);
    return found != nullptr ? *found : args.list.size() == 2 ? args.list[1] : Value::none();
  }
  if (name == "clear" || name == "pop" || name == "popitem" || name == "setdefault" || name == "update") {
    return fail(at, what + ": the sandbox does not let a template change its values");
  }
  Value self;
  self.kind = Kind::kDict;
  self.dict = const_cast<Dict*>(&dict);
  Value value = attribute(at, self, name);
  if (failed() || undefined(at, value)) return {};
  return fail(at, std::string(type_name(value)) + " is not callable");
}

}  // namespace kvrt::jinja
