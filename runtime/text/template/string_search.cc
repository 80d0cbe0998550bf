// Methods of strings that look for texts and at characters.
#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/text/template/text.h"
#include "runtime/text/unicode/case.h"

namespace kvrt::jinja {

namespace {

// The part of a text from argument `i` to argument i + 1, which count code points as slices do. `first`: the count of those before it.
// False: it is no part at all (the start lies past the end), or a call failed.
bool part_of(Renderer& r, const Call& c, size_t i, std::string_view* part, int64_t* first) {
  std::string_view s = c.self.str();
  *part = s;
  *first = 0;
  if (!r.spend(c.at, s.size() / 64)) return false;
  if (!c.given(i) && !c.given(i + 1)) return true;
  auto n = static_cast<int64_t>(count_code_points(s));
  int64_t begin = 0, end = n;
  if ((c.given(i) && !whole_number(r, c, i, &begin)) || (c.given(i + 1) && !whole_number(r, c, i + 1, &end))) return false;
  begin = std::max<int64_t>(begin < 0 ? begin + n : begin, 0);
  end = std::clamp<int64_t>(end < 0 ? end + n : end, 0, n);
  if (begin > end) return false;
  size_t skipped = bytes_of_code_points(s, static_cast<size_t>(begin));
  *part = s.substr(skipped, bytes_of_code_points(s.substr(skipped), static_cast<size_t>(end - begin)));
  *first = begin;
  return true;
}

Value begins_or_ends(Renderer& r, const Call& c) {
  std::string_view part;
  int64_t first;
  if (!c[0].is(Kind::kString) && !c[0].is(Kind::kTuple)) return r.type_error(c.at, "expected a string or a tuple of strings, found", c[0]);
  bool there = part_of(r, c, 1, &part, &first);
  Value single = c[0];
  const Value* wanted = c[0].is(Kind::kTuple) ? c[0].list->data : &single;
  uint32_t count = c[0].is(Kind::kTuple) ? c[0].list->size : 1;
  for (uint32_t i = 0; i < count && r.spend(c.at, 1 + wanted[i].size / 256); ++i) {
    if (!wanted[i].is(Kind::kString)) return r.type_error(c.at, "expected a tuple of strings, found", wanted[i]);
    if (there && (c.name == "endswith" ? part.ends_with(wanted[i].str()) : part.starts_with(wanted[i].str()))) return Value::of(true);
  }
  return r.failed() ? Value() : Value::of(false);
}

Value count(Renderer& r, const Call& c) {
  std::string_view part;
  int64_t first, found = 0;
  if (!is_text(r, c, 0)) return {};
  if (!part_of(r, c, 1, &part, &first)) return Value::of(int64_t{0});
  std::string_view wanted = c[0].str();
  if (wanted.empty()) return Value::of(static_cast<int64_t>(count_code_points(part)) + 1);
  if (!r.spend(c.at, search_steps(part, wanted))) return {};
  for (size_t at = 0; (at = find_text(part, wanted, at)) != std::string_view::npos; at += wanted.size()) ++found;
  return r.spend(c.at, static_cast<uint64_t>(found)) ? Value::of(found) : Value();
}

// find, rfind, index, rindex
Value find(Renderer& r, const Call& c) {
  std::string_view part;
  int64_t first = 0;
  if (!is_text(r, c, 0)) return {};
  size_t at = std::string_view::npos;
  bool last = c.name[0] == 'r';
  if (part_of(r, c, 1, &part, &first) && r.spend(c.at, last ? part.size() * c[0].size / 256 : search_steps(part, c[0].str())))
    at = last ? part.rfind(c[0].str()) : find_text(part, c[0].str());
  if (at != std::string_view::npos) return Value::of(first + static_cast<int64_t>(count_code_points(part.substr(0, at))));
  return c.name.ends_with("find") ? Value::of(int64_t{-1}) : r.fail(c.at, std::string(c.name) + ": the text was not found");
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_letter_or_digit(char c) { return is_letter(c) || is_digit(c); }
bool is_identifier_byte(char c) { return is_letter_or_digit(c) || c == '_'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

bool all_printable(std::string_view s) {
  while (!s.empty() && is_printable(read_code_point(s).value)) s.remove_prefix(std::max(read_code_point(s).size, 1u));
  return s.empty();
}

struct ByteKind {
  std::string_view name;
  bool (*has)(char c);
};
// The others are of digits.
constexpr ByteKind kByteKinds[] = {{"isalpha", is_letter}, {"isalnum", is_letter_or_digit}, {"isidentifier", is_identifier_byte}};

// Case counts letters only, and needs one of them.
bool cased(std::string_view s, std::string_view name) {
  bool any = false, inside = false;
  for (char c : s) {
    bool wanted = name == "istitle" ? is_upper(c) == !inside : is_upper(c) == (name == "isupper");
    if (is_letter(c) && !wanted) return false;
    any |= inside = is_letter(c);
  }
  return any;
}

Value property(Renderer& r, const Call& c) {
  std::string_view s = c.self.str();
  if (!r.spend(c.at, s.size() / 32)) return {};
  if (c.name == "isascii") return Value::of(is_ascii(s));
  if (c.name == "isspace") return Value::of(!s.empty() && strip(s, nullptr, true, false).empty());
  if (c.name == "isprintable") return Value::of(all_printable(s));
  if (!is_ascii(s)) return r.unsupported(c.at, "str." + std::string(c.name) + " of text that is not ASCII");
  if (c.name == "islower" || c.name == "isupper" || c.name == "istitle") return Value::of(cased(s, c.name));
  const bool identifier = c.name == "isidentifier";
  bool (*of)(char) = is_digit;
  for (const ByteKind& kind : kByteKinds) {
    if (c.name == kind.name) of = kind.has;
  }
  return Value::of(!s.empty() && !(identifier && is_digit(s[0])) && std::all_of(s.begin(), s.end(), of));
}

constexpr Builtin kSearch[] = {{"startswith", "/ prefix start end", 1, begins_or_ends, Markup::kTake},
                               {"endswith", "/ suffix start end", 1, begins_or_ends, Markup::kTake},
                               {"count", "/ sub start end", 1, count, Markup::kTake},
                               {"find", "/ sub start end", 1, find, Markup::kTake},
                               {"rfind", "/ sub start end", 1, find, Markup::kTake},
                               {"index", "/ sub start end", 1, find, Markup::kTake},
                               {"rindex", "/ sub start end", 1, find, Markup::kTake}};
constexpr Builtin kProperties[] = {{"isalnum", "/", 0, property, Markup::kTake},     {"isalpha", "/", 0, property, Markup::kTake},
                                   {"isascii", "/", 0, property, Markup::kTake},     {"isdecimal", "/", 0, property, Markup::kTake},
                                   {"isdigit", "/", 0, property, Markup::kTake},     {"isidentifier", "/", 0, property, Markup::kTake},
                                   {"islower", "/", 0, property, Markup::kTake},     {"isnumeric", "/", 0, property, Markup::kTake},
                                   {"isprintable", "/", 0, property, Markup::kTake}, {"isspace", "/", 0, property, Markup::kTake},
                                   {"istitle", "/", 0, property, Markup::kTake},     {"isupper", "/", 0, property, Markup::kTake}};

}  // namespace

std::span<const Builtin> string_search_methods() { return kSearch; }
std::span<const Builtin> string_property_methods() { return kProperties; }

}  // namespace kvrt::jinja
