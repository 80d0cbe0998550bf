// Python's two ways to format: "%5.2f" % x, and "{:>8}".format(x).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/numbers.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

constexpr int kPrecisionMax = 100;

// A value's format, which both ways spell: {:[[fill]align][sign][#][0][width][grouping][.precision][type]}.
struct Spec {
  std::string_view fill = " ";
  char align = 0, sign = '-', grouping = 0, type = 0;
  bool alternate = false, zero = false;
  int64_t width = 0;
  int precision = -1;
};

// A decimal number at the front; false when it is too large to be meant.
bool read_number(std::string_view* s, int64_t* out) {
  size_t n = 0;
  while (n < s->size() && is_digit((*s)[n])) ++n;
  auto read = std::from_chars(s->data(), s->data() + n, *out);
  s->remove_prefix(n);
  return n == 0 || (read.ec == std::errc() && *out <= static_cast<int64_t>(kTemplateHeapBytesMax));
}

bool read_precision(Renderer& r, uint32_t at, std::string_view* s, Spec* spec) {
  if (s->empty() || s->front() != '.') return true;
  s->remove_prefix(1);
  int64_t precision = 0;
  if (!read_number(s, &precision) || precision > kPrecisionMax) return r.unsupported(at, "a precision beyond 100"), false;
  spec->precision = static_cast<int>(precision);
  return true;
}

void group(std::string* digits, char separator, size_t every) {
  size_t whole = std::min(digits->find_first_of(".e"), digits->size());
  for (size_t i = whole; i > every; i -= every) digits->insert(i - every, 1, separator);
}

