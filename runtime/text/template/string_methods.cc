// Methods of strings that make strings or lists.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

Value strip_method(Renderer& r, const Call& c) {
  std::string_view s = c.self.str();
  if (c.given(0) && (!is_text(r, c, 0) || !r.spend(c.at, c[0].size * s.size() / 4096))) return {};
  Value chars = c.given(0) ? c[0] : Value::none();
  std::string_view stripped = strip(s, &chars, c.name != "rstrip", c.name != "lstrip");
  return r.spend(c.at, (s.size() - stripped.size()) / 4) ? Value::of(stripped) : Value();
}

Value change_method(Renderer& r, const Call& c) { return change_text(r, c.at, c.self.str(), c.name); }

Value casefold(Renderer& r, const Call& c) {
  return is_ascii(c.self.str()) ? change_text(r, c.at, c.self.str(), "lower") : r.unsupported(c.at, "casefold of text that is not ASCII");
}

Value replace_method(Renderer& r, const Call& c) {
  int64_t count = -1;
  if (!is_text(r, c, 0) || !is_text(r, c, 1) || (c.has(2) && !whole_number(r, c, 2, &count))) return {};
  return replace_text(r, c.at, c.self.str(), c[0].str(), c[1].str(), count);
}

Value join_method(Renderer& r, const Call& c) {
  const List* items = r.iterate(c.at, c[0]);
  TextBuilder out(r.arena());
  for (uint32_t i = 0; items != nullptr && i < items->size; ++i) {
    Value item = items->data[i];
    if (!item.is(Kind::kString)) return r.type_error(c.at, "str.join: expected strings, found", item);
    if (!r.spend(c.at, 1 + (item.size + c.self.size) / 256)) return {};
    if (i > 0) out.append(c.self.str());
    out.append(item.str());
  }
  return r.failed() ? Value() : out.value();
}

Value pad(Renderer& r, const Call& c) {
  int64_t width = 0;
  if (!whole_number(r, c, 0, &width) || (c.has(1) && !is_text(r, c, 1))) return {};
  std::string_view fill = c.has(1) ? c[1].str() : " ";
  if (count_code_points(fill) != 1) return r.fail(c.at, std::string(c.name) + ": the fill is one character");
  return pad_text(r, c.at, c.self.str(), width, fill,
                  c.name == "center"  ? Align::kCenter
                  : c.name == "ljust" ? Align::kLeft
                                      : Align::kRight);
}

Value zfill(Renderer& r, const Call& c) {
  int64_t width = 0;
  if (!whole_number(r, c, 0, &width)) return {};
  std::string_view s = c.self.str();
  bool sign = !s.empty() && (s[0] == '-' || s[0] == '+');
  Value padded = pad_text(r, c.at, s.substr(sign), width == INT64_MIN ? width : width - sign, "0", Align::kRight);
  if (!sign || r.failed()) return padded;
  TextBuilder out(r.arena());
  out.append(s[0]);
  out.append(padded.str());
  return out.value();
}

Value expandtabs(Renderer& r, const Call& c) {
  int64_t size = 8, column = 0;
  if (c.has(0) && !whole_number(r, c, 0, &size)) return {};
  if (size > static_cast<int64_t>(kTemplateHeapBytesMax)) return r.heap_limit(c.at);
  TextBuilder out(r.arena());
  for (std::string_view s = c.self.str(); !s.empty() && r.spend(c.at, 1);) {
    size_t n = s[0] == '\t' ? 1 : std::min(s.find('\t'), s.size());
    std::string_view part = s.substr(0, n);
    s.remove_prefix(n);
    if (part[0] != '\t') {
      size_t line = part.find_last_of("\n\r");
      column = line == std::string_view::npos ? column + static_cast<int64_t>(count_code_points(part))
                                              : static_cast<int64_t>(count_code_points(part.substr(line + 1)));
      out.append(part);
    } else if (size > 0) {
      int64_t spaces = size - column % size;
      if (!r.spend(c.at, static_cast<uint64_t>(spaces) / 16)) return {};
      out.repeat(" ", static_cast<uint64_t>(spaces));
      column += spaces;
    }
  }
  return r.failed() ? Value() : out.value();
}

Value affix(Renderer& r, const Call& c) {
  if (!is_text(r, c, 0)) return {};
  std::string_view s = c.self.str(), part = c[0].str();
  if (!r.spend(c.at, part.size() / 256)) return {};
  if (c.name == "removeprefix") return Value::of(s.starts_with(part) ? s.substr(part.size()) : s);
  return Value::of(s.ends_with(part) ? s.substr(0, s.size() - part.size()) : s);
}

Value partition(Renderer& r, const Call& c) {
  if (!is_text(r, c, 0)) return {};
  std::string_view s = c.self.str(), separator = c[0].str(), none = "";
  if (separator.empty()) return r.fail(c.at, std::string(c.name) + ": empty separator");
  if (!r.spend(c.at, c.name == "partition" ? search_steps(s, separator) : s.size() * separator.size() / 64)) return {};
  size_t found = c.name == "partition" ? find_text(s, separator) : s.rfind(separator);
  bool there = found != std::string_view::npos;
  auto list = r.make_list();
  if (list == nullptr) return {};
  if (!there && c.name == "rpartition") {
    for (std::string_view part : {none, none, s}) list->push(r.arena(), Value::of(part));
  } else {
    list->push(r.arena(), Value::of(s.substr(0, found)));
    list->push(r.arena(), there ? c[0] : Value::of(none));
    list->push(r.arena(), Value::of(there ? s.substr(found + separator.size()) : none));
  }
  return Value::of(list, Kind::kTuple);
}

