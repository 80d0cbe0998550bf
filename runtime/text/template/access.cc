// Attributes, subscripts and slices.
#include <algorithm>

#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

// Index `i` of Python among `size`; false when there is none.
bool python_index(int64_t i, size_t size, size_t* out) {
  if (i < 0) i += static_cast<int64_t>(size);
  *out = static_cast<size_t>(i);
  return i >= 0 && *out < size;
}

}  // namespace

Value Renderer::loop_attribute(uint32_t at, const Loop& loop, std::string_view name) {
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
  return name.substr(0, 1) == "_" ? unsupported(at, "loop." + own(name)) : Value::undefined(name);
}

Value Renderer::attribute(uint32_t at, Value v, std::string_view name) {
  if (failed() || undefined(at, v)) return {};
  if (const Builtin* method = find_method(v, name)) {
    if (method->run == nullptr) return unsupported(at, std::string(type_name(v)) + "." + own(name));
    auto function = create<Function>(arena_);
    if (function != nullptr) *function = {method->name, nullptr, nullptr, method, v};
    return Value::of(function);
  }
  if (v.is(Kind::kLoop)) return loop_attribute(at, *v.loop, name);
  if (v.is(Kind::kNamespace)) {
    const Value* found = find(at, v.space->values, Value::of(name));
    return found != nullptr ? *found : Value::undefined(name);
  }
  if (v.is(Kind::kFunction)) {
    if (name == "name" && v.function->macro != nullptr) return Value::of(v.function->name);
    return unsupported(at, "attribute \"" + own(name) + "\" of a function");
  }
  const Value* found = v.is(Kind::kDict) ? find(at, *v.dict, Value::of(name)) : nullptr;
  if (found == nullptr && name.substr(0, 2) == "__") return unsupported(at, "attribute " + own(name));
  return found != nullptr ? *found : Value::undefined(name);
}

Value Renderer::item(uint32_t at, Value v, Value key) {
  if (failed() || undefined(at, v)) return {};
  std::string_view name = key.is(Kind::kString) ? key.str() : std::string_view("item");
  if (v.is(Kind::kDict)) {
    if (const Value* found = find(at, *v.dict, key)) return *found;
  } else if (key.is_integral() && v.is_range_or_plain()) {
    size_t i;
    return python_index(key.as_int(), v.list->size, &i) ? v.list->data[i] : Value::undefined(name);
  } else if (key.is_integral() && v.is(Kind::kString)) {
    std::string_view s = v.str();
    size_t i;
    if (!spend(at, s.size() / 64) || !python_index(key.as_int(), count_code_points(s), &i)) return Value::undefined(name);
    s.remove_prefix(bytes_of_code_points(s, i));
    Value one = Value::of(s.substr(0, bytes_of_code_points(s, 1)));
    one.markup = v.markup;
    return one;
  }
  return key.is(Kind::kString) ? attribute(at, v, name) : Value::undefined(name);
}

void Renderer::set(uint32_t at, Dict* dict, Value key, Value value) {
  if (spend(at, key_steps(key))) dict->set(arena_, key, value);
}

// Of v[first:end:step], each of which may be left out. False: failed.
bool Renderer::slice_bounds(const Link& link, std::optional<int64_t> bounds[3]) {
  for (size_t i = 0; i < 3; ++i) {
    Value bound = link.args.list[i] == nullptr ? Value::none() : evaluate(*link.args.list[i]);
    if (failed()) return false;
    if (bound.is(Kind::kNone)) continue;
    if (!bound.is_integral()) return type_error(link.at, "a slice needs integers, found", bound), false;
    bounds[i] = bound.as_int();
  }
  return true;
}

Value Renderer::slice(const Link& link, Value v) {
  std::optional<int64_t> bounds[3];
  if (!slice_bounds(link, bounds)) return {};
  if (undefined(link.at, v)) return {};
  bool string = v.is(Kind::kString);
  if (v.is_sequence() && v.list->form == ListForm::kRange) return unsupported(link.at, "a slice of a range");
  if (!string && !v.is_plain()) return unsupported(link.at, std::string("a slice of a ") + type_name(v));
  if (bounds[2].value_or(1) == 0) return fail(link.at, "a slice's step cannot be zero");
  int64_t n = string ? static_cast<int64_t>(count_code_points(v.str())) : v.list->size,
          step = std::clamp<int64_t>(bounds[2].value_or(1), -n - 1, n + 1);
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto clip = [&](size_t i, int64_t otherwise) {
    if (!bounds[i]) return otherwise;
    return std::clamp(*bounds[i] < 0 ? *bounds[i] + n : *bounds[i], low, high);
  };
  int64_t begin = clip(0, step > 0 ? low : high), end = clip(1, step > 0 ? high : low);
  if (!spend(link.at, static_cast<uint64_t>(n) / 16)) return {};
  if (!string || step != 1) return copy_slice(link.at, v, begin, end, step);
  size_t from = bytes_of_code_points(v.str(), static_cast<size_t>(begin));
  std::string_view rest = v.str().substr(from);
  Value part = Value::of(rest.substr(0, bytes_of_code_points(rest, static_cast<size_t>(std::max(end - begin, int64_t{0})))));
  part.markup = v.markup;
  return part;
}

// The items from `begin` on, `step` by `step`, before `end`.
Value Renderer::copy_slice(uint32_t at, Value v, int64_t begin, int64_t end, int64_t step) {
  const bool string = v.is(Kind::kString);
  const List* items = iterate(at, v);
  TextBuilder text(arena_);
  auto out = make_list();
  if (items == nullptr || out == nullptr) return {};
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    if (string) {
      text.append(items->data[i].str());
    } else {
      out->push(arena_, items->data[i]);
    }
  }
  if (!string) return Value::of(out, v.kind);
  Value part = text.value();
  part.markup = v.markup;
  return part;
}

}  // namespace kvrt::jinja
