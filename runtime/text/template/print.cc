#include "runtime/text/template/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "runtime/base/utf8.h"
#include "runtime/text/unicode/case.h"

namespace kvrt::jinja {

void TextBuilder::append(char32_t c) {
  if (c < 0x80) return append(static_cast<char>(c));
  std::string bytes;  // short: no allocation
  append_code_point(c, &bytes);
  append(bytes);
}

void TextBuilder::repeat(std::string_view s, uint64_t times) {
  for (; times > 0 && !full() && !s.empty(); --times) append(s);
}

namespace {

// Python's repr of a float: the shortest digits that read back the same, exponent form below 1e-4 and from 1e16 on.
void append_real(double d, TextBuilder* out) {
  if (std::isnan(d)) return out->append("nan");
  if (std::isinf(d)) return out->append(d < 0 ? "-inf" : "inf");
  char text[400];
  double size = std::fabs(d);
  bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  auto end = std::to_chars(text, text + sizeof text, d, plain ? std::chars_format::fixed : std::chars_format::scientific).ptr;
  std::string_view digits(text, static_cast<size_t>(end - text));
  out->append(digits);
  if (plain && digits.find('.') == std::string_view::npos) out->append(".0");
}

void append_escape(const char* format, char32_t c, TextBuilder* out) {
  char text[16];
  snprintf(text, sizeof text, format, static_cast<unsigned>(c));
  out->append(std::string_view(text));
}

void append_quoted(std::string_view s, TextBuilder* out) {
  constexpr std::string_view kNamed = "\n\r\t", kLetters = "nrt";
  bool single = s.find('\'') == std::string_view::npos || s.find('"') != std::string_view::npos;
  char quote = single ? '\'' : '"';
  out->append(quote);
  while (!s.empty() && !out->full()) {
    CodePoint point = read_code_point(s);
    char32_t c = point.value;
    uint32_t n = std::max(point.size, 1u);
    const size_t named = c < 0x80 ? kNamed.find(static_cast<char>(c)) : std::string_view::npos;
    if (named != std::string_view::npos) {
      out->append('\\');
      out->append(kLetters[named]);
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out->append('\\');
      out->append(s.substr(0, n));
    } else if (!is_printable(c)) {
      append_escape(c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c, out);
    } else {
      const auto stands = [quote](char b) { return b >= 0x20 && b < 0x7F && b != '\\' && b != quote; };
      n = static_cast<uint32_t>(std::find_if_not(s.begin() + n, s.end(), stands) - s.begin());  // plain ones together
      out->append(s.substr(0, n));
    }
    s.remove_prefix(n);
  }
  out->append(quote);
}

// [1, 2] or (1, 2); a tuple of one item is (1,).
bool append_sequence(const List& items, bool list, TextBuilder* out) {
  if (items.form != ListForm::kPlain) return false;
  out->append(list ? '[' : '(');
  for (uint32_t i = 0; i < items.size && !out->full(); ++i) {
    if (i > 0) out->append(", ");
    if (!append_repr(items.data[i], out)) return false;
  }
  if (!list && items.size == 1) out->append(',');
  out->append(list ? ']' : ')');
  return true;
}

bool append_dict(const Dict& dict, TextBuilder* out) {
  out->append('{');
  for (uint32_t i = 0; i < dict.size && !out->full(); ++i) {
    if (i > 0) out->append(", ");
    if (!append_repr(dict.data[i].key, out)) return false;
    out->append(": ");
    if (!append_repr(dict.data[i].value, out)) return false;
  }
  out->append('}');
  return true;
}

struct JsonWriter {
  const JsonFormat& format;
  TextBuilder* out;