// The pieces of `s` between white space, `most` cuts at most; from the right the list comes out backwards.
void split_space(Renderer& r, std::string_view s, uint64_t most, bool right, List* out) {
  for (s = strip(s, nullptr, !right, right); !s.empty(); s = strip(s, nullptr, !right, right)) {
    size_t n = 0;
    while (most > 0 && n < s.size()) {
      size_t step = 1;
      std::string_view rest = right ? s.substr(0, s.size() - n) : s.substr(n);
      if (right) {
        while (step < rest.size() && (static_cast<unsigned char>(rest[rest.size() - step]) & 0xC0) == 0x80) ++step;
      }
      CodePoint point = read_code_point(right ? rest.substr(rest.size() - step) : rest);
      if (is_space(point.value)) break;
      n += right ? step : std::max(point.size, 1u);
    }
    if (most == 0) n = s.size();  // the last piece keeps its space on the far side
    out->push(r.arena(), Value::of(right ? s.substr(s.size() - n) : s.substr(0, n)));
    s = right ? s.substr(0, s.size() - n) : s.substr(n);
    most -= most > 0;
  }
}

void split_separator(Renderer& r, std::string_view s, std::string_view separator, uint64_t most, bool right, List* out) {
  for (; most > 0 && !r.arena()->full(); --most) {
    size_t found = right ? s.rfind(separator) : find_text(s, separator);
    if (found == std::string_view::npos) break;
    out->push(r.arena(), Value::of(right ? s.substr(found + separator.size()) : s.substr(0, found)));
    s = right ? s.substr(0, found) : s.substr(found + separator.size());
  }
  out->push(r.arena(), Value::of(s));
}

Value split(Renderer& r, const Call& c) {
  int64_t count = -1;
  bool right = c.name == "rsplit";
  if ((c.given(0) && !is_text(r, c, 0)) || (c.has(1) && !whole_number(r, c, 1, &count))) return {};
  uint64_t most = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  std::string_view s = c.self.str(), separator = c.given(0) ? c[0].str() : "";
  if (c.given(0) && separator.empty()) return r.fail(c.at, "split: empty separator");
  auto list = r.make_list();
  if (list == nullptr || !r.spend(c.at, s.size() / (c.given(0) ? 16 : 8) + (right ? s.size() * separator.size() / 256 : 0))) return {};
  c.given(0) ? split_separator(r, s, separator, most, right, list) : split_space(r, s, most, right, list);
  if (right) std::reverse(list->data, list->data + list->size);
  return r.spend(c.at, list->size) ? Value::of(list) : Value();
}

Value splitlines(Renderer& r, const Call& c) { return Value::of(split_lines(r, c.at, c.self.str(), c.has(0) && truth(c[0]))); }

constexpr Builtin kMethods[] = {{"strip", "/ chars", 0, strip_method, Markup::kKeep},
                                {"lstrip", "/ chars", 0, strip_method, Markup::kKeep},
                                {"rstrip", "/ chars", 0, strip_method, Markup::kKeep},
                                {"upper", "/", 0, change_method, Markup::kKeep},
                                {"lower", "/", 0, change_method, Markup::kKeep},
                                {"title", "/", 0, change_method, Markup::kKeep},
                                {"capitalize", "/", 0, change_method, Markup::kKeep},
                                {"swapcase", "/", 0, change_method, Markup::kKeep},
                                {"casefold", "/", 0, casefold, Markup::kKeep},
                                {"replace", "/ old new count", 2, replace_method},
                                {"join", "/ iterable", 1, join_method},
                                {"center", "/ width fillchar", 1, pad, Markup::kKeep},
                                {"ljust", "/ width fillchar", 1, pad, Markup::kKeep},
                                {"rjust", "/ width fillchar", 1, pad, Markup::kKeep},
                                {"zfill", "/ width", 1, zfill, Markup::kKeep},
                                {"expandtabs", "tabsize", 0, expandtabs, Markup::kKeep},
                                {"removeprefix", "/ prefix", 1, affix, Markup::kKeep},
                                {"removesuffix", "/ suffix", 1, affix, Markup::kKeep},
                                {"partition", "/ sep", 1, partition, Markup::kKeep},
                                {"rpartition", "/ sep", 1, partition, Markup::kKeep},
                                {"split", "sep maxsplit", 0, split, Markup::kKeep},
                                {"rsplit", "sep maxsplit", 0, split, Markup::kKeep},
                                {"splitlines", "keepends", 0, splitlines, Markup::kKeep},
                                {"format", "*", 0, format_braces},
                                {"format_map", "*", 0, nullptr},
                                {"encode", "*", 0, nullptr},
                                {"translate", "*", 0, nullptr},
                                {"maketrans", "*", 0, nullptr}};

}  // namespace

std::span<const Builtin> string_methods() { return kMethods; }

}  // namespace kvrt::jinja
