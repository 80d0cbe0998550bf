// Filters of numbers, default, and tojson.
#include <charconv>
#include <cmath>

#include "runtime/base/numbers.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

Value default_value(Renderer&, const Call& c) {
  bool replaced = c.self.is(Kind::kUndefined) || (c.has(1) && truth(c[1]) && !truth(c.self));
  return !replaced ? c.self : c.args[0].is(Kind::kUndefined) && !c.has(0) ? Value::of(std::string_view("")) : c[0];
}

Value absolute(Renderer& r, const Call& c) {
  if (!c.self.is_number()) return r.type_error(c.at, "abs of", c.self);
  if (c.self.is(Kind::kFloat)) return Value::of(std::fabs(c.self.real));
  if (c.self.is(Kind::kBig)) return c.self.str()[0] == '-' ? Value::big(c.self.str().substr(1)) : c.self;
  int64_t i = c.self.as_int();
  return i >= 0 ? Value::of(i) : r.apply(Op::kSub, c.at, Value::of(int64_t{0}), c.self);
}

Value beyond(Renderer& r, const Call& c) { return r.unsupported(c.at, "an integer beyond 64 bits"); }

// float(text): false where Python raises ValueError.
bool read_float(std::string_view s, double* d) {
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  return read_real(s, d);
}

Value to_float(Renderer& r, const Call& c) {
  if (r.undefined(c.at, c.self)) return {};
  Value otherwise = c.has(0) ? c[0] : Value::of(0.0);
  if (c.self.is(Kind::kBig) && std::isinf(c.self.as_real())) return r.fail(c.at, "float: the integer is too large");
  if (c.self.is_number()) return Value::of(c.self.as_real());
  if (!c.self.is(Kind::kString) || !r.spend(c.at, c.self.size / 4)) return otherwise;
  if (c.self.str().find('_') != std::string_view::npos) return r.unsupported(c.at, "float of digits with _");
  double d = 0;
  return read_float(strip(c.self.str(), nullptr, true, true), &d) ? Value::of(d) : otherwise;
}

Value int_of_real(Renderer& r, const Call& c, double d, Value otherwise) {
  if (!std::isfinite(d)) return otherwise;
  return std::fabs(d) < 9.2e18 ? Value::of(static_cast<int64_t>(d)) : beyond(r, c);
}

Value int_of_text(Renderer& r, const Call& c, std::string_view s, Value otherwise) {
  if (s.find('_') != std::string_view::npos) return r.unsupported(c.at, "int of digits with _");
  std::string_view digits = s.size() > 1 && s[0] == '+' && s[1] != '-' ? s.substr(1) : s;
  int64_t i = 0;
  auto whole = std::from_chars(digits.data(), digits.data() + digits.size(), i);
  if (!digits.empty() && whole.ptr == digits.data() + digits.size()) return whole.ec == std::errc() ? Value::of(i) : beyond(r, c);
  double d = 0;
  return read_float(s, &d) ? int_of_real(r, c, d, otherwise) : otherwise;
}

Value to_int(Renderer& r, const Call& c) {
  if (r.undefined(c.at, c.self)) return {};
  Value otherwise = c.has(0) ? c[0] : Value::of(int64_t{0});
  if (c.self.is(Kind::kBig)) return c.self;
  if (c.self.is_integral()) return Value::of(c.self.as_int());
  if (c.self.is(Kind::kFloat)) {
    if (std::isinf(c.self.real)) return r.fail(c.at, "int of infinity");
    return int_of_real(r, c, c.self.real, otherwise);
  }
  if (!c.self.is(Kind::kString) || !r.spend(c.at, c.self.size / 4)) return otherwise;
  if (c.has(1) && !(c[1].is_integral() && c[1].as_int() == 10)) return r.unsupported(c.at, "int with a base");
  return int_of_text(r, c, strip(c.self.str(), nullptr, true, true), otherwise);
}

Value round_common(Value v, int64_t precision) {
  if (v.is(Kind::kBig)) return v;
  if (v.is_integral()) return Value::of(v.as_int());
  double d = v.as_real();
  if (!std::isfinite(d)) return Value::of(d);
  (void)read_real(print_real(d, 'f', static_cast<int>(precision)), &d);  // the exact value to nearest, ties to even, as Python does
  return Value::of(d);
}

