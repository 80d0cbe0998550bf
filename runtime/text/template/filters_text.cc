// Filters of texts.
#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

Value as_string(Renderer& r, const Call& c) {
  if (c.self.is(Kind::kString)) return c.self;
  std::string_view s = r.str(c.at, c.self);
  return r.failed() ? Value() : Value::of(s);
}

Value trim(Renderer& r, const Call& c) {
  std::string_view s = r.str(c.at, c.self);
  if (c.given(0) && (!is_text(r, c, 0) || !r.spend(c.at, c[0].size * s.size() / 4096))) return {};
  Value chars = c.given(0) ? c[0] : Value::none();
  std::string_view stripped = strip(s, &chars, true, true);
  return r.spend(c.at, (s.size() - stripped.size()) / 4) ? Value::of(stripped) : Value();
}

Value change(Renderer& r, const Call& c) {
  std::string_view s = r.str(c.at, c.self);
  return r.failed() ? Value() : change_text(r, c.at, s, c.name);
}

// Jinja's own rule: words begin after white space and -({[<.
Value title(Renderer& r, const Call& c) {
  std::string_view s = r.str(c.at, c.self);
  if (!r.spend(c.at, s.size() / 16)) return {};
  auto separator = [](char32_t p) { return is_space(p) || p == '-' || p == '(' || p == '{' || p == '[' || p == '<'; };
  TextBuilder out(r.arena());
  for (size_t i = 0; i < s.size();) {
    size_t first = std::max(read_code_point(s.substr(i)).size, 1u), end = i + first;
    append_upper(s.substr(i, first), &out);
    if (!separator(read_code_point(s.substr(i)).value)) {
      while (end < s.size() && !separator(read_code_point(s.substr(end)).value)) end += std::max(read_code_point(s.substr(end)).size, 1u);
      append_lower(s.substr(i + first, end - i - first), &out);
    }
    i = end;
  }
  return out.value();
}

Value replace(Renderer& r, const Call& c) {
  int64_t count = -1;
  if (c.given(2) && !whole_number(r, c, 2, &count)) return {};
  std::string_view s = r.str(c.at, c.self), from = r.str(c.at, c[0]), to = r.str(c.at, c[1]);
  return r.failed() ? Value() : replace_text(r, c.at, s, from, to, count);
}

Value center(Renderer& r, const Call& c) {
  int64_t width = 80;
  if (c.has(0) && !whole_number(r, c, 0, &width)) return {};
  std::string_view s = r.str(c.at, c.self);
  return r.failed() ? Value() : pad_text(r, c.at, s, width, " ", Align::kCenter);
}

Value indent(Renderer& r, const Call& c) {
  if (!c.self.is(Kind::kString)) return r.type_error(c.at, "indent: expected a string, found", c.self);
  std::string_view with = "    ";
  if (c.has(0)) {
    if (c[0].is(Kind::kString)) {
      with = c[0].str();
    } else {
      int64_t width = 0;
      if (!whole_number(r, c, 0, &width)) return {};
      Value padding = pad_text(r, c.at, "", width, " ", Align::kLeft);
      if (r.failed()) return {};
      with = padding.str();
    }
  }
  bool first = c.has(1) && truth(c[1]), blank = c.has(2) && truth(c[2]);
  TextBuilder quirk(r.arena());
  quirk.append(c.self.str());
  quirk.append('\n');
  const List* lines = split_lines(r, c.at, quirk.view(), false);
  if (lines == nullptr) return {};
  TextBuilder out(r.arena());
  for (uint32_t i = 0; i < lines->size && r.spend(c.at, (with.size() + lines->data[i].size) / 64); ++i) {
    if (i > 0) out.append('\n');
    if (i == 0 ? first : blank || lines->data[i].size > 0) out.append(with);
    out.append(lines->data[i].str());
  }
  return out.value();
}