  void write_string(std::string_view s) const {
    out->append('"');
    while (!s.empty() && !out->full()) {
      static const char kEscaped[] = "\"\\\n\r\t\b\f", kLetters[] = "\"\\nrtbf";
      auto plain = [this](char c) {
        auto byte = static_cast<unsigned char>(c);
        return byte >= 0x20 && c != '"' && c != '\\' && (byte < 0x7F || !format.ascii);
      };
      size_t n = 0;
      while (n < s.size() && plain(s[n])) ++n;
      out->append(s.substr(0, n));
      s.remove_prefix(n);
      if (s.empty()) break;
      char32_t c = read_code_point(s).value;
      const char* at = c == 0 || c > 0x7F ? nullptr : strchr(kEscaped, static_cast<char>(c));
      if (at != nullptr) {
        out->append('\\');
        out->append(kLetters[at - kEscaped]);
      } else if (c < 0x10000) {
        append_escape("\\u%04x", c, out);
      } else {
        append_escape("\\u%04x", 0xD800 + ((c - 0x10000) >> 10), out);
        append_escape("\\u%04x", 0xDC00 + ((c - 0x10000) & 0x3FF), out);
      }
      s.remove_prefix(std::max(read_code_point(s).size, 1u));
    }
    out->append('"');
  }
  void line(int level) const {
    if (!format.lines) return;
    out->append('\n');
    for (int i = 0; i < level && !out->full(); ++i) out->append(format.indent);
  }
  void comma(uint32_t i, int level) const {
    if (i > 0) out->append(format.item);
    line(level);
  }
  bool write_key(Value key) const {
    if (key.is(Kind::kString)) return write_string(key.str()), true;
    out->append('"');
    bool ok = write(key, 0);
    out->append('"');
    return ok;
  }
  bool write_list(const List& list, int level) const {
    if (list.form != ListForm::kPlain) return false;
    out->append('[');
    for (uint32_t i = 0; i < list.size && !out->full(); ++i) {
      comma(i, level + 1);
      if (!write(list.data[i], level + 1)) return false;
    }
    if (list.size > 0) line(level);
    out->append(']');
    return true;
  }
  bool write_dict(const Dict& dict, int level) const {
    std::vector<const Pair*> pairs(dict.size);
    for (uint32_t i = 0; i < dict.size; ++i) pairs[i] = &dict.data[i];
    if (format.sorted) {
      auto is_text = [](const Pair* pair) { return pair->key.is(Kind::kString); };
      if (dict.size > 1 && !std::all_of(pairs.begin(), pairs.end(), is_text)) return false;
      std::sort(pairs.begin(), pairs.end(), [](const Pair* a, const Pair* b) { return a->key.str() < b->key.str(); });
    }
    out->append('{');
    for (uint32_t i = 0; i < dict.size && !out->full(); ++i) {
      comma(i, level + 1);
      if (!write_key(pairs[i]->key)) return false;
      out->append(format.key);
      if (!write(pairs[i]->value, level + 1)) return false;
    }
    if (dict.size > 0) line(level);
    out->append('}');
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
      case Kind::kBig:
        append_number(v, out);
        return true;
      case Kind::kFloat:
        if (std::isfinite(v.real)) return append_real(v.real, out), true;
        out->append(std::isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity");
        return true;
      case Kind::kString:
        write_string(v.str());
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

void append_number(Value v, TextBuilder* out) {
  if (v.is(Kind::kFloat)) return append_real(v.real, out);
  if (v.is(Kind::kBig)) return out->append(v.str());
  char text[24];
  out->append(std::string_view(text, static_cast<size_t>(std::to_chars(text, text + sizeof text, v.as_int()).ptr - text)));
}

bool append_repr(Value v, TextBuilder* out) {
  if (out->full()) return true;
  switch (v.kind) {
    case Kind::kUndefined:
      return out->append("Undefined"), true;
    case Kind::kNone:
      return out->append("None"), true;
    case Kind::kBool:
      return out->append(v.boolean ? "True" : "False"), true;
    case Kind::kInt:
    case Kind::kBig:
    case Kind::kFloat:
      return append_number(v, out), true;
    case Kind::kString:
      if (v.markup) return false;
      return append_quoted(v.str(), out), true;
    case Kind::kList:
    case Kind::kTuple:
      return append_sequence(*v.list, v.is(Kind::kList), out);
    case Kind::kDict:
      return append_dict(*v.dict, out);
    default:
      return false;
  }
}

bool append_str(Value v, TextBuilder* out) {
  if (v.is(Kind::kString)) return out->append(v.str()), true;
  if (v.is(Kind::kDict) && v.dict->spelled) return append_json(v, {}, out);
  return v.is(Kind::kUndefined) || append_repr(v, out);
}

bool append_json(Value value, const JsonFormat& format, TextBuilder* out) { return JsonWriter{format, out}.write(value, 0); }

}  // namespace kvrt::jinja