Value round_number(Renderer& r, const Call& c) {
  int64_t precision = 0;
  if (c.has(0) && !whole_number(r, c, 0, &precision)) return {};
  std::string_view method = c.has(1) ? c[1].is(Kind::kString) ? c[1].str() : "?" : "common";
  if (method != "common" && method != "ceil" && method != "floor") return r.fail(c.at, "round: the method is common, ceil or floor");
  if (!c.self.is_number()) return r.type_error(c.at, "round of", c.self);
  if (precision < 0 || precision > 100) return r.unsupported(c.at, "round with this precision");
  if (method == "common") return round_common(c.self, precision);
  double d = c.self.as_real();
  if (!std::isfinite(d)) return r.fail(c.at, "round of infinity or nan");
  double scale = std::pow(10.0, static_cast<double>(precision)), scaled = d * scale;
  if (std::fabs(scaled) > 9e15) return r.unsupported(c.at, "round of a number of this size");
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale + 0.0);  // from an integer: no -0.0
}

Value file_size(Renderer& r, const Call& c) {
  Call as_float = c;
  as_float.args = {};
  Value bytes = to_float(r, as_float);
  if (r.failed()) return {};
  if (!c.self.is_number() && !c.self.is(Kind::kString)) return r.type_error(c.at, "filesizeformat of", c.self);
  bool binary = c.has(0) && truth(c[0]);
  double base = binary ? 1024 : 1000, d = bytes.real, unit = base;
  if (!std::isfinite(d)) return r.unsupported(c.at, "filesizeformat of infinity or nan");
  if (d == 1) return r.text("1 Byte");
  if (d < base) return r.text(print_real(std::trunc(d) + 0.0, 'f', 0) + " Bytes");
  static const char kPrefixes[] = "kMGTPEZY";
  size_t i = 0;
  for (unit = base * base; i < 7 && d >= unit; ++i) unit *= base;
  return r.text(print_real(base * d / unit, 'f', 1) + ' ' + (binary && i == 0 ? 'K' : kPrefixes[i]) + (binary ? "iB" : "B"));
}

constexpr Builtin kNumberFilters[] = {{"default", "default_value boolean", 0, default_value, Markup::kTake},
                                      {"d", "default_value boolean", 0, default_value, Markup::kTake},
                                      {"abs", "", 0, absolute},
                                      {"int", "default base", 0, to_int},
                                      {"float", "default", 0, to_float},
                                      {"round", "precision method", 0, round_number},
                                      {"filesizeformat", "binary", 0, file_size}};

}  // namespace

// As transformers defines it: json.dumps with ensure_ascii=False.
Value to_json(Renderer& r, const Call& c) {
  JsonFormat format;
  format.ascii = c.has(0) && truth(c[0]);
  format.sorted = c.has(3) && truth(c[3]);
  if (c.given(1)) {
    format.lines = true;
    format.item = ",";
    int64_t width = 0;
    if (c[1].is(Kind::kString)) {
      format.indent = c[1].str();
    } else if (!whole_number(r, c, 1, &width)) {
      return {};
    } else {
      Value padding = pad_text(r, c.at, "", width, " ", Align::kLeft);
      if (r.failed()) return {};
      format.indent = padding.str();
    }
  }
  if (c.given(2)) {
    const Value& pair = c[2];
    if (!pair.is_range_or_plain() || pair.list->size != 2 || !pair.list->data[0].is(Kind::kString) || !pair.list->data[1].is(Kind::kString))
      return r.fail(c.at, "tojson: separators are two strings");
    format.item = pair.list->data[0].str();
    format.key = pair.list->data[1].str();
  }
  TextBuilder json(r.arena());
  if (!append_json(c.self, format, &json)) {
    if (format.sorted) return r.unsupported(c.at, "tojson with sort_keys of these keys");
    return r.undefined(c.at, c.self) ? Value() : r.fail(c.at, std::string("a value in this ") + type_name(c.self) + " has no JSON form");
  }
  return r.spend(c.at, json.view().size() / 64) ? json.value() : Value();
}

std::span<const Builtin> number_filters() { return kNumberFilters; }

}  // namespace kvrt::jinja
