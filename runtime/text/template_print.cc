// str(), repr() and json.dumps() of Python, over template values.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "runtime/text/template_value.h"
#include "runtime/text/unicode.h"

namespace kvrt::jinja {

namespace {

// Python's repr of a float: the shortest digits that read back the same, exponent form below 1e-4 and from 1e16 on.
void append_real(double d, std::string* out) {
  if (std::isnan(d)) return void(out->append("nan"));
  if (std::isinf(d)) return void(out->append(d < 0 ? "-inf" : "inf"));
  char text[400];
  double size = std::fabs(d);
  bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  auto end = std::to_chars(text, text + sizeof text, d, plain ? std::chars_format::fixed : std::chars_format::scientific).ptr;
  std::string_view digits(text, static_cast<size_t>(end - text));
  out->append(digits);
  if (plain && digits.find('.') == std::string_view::npos) out->append(".0");
}

// Printable in Python's sense for what is below U+0100; above it only separators and format characters would differ.
bool printable(char32_t c) {
  if (c < 0x20 || c == 0x7F || (c > 0x7F && c < 0xA1) || c == 0xAD) return false;
  return !is_space(c) || c == ' ';
}

void append_quoted(std::string_view s, std::string* out) {
  bool single = s.find('\'') == std::string_view::npos || s.find('"') != std::string_view::npos;
  char quote = single ? '\'' : '"';
  out->push_back(quote);
  while (!s.empty()) {
    CodePoint point = read_code_point(s);
    char32_t c = point.value;
    uint32_t n = point.size == 0 ? 1 : point.size;
    char text[16];
    if (c == '\n' || c == '\r' || c == '\t') {
      out->append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out->push_back('\\');
      out->append(s.substr(0, n));
    } else if (!printable(c)) {
      snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : "\\u%04x", static_cast<unsigned>(c));
      out->append(text);
    } else {
      out->append(s.substr(0, n));
    }
    s.remove_prefix(n);
  }
  out->push_back(quote);
}

void append_json_string(std::string_view s, std::string* out) {
  out->push_back('"');
  for (char c : s) {
    static const char kEscaped[] = "\"\\\n\r\t\b\f", kLetters[] = "\"\\nrtbf";
    const char* at = c == 0 ? nullptr : strchr(kEscaped, c);
    char text[8];
    if (at != nullptr) {
      out->push_back('\\');
      out->push_back(kLetters[at - kEscaped]);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(c));
      out->append(text);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

struct JsonWriter {
  int indent;
  bool compact;
  std::string* out;

  void line(int level) const {
    if (indent < 0) return;
    out->push_back('\n');
    out->append(static_cast<size_t>(indent) * static_cast<size_t>(level), ' ');
  }
  void comma(uint32_t i, int level) const {
    if (i > 0) out->append(compact || indent >= 0 ? "," : ", ");
    line(level);
  }
  bool write_key(Value key) const {
    if (key.is(Kind::kString)) return append_json_string(key.str(), out), true;
    out->push_back('"');
    bool ok = write(key, 0);
    out->push_back('"');
    return ok;
  }
  bool write_list(const List& list, int level) const {
    if (list.form == ListForm::kGenerator || list.form == ListForm::kView || list.form == ListForm::kRange) return false;
    out->push_back('[');
    for (uint32_t i = 0; i < list.size; ++i) {
      comma(i, level + 1);
      if (!write(list.data[i], level + 1)) return false;
    }
    if (list.size > 0) line(level);
    out->push_back(']');
    return true;
  }
  bool write_dict(const Dict& dict, int level) const {
    out->push_back('{');
    for (uint32_t i = 0; i < dict.size; ++i) {
      comma(i, level + 1);
      if (!write_key(dict.data[i].key)) return false;
      out->append(compact ? ":" : ": ");
      if (!write(dict.data[i].value, level + 1)) return false;
    }
    if (dict.size > 0) line(level);
    out->push_back('}');
    return true;
  }
  bool write(Value v, int level) const {
    switch (v.kind) {
      case Kind::kNone:
        out->append("null");
        return true;
      case Kind::kBool:
        out->append(v.boolean ? "true" : "false");
        return true;
      case Kind::kInt:
        append_number(v, out);
        return true;
      case Kind::kFloat:
        if (!std::isfinite(v.real)) return out->append(std::isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity"), true;
        append_real(v.real, out);
        return true;
      case Kind::kString:
        append_json_string(v.str(), out);
        return true;
      case Kind::kList:
      case Kind::kTuple:
        return write_list(*v.list, level);
      case Kind::kDict:
        return write_dict(*v.dict, level);
      default:
        return false;
    }
  }
};

}  // namespace

void append_number(Value v, std::string* out) {
  if (v.is(Kind::kFloat)) return append_real(v.real, out);
  char text[24];
  out->append(text, std::to_chars(text, text + sizeof text, v.as_int()).ptr);
}

void append_repr(Value v, std::string* out) {
  switch (v.kind) {
    case Kind::kUndefined:
      out->append("Undefined");
      return;
    case Kind::kNone:
      out->append("None");
      return;
    case Kind::kBool:
      out->append(v.boolean ? "True" : "False");
      return;
    case Kind::kInt:
    case Kind::kFloat:
      append_number(v, out);
      return;
    case Kind::kString:
      append_quoted(v.str(), out);
      return;
    case Kind::kList:
    case Kind::kTuple: {
      bool list = v.is(Kind::kList);
      out->push_back(list ? '[' : '(');
      for (uint32_t i = 0; i < v.list->size; ++i) {
        if (i > 0) out->append(", ");
        append_repr(v.list->data[i], out);
      }
      if (!list && v.list->size == 1) out->push_back(',');
      out->push_back(list ? ']' : ')');
      return;
    }
    case Kind::kDict:
      out->push_back('{');
      for (uint32_t i = 0; i < v.dict->size; ++i) {
        if (i > 0) out->append(", ");
        append_repr(v.dict->data[i].key, out);
        out->append(": ");
        append_repr(v.dict->data[i].value, out);
      }
      out->push_back('}');
      return;
    default:
      return;  // the renderer refuses to print the others
  }
}

void append_str(Value v, std::string* out) {
  if (v.is(Kind::kString)) return void(out->append(v.str()));
  if (v.is(Kind::kUndefined)) return;
  append_repr(v, out);
}

bool append_json(Value value, int indent, bool compact, std::string* out) { return JsonWriter{indent, compact, out}.write(value, 0); }

}  // namespace kvrt::jinja