Value truncate(Renderer& r, const Call& c) {
  int64_t length = 255, leeway = 5;
  if (!c.self.is(Kind::kString))
    return c.self.is(Kind::kUndefined) ? c.self : r.type_error(c.at, "truncate: expected a string, found", c.self);
  if ((c.has(0) && !whole_number(r, c, 0, &length)) || (c.given(3) && !whole_number(r, c, 3, &leeway))) return {};
  if (c.has(2) && !is_text(r, c, 2)) return {};
  std::string_view s = c.self.str(), end = c.has(2) ? c[2].str() : "...";
  auto end_size = static_cast<int64_t>(count_code_points(end));
  if (length < end_size || leeway < 0) return r.fail(c.at, "truncate: the length is below that of the end");
  if (!r.spend(c.at, s.size() / 64)) return {};
  if (static_cast<int64_t>(count_code_points(s)) - leeway <= length) return c.self;
  std::string_view kept = s.substr(0, bytes_of_code_points(s, static_cast<size_t>(length - end_size)));
  if (!(c.has(1) && truth(c[1]))) kept = kept.substr(0, kept.rfind(' '));
  TextBuilder out(r.arena());
  out.append(kept);
  out.append(end);
  return out.value();
}

Value wordcount(Renderer& r, const Call& c) {
  std::string_view s = r.str(c.at, c.self);
  if (!r.spend(c.at, s.size() / 64)) return {};
  if (!is_ascii(s)) return r.unsupported(c.at, "wordcount of text that is not ASCII");
  auto word = [](char x) { return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') || x == '_'; };
  int64_t count = 0;
  for (size_t i = 0; i < s.size(); ++i) count += word(s[i]) && (i == 0 || !word(s[i - 1]));
  return Value::of(count);
}

Value format(Renderer& r, const Call& c) {
  if (!c.raw->list.empty() && !c.raw->named.empty()) return r.fail(c.at, "format: positional and named arguments at once");
  std::string_view s = r.str(c.at, c.self);
  auto list = r.make_list();
  auto dict = create<Dict>(r.arena());
  if (r.failed() || list == nullptr || dict == nullptr) return {};
  for (Value value : c.raw->list) list->push(r.arena(), value);
  for (const auto& [name, value] : c.raw->named) r.set(c.at, dict, Value::of(name), value);
  return format_percent(r, c.at, s, dict->size > 0 ? Value::of(dict) : Value::of(list, Kind::kTuple));
}

Value escape(Renderer& r, const Call& c) {
  if (c.self.markup && c.name != "forceescape") return c.self;
  return escape_text(r, c.at, r.str(c.at, c.self));
}

Value safe(Renderer& r, const Call& c) {
  std::string_view s = r.str(c.at, c.self);
  Value marked = Value::of(s);
  marked.markup = true;
  return r.failed() ? Value() : marked;
}

constexpr Builtin kTextFilters[] = {{"string", "", 0, as_string, Markup::kTake},
                                    {"trim", "chars", 0, trim, Markup::kKeep},
                                    {"upper", "", 0, change, Markup::kKeep},
                                    {"lower", "", 0, change, Markup::kKeep},
                                    {"capitalize", "", 0, change, Markup::kKeep},
                                    {"title", "", 0, title, Markup::kTake},
                                    {"replace", "old new count", 2, replace, Markup::kTake},
                                    {"center", "width", 0, center, Markup::kKeep},
                                    {"indent", "width first blank", 0, indent},
                                    {"truncate", "length killwords end leeway", 0, truncate},
                                    {"wordcount", "", 0, wordcount, Markup::kTake},
                                    {"format", "*", 0, format},
                                    {"escape", "", 0, escape, Markup::kTake},
                                    {"e", "", 0, escape, Markup::kTake},
                                    {"forceescape", "", 0, escape, Markup::kTake},
                                    {"safe", "", 0, safe, Markup::kTake},
                                    {"tojson", "ensure_ascii indent separators sort_keys", 0, to_json, Markup::kTake},
                                    {"striptags", "*", 0, nullptr},
                                    {"wordwrap", "*", 0, nullptr},
                                    {"urlencode", "*", 0, nullptr},
                                    {"urlize", "*", 0, nullptr},
                                    {"xmlattr", "*", 0, nullptr},
                                    {"pprint", "*", 0, nullptr}};

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

}  // namespace kvrt::jinja
