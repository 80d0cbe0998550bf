#include "runtime/text/template/text.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/unicode/case.h"

namespace kvrt::jinja {

size_t count_code_points(std::string_view s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t bytes_of_code_points(std::string_view s, size_t n) {
  size_t at = 0;
  for (; n > 0 && at < s.size(); --n) {
    ++at;
    while (at < s.size() && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80) ++at;
  }
  return at;
}

bool is_ascii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

size_t find_text(std::string_view s, std::string_view needle, size_t from) {
  if (from > s.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  if (needle.size() > s.size() - from) return std::string_view::npos;  // also an empty text, which may be nowhere
  const char* begin = s.data() + from;
  const size_t size = s.size() - from;
  const void* found = needle.size() == 1 ? memchr(begin, needle[0], size) : memmem(begin, size, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - s.data());
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

Value replace_text(Renderer& r, uint32_t at, std::string_view s, std::string_view from, std::string_view to, int64_t count) {
  TextBuilder out(r.arena());
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count), replaced = 0;
  size_t begin = 0;
  for (; left > 0 && !out.full(); --left, ++replaced) {
    // The empty text is found before every code point and at the end.
    size_t found = !from.empty() ? find_text(s, from, begin) : begin + (replaced > 0 ? bytes_of_code_points(s.substr(begin), 1) : 0);
    if (found == std::string_view::npos || (from.empty() && replaced > 0 && begin == s.size())) break;
    out.append(s.substr(begin, found - begin));
    out.append(to);
    begin = found + from.size();
  }
  if (replaced == 0) return r.spend(at, search_steps(s, from)) ? Value::of(s) : Value();
  out.append(s.substr(begin));
  return r.spend(at, search_steps(s, from) + out.view().size() / 64 + replaced) ? out.value() : Value();
}

namespace {

void append_case(char32_t c, Case how, TextBuilder* out) {
  char32_t changed[3];
  uint32_t n = change_case(c, how, changed);
  for (uint32_t i = 0; i < n; ++i) out->append(changed[i]);
}

// A capital sigma is a final one after a cased letter and before none; case-ignorable characters do not count.
bool final_sigma(std::string_view before, std::string_view after) {
  char32_t c = 0;
  while (!before.empty()) {
    size_t begin = before.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(before[begin]) & 0xC0) == 0x80) --begin;
    c = read_code_point(before.substr(begin)).value;
    if (!is_case_ignorable(c)) break;
    before = before.substr(0, begin);
  }
  if (before.empty() || !is_cased(c)) return false;
  for (; !after.empty(); after.remove_prefix(std::max(read_code_point(after).size, 1u))) {
    c = read_code_point(after).value;
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

// The code point at `i` of `s` in lower case, with its neighbours in view.
void append_lower_at(std::string_view s, size_t i, CodePoint point, TextBuilder* out) {
  if (point.value == 0x3A3) return out->append(final_sigma(s.substr(0, i), s.substr(i + point.size)) ? U'\u03C2' : U'\u03C3');
  append_case(point.value, Case::kLower, out);
}

bool is_upper(char32_t c) {
  char32_t out[3];
  return change_case(c, Case::kLower, out) > 1 || out[0] != c;
}

}  // namespace

void append_upper(std::string_view s, TextBuilder* out) {
  for (; !s.empty() && !out->full(); s.remove_prefix(std::max(read_code_point(s).size, 1u)))
    append_case(read_code_point(s).value, Case::kUpper, out);
}

void append_lower(std::string_view s, TextBuilder* out) {
  for (size_t i = 0; i < s.size() && !out->full();) {
    CodePoint point = read_code_point(s.substr(i));
    append_lower_at(s, i, point, out);
    i += std::max(point.size, 1u);
  }
}

Value escape_text(Renderer& r, uint32_t at, std::string_view s) {
  if (!r.spend(at, s.size() / 16)) return {};
  TextBuilder out(r.arena());
  for (char x : s) {
    const char* entity = x == '&' ? "&amp;" : x == '<' ? "&lt;" : x == '>' ? "&gt;" : x == '"' ? "&#34;" : x == '\'' ? "&#39;" : nullptr;
    entity != nullptr ? out.append(entity) : out.append(x);
  }
  Value escaped = out.value();
  escaped.markup = true;
  return escaped;
}

namespace {

// `first`: of the 26 letters that change their case.
Value change_ascii(Renderer& r, uint32_t at, std::string_view s, char first) {
  auto place = static_cast<char*>(r.arena()->allocate(s.size(), 1));
  if (place == nullptr) return r.heap_limit(at);
  std::transform(s.begin(), s.end(), place, [first](char c) { return c >= first && c < first + 26 ? static_cast<char>(c ^ 0x20) : c; });
  return Value::of(std::string_view(place, s.size()));
}

// As Python's str.splitlines has them.
bool ends_line(char32_t c) { return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029; }

}  // namespace

Value change_text(Renderer& r, uint32_t at, std::string_view s, std::string_view how) {
  if (!r.spend(at, s.size() / 16)) return {};
  if ((how == "upper" || how == "lower") && is_ascii(s)) return change_ascii(r, at, s, how == "upper" ? 'a' : 'A');
  TextBuilder out(r.arena());
  bool inside = false;  // a word that has begun
  for (size_t i = 0; i < s.size() && !out.full();) {
    CodePoint point = read_code_point(s.substr(i));
    bool first = how == "title" ? !inside : i == 0;
    if (how == "upper" || (how == "swapcase" && !is_upper(point.value))) {
      append_case(point.value, Case::kUpper, &out);
    } else if ((how == "title" || how == "capitalize") && first) {
      append_case(point.value, Case::kTitle, &out);
    } else {
      append_lower_at(s, i, point, &out);
    }
    inside = is_cased(point.value);
    i += std::max(point.size, 1u);
  }
  return out.value();
}

List* split_lines(Renderer& r, uint32_t at, std::string_view s, bool keep_ends) {
  auto lines = r.make_list();
  if (lines == nullptr || !r.spend(at, s.size() / 64)) return nullptr;
  for (size_t begin = 0, i = 0; i < s.size();) {
    CodePoint point = read_code_point(s.substr(i));
    char32_t c = point.value;
    size_t next = i + std::max(point.size, 1u);
    if (c == '\r' && next < s.size() && s[next] == '\n') ++next;
    const bool end = ends_line(c);
    if (end || next == s.size()) {
      lines->push(r.arena(), Value::of(s.substr(begin, (end && !keep_ends ? i : next) - begin)));
      begin = next;
    }
    i = next;
  }
  return r.spend(at, lines->size) ? lines : nullptr;
}

Value pad_text(Renderer& r, uint32_t at, std::string_view s, int64_t width, std::string_view fill, Align align) {
  if (!r.spend(at, s.size() / 64)) return {};
  auto size = static_cast<int64_t>(count_code_points(s));
  if (width <= size) return Value::of(s);
  if (width > static_cast<int64_t>(kTemplateHeapBytesMax)) return r.heap_limit(at);
  int64_t padding = width - size, left = align == Align::kLeft ? 0 : align == Align::kRight ? padding : padding / 2 + (padding & width & 1);
  if (!r.spend(at, static_cast<uint64_t>(padding) / 16)) return {};
  TextBuilder out(r.arena());
  out.repeat(fill, static_cast<uint64_t>(left));
  out.append(s);
  out.repeat(fill, static_cast<uint64_t>(padding - left));
  return out.value();
}

bool whole_number(Renderer& r, const Call& call, size_t i, int64_t* out) {
  if (!call[i].is_integral()) return r.type_error(call.at, std::string(call.name) + ": expected an integer, found", call[i]), false;
  *out = call[i].as_int();
  return true;
}

bool is_text(Renderer& r, const Call& call, size_t i) {
  return call[i].is(Kind::kString) ||
         !r.type_error(call.at, std::string(call.name) + ": expected a string, found", call[i]).is(Kind::kUndefined);
}

}  // namespace kvrt::jinja