// A whole number's digits without its sign, with its prefix apart.
std::string whole_digits(uint64_t size, const Spec& spec, std::string* prefix) {
  char buffer[72];
  int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, size, base).ptr);
  if (spec.type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(), [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  if (spec.alternate && base != 10) *prefix = std::string("0") + spec.type;
  return digits;
}

std::string real_digits(double d, const Spec& spec) {
  const bool percent = spec.type == '%';
  std::string digits =
      print_real(std::fabs(percent ? d * 100 : d), percent ? 'f' : spec.type, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  return percent ? digits + '%' : digits;
}

// sign, prefix and digits within the width.
void append_padded(const Spec& spec, std::string_view head, std::string_view body, char align, TextBuilder* out) {
  auto size = static_cast<int64_t>(count_code_points(head) + count_code_points(body));
  auto padding = static_cast<uint64_t>(std::max<int64_t>(spec.width - size, 0));
  uint64_t left = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  out->repeat(spec.fill, left);
  out->append(head);
  if (align == '=') out->repeat(spec.fill, padding);
  out->append(body);
  if (align == '<' || align == '^') out->repeat(spec.fill, padding - left);
}

bool is_one_of(char type, const char* types) { return type != 0 && strchr(types, type) != nullptr; }
bool is_real(const Spec& spec) { return is_one_of(spec.type, "eEfFgG%"); }

// The digits of a number's magnitude, and what stands before them ("0x"). False, and the failure is told: it cannot be written so.
bool magnitude(Renderer& r, uint32_t at, Value v, const Spec& spec, std::string* prefix, std::string* digits) {
  if (is_real(spec)) {
    if (v.is(Kind::kBig) && std::isinf(v.as_real())) return r.fail(at, "the integer is too large for a float"), false;
    *digits = real_digits(v.as_real(), spec);
  } else if (v.is(Kind::kBig)) {
    if (spec.type != 'd') return r.unsupported(at, "an integer beyond 64 bits"), false;
    *digits = v.str().substr(std::signbit(v.as_real()));
  } else {
    const auto bits = static_cast<uint64_t>(v.as_int());
    *digits = whole_digits(v.as_int() < 0 ? 0 - bits : bits, spec, prefix);
    if (spec.precision > static_cast<int>(digits->size())) digits->insert(0, static_cast<size_t>(spec.precision) - digits->size(), '0');
  }
  return true;
}

bool is_negative(Value v, const Spec& spec) {
  if (!is_real(spec) && !v.is(Kind::kBig)) return v.as_int() < 0;
  return std::signbit(v.as_real()) && !std::isnan(v.as_real());
}

bool append_number(Renderer& r, uint32_t at, Value v, Spec spec, TextBuilder* out) {
  std::string head, digits, prefix;
  if (!magnitude(r, at, v, spec, &prefix, &digits)) return false;
  if (spec.grouping != 0) {
    if (spec.zero || (spec.align == '=' && spec.fill == "0")) return r.unsupported(at, "grouped digits filled with zeros"), false;
    group(&digits, spec.grouping, is_one_of(spec.type, "xXob") ? 4 : 3);
  }
  if (is_negative(v, spec)) {
    head = "-";
  } else if (spec.sign != '-') {
    head = spec.sign;
  }
  if (spec.zero && spec.align == 0) spec.fill = "0", spec.align = '=';
  append_padded(spec, head + prefix, digits, spec.align == 0 ? '>' : spec.align, out);
  return r.spend(at, static_cast<uint64_t>(spec.width) / 16);
}

bool append_text(Renderer& r, uint32_t at, std::string_view s, const Spec& spec, TextBuilder* out) {
  if (spec.precision >= 0) s = s.substr(0, bytes_of_code_points(s, static_cast<size_t>(spec.precision)));
  append_padded(spec, "", s, spec.align == 0 ? '<' : spec.align, out);
  return r.spend(at, static_cast<uint64_t>(spec.width) / 16);
}

bool read_spec(Renderer& r, uint32_t at, std::string_view s, Spec* spec) {
  size_t first = bytes_of_code_points(s, 1);
  if (s.size() > first && strchr("<>^=", s[first]) != nullptr) {
    spec->fill = s.substr(0, first);
    spec->align = s[first];
    s.remove_prefix(first + 1);
  } else if (!s.empty() && strchr("<>^=", s[0]) != nullptr) {
    spec->align = s[0];
    s.remove_prefix(1);
  }
  auto take = [&s](const char* any) {
    if (s.empty() || s[0] == 0 || strchr(any, s[0]) == nullptr) return '\0';
    char c = s[0];
    s.remove_prefix(1);
    return c;
  };
  if (char sign = take("+- ")) spec->sign = sign;
  spec->alternate = take("#") != 0;
  spec->zero = take("0") != 0;
  if (!read_number(&s, &spec->width)) return r.heap_limit(at), false;
  spec->grouping = take(",_");
  if (s.substr(0, 1) == "." && (s.size() < 2 || !is_digit(s[1]))) return r.fail(at, "format specifier: missing precision"), false;
  if (!read_precision(r, at, &s, spec)) return false;
  spec->type = take("bcdeEfFgGnosxX%");
  return s.empty() || (r.fail(at, "invalid format specifier"), false);
}

bool fits_text(const Spec& spec) {
  return (spec.type == 0 || spec.type == 's') && spec.align != '=' && spec.sign == '-' && !spec.alternate && spec.grouping == 0;
}

// False, and the failure is told: the specifier does not fit the number.
bool check_number(Renderer& r, uint32_t at, Value v, const Spec& spec) {
  if (spec.type == 'n' || spec.type == 'c') return r.unsupported(at, std::string("the format type ") + spec.type), false;
  if (spec.type == 's') return r.fail(at, "invalid format specifier for a number"), false;
  if (v.is(Kind::kFloat) && !is_real(spec)) {
    if (spec.type != 0) return r.fail(at, "invalid format specifier for a float"), false;
    return r.unsupported(at, "a format specifier without a type for a float"), false;
  }
  if (!is_real(spec) && spec.precision >= 0) return r.fail(at, "precision is not allowed for an integer"), false;
  if (!std::isfinite(v.as_real()) && (spec.zero || spec.align == '='))
    return r.unsupported(at, "padding infinity or nan with zeros"), false;
  if (spec.grouping == ',' && is_one_of(spec.type, "boxX")) return r.fail(at, "',' with this type"), false;
  return true;
}

}  // namespace

bool format_value(Renderer& r, uint32_t at, Value v, std::string_view text, TextBuilder* out) {
  if (text.empty()) return out->append(r.str(at, v)), !r.failed();
  Spec spec;
  if (!read_spec(r, at, text, &spec)) return false;
  if (v.is(Kind::kString)) {
    if (!fits_text(spec)) return r.fail(at, "invalid format specifier for a string"), false;
    if (spec.zero && spec.align == 0) spec.fill = "0";
    return append_text(r, at, v.str(), spec, out);
  }
  if (!v.is_number()) return r.type_error(at, "unsupported format specifier for", v), false;
  if (!check_number(r, at, v, spec)) return false;
  if (spec.type == 0) spec.type = 'd';
  return append_number(r, at, v, spec, out);
}

namespace {

// One rendering of "..." % values.
class Percent {
 public:
  Percent(Renderer& r, uint32_t at, Value values) : r_(r), at_(at), values_(values), out_(r.arena()) {
    single_ = values;
    list_ = values.is(Kind::kTuple) ? std::span<const Value>(values.list->data, values.list->size) : std::span<const Value>(&single_, 1);
  }

  Value run(std::string_view s) {
    while (!s.empty() && r_.spend(at_, 1)) {
      size_t n = std::min(s.find('%'), s.size());
      out_.append(s.substr(0, n));
      s.remove_prefix(n);
      if (s.empty()) break;
      s.remove_prefix(1);
      if (!one(&s)) return {};
    }
    bool mapping = values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kUndefined);  // as Python sees it
    if (next_ < list_.size() && !mapping) return r_.fail(at_, "not all arguments were formatted");
    return r_.failed() ? Value() : out_.value();
  }

 private:
  bool fail(const std::string& message) { return r_.fail(at_, message), false; }

  // Of (name), which stands at the front.
  bool take_named(std::string_view* s, const Value** named) {
    size_t close = s->find(')');
    if (close == std::string_view::npos || s->substr(1, close - 1).find('(') != std::string_view::npos)
      return fail("incomplete format key");
    if (!values_.is(Kind::kDict)) return fail("format requires a mapping");
    *named = r_.find(at_, *values_.dict, Value::of(s->substr(1, close - 1)));
    if (*named == nullptr) return fail("no value for a format key");
    next_ = list_.size();
    s->remove_prefix(close + 1);
    return true;
  }

  static void take_flags(std::string_view* s, Spec* spec) {
    for (; !s->empty() && is_one_of(s->front(), "-+ #0"); s->remove_prefix(1)) {
      char flag = s->front();
      if (flag == '-') spec->align = '<';
      if (flag == '+' || (flag == ' ' && spec->sign != '+')) spec->sign = flag;
      spec->alternate |= flag == '#';
      spec->zero |= flag == '0';
    }
  }

  bool one(std::string_view* s) {
    Spec spec;
    const Value* named = nullptr;
    if (s->substr(0, 1) == "(" && !take_named(s, &named)) return false;
    take_flags(s, &spec);
    if (s->substr(0, 1) == "*") return r_.unsupported(at_, "* in a format"), false;
    if (!read_number(s, &spec.width)) return r_.heap_limit(at_), false;
    if (!read_precision(r_, at_, s, &spec)) return false;
    while (!s->empty() && is_one_of(s->front(), "hlL")) s->remove_prefix(1);
    if (s->empty()) return fail("incomplete format");
    spec.type = s->front();
    s->remove_prefix(1);
    if (spec.type == '%') return out_.append('%'), true;
    if (named != nullptr) return convert(*named, spec);
    if (next_ == list_.size()) return fail("not enough arguments to format");
    return convert(list_[next_++], spec);
  }

  bool convert_whole(Value value, Spec spec) {
    if (value.is(Kind::kFloat)) {
      if (is_one_of(spec.type, "oxX")) return fail("an integer is needed to format, found float");
      if (!std::isfinite(value.real)) return fail("cannot format infinity or nan as an integer");
      if (std::fabs(value.real) >= 9.2e18) return r_.unsupported(at_, "an integer beyond 64 bits"), false;
      value = Value::of(static_cast<int64_t>(value.real));
    }
    if (spec.type == 'i' || spec.type == 'u') spec.type = 'd';
    return append_number(r_, at_, value, spec, &out_);
  }

  bool convert(Value value, Spec spec) {
    if (spec.align == 0) spec.align = spec.zero && strchr("sracC", spec.type) == nullptr ? 0 : '>';
    if (spec.align == '<') spec.zero = false;
    if (spec.type == 's') return append_text(r_, at_, r_.str(at_, value), spec, &out_);
    if (spec.type == 'r') {
      TextBuilder text(r_.arena());
      if (!append_repr(value, &text)) return r_.unsupported(at_, std::string("%r of ") + type_name(value)), false;
      return append_text(r_, at_, text.view(), spec, &out_);
    }
    if (spec.type == 'a' || spec.type == 'c') return r_.unsupported(at_, std::string("the format type %") + spec.type), false;
    if (!is_one_of(spec.type, "diuoxXeEfFgG")) return fail("unsupported format character");
    if (!value.is_number()) return r_.type_error(at_, "a number is needed to format, found", value), false;
    if (!is_real(spec)) return convert_whole(value, spec);
    if (!std::isfinite(value.as_real()) && spec.zero) return r_.unsupported(at_, "padding infinity or nan with zeros"), false;
    return append_number(r_, at_, value, spec, &out_);
  }

  Renderer& r_;
  uint32_t at_;
  Value values_, single_;
  std::span<const Value> list_;
  size_t next_ = 0;
  TextBuilder out_;
};

// One rendering of "...".format(...).
class Braces {
 public:
  Braces(Renderer& r, const Call& call) : r_(r), call_(call), out_(r.arena()) {}

  Value run() {
    for (std::string_view s = call_.self.str(); !s.empty() && r_.spend(call_.at, 1);) {
      size_t n = std::min(s.find_first_of("{}"), s.size());
      out_.append(s.substr(0, n));
      s.remove_prefix(n);
      if (s.empty()) break;
      if (s.size() > 1 && s[1] == s[0]) {
        out_.append(s[0]);
        s.remove_prefix(2);
        continue;
      }
      size_t close = s.find_first_of("{}", 1);
      if (s[0] == '}' || close == std::string_view::npos) return r_.fail(call_.at, "format: a single brace");
      if (s[close] == '{') return r_.unsupported(call_.at, "nested fields in a format");
      if (!field(s.substr(1, close - 1))) return {};
      s.remove_prefix(close + 1);
    }
    return r_.failed() ? Value() : out_.value();
  }

 private:
  // [name]{.attribute|[item]}[!conversion][:spec]
  bool field(std::string_view s) {
    size_t colon = std::min(s.find(':'), s.size()), mark = s.substr(0, colon).find('!');
    std::string_view spec = colon < s.size() ? s.substr(colon + 1) : "", path = s.substr(0, std::min(mark, colon));
    std::string_view conversion = mark == std::string_view::npos ? "" : s.substr(mark, colon - mark);
    Value value = first(path.substr(0, path.find_first_of(".[")));
    path.remove_prefix(std::min(path.find_first_of(".["), path.size()));
    while (!path.empty() && !r_.failed()) value = step(value, &path);
    if (r_.failed()) return false;
    if (conversion == "!r") {
      TextBuilder text(r_.arena());
      if (!append_repr(value, &text)) return r_.unsupported(call_.at, std::string("!r of ") + type_name(value)), false;
      value = text.value();
    } else if (conversion == "!s") {
      value = Value::of(r_.str(call_.at, value));
    } else if (!conversion.empty()) {
      return r_.unsupported(call_.at, "the conversion " + r_.own(conversion)), false;
    }
    return format_value(r_, call_.at, value, spec, &out_);
  }

  Value first(std::string_view name) {
    bool number = !name.empty() && std::all_of(name.begin(), name.end(), is_digit);
    if (name.empty() || number) {
      if (automatic_ != (number ? 'n' : 'y') && automatic_ != 0) return r_.fail(call_.at, "format: automatic and manual numbers mixed");
      automatic_ = number ? 'n' : 'y';
      size_t i = next_;
      if (number) std::from_chars(name.data(), name.data() + name.size(), i);
      next_ += !number;
      return i < call_.raw->list.size() ? call_.raw->list[i] : r_.fail(call_.at, "format: no argument '" + r_.own(name) + "'");
    }
    for (const auto& [given, value] : call_.raw->named) {
      if (given == name) return value;
    }
    return r_.fail(call_.at, "format: no argument '" + r_.own(name) + "'");
  }

  Value step(Value value, std::string_view* path) {
    bool attribute = path->front() == '.';
    path->remove_prefix(1);
    size_t n = std::min(path->find_first_of(attribute ? ".[" : "]"), path->size());
    std::string_view name = path->substr(0, n);
    if (name.empty() || (!attribute && n == path->size())) return r_.fail(call_.at, "format: a malformed field");
    path->remove_prefix(n + !attribute);
    if (attribute) return r_.attribute(call_.at, value, name);
    int64_t index = 0;
    bool digits = std::all_of(name.begin(), name.end(), is_digit) && std::from_chars(name.data(), name.data() + n, index).ec == std::errc();
    return r_.item(call_.at, value, digits ? Value::of(index) : Value::of(name));
  }

  Renderer& r_;
  const Call& call_;
  size_t next_ = 0;
  char automatic_ = 0;  // y or n once it is known
  TextBuilder out_;
};

}  // namespace

Value format_percent(Renderer& r, uint32_t at, std::string_view format, Value values) {
  return r.spend(at, format.size() / 16) ? Percent(r, at, values).run(format) : Value();
}

Value format_braces(Renderer& r, const Call& call) { return r.spend(call.at, call.self.size / 16) ? Braces(r, call).run() : Value(); }

}  // namespace kvrt::jinja
