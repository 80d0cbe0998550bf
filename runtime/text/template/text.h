// Python's functions on texts, for filters and methods alike.
#pragma once

#include <string_view>

#include "runtime/text/template/render.h"

namespace kvrt::jinja {

// The code points of a text, as Python counts it; and the bytes that the first `n` of them take.
size_t count_code_points(std::string_view s);
size_t bytes_of_code_points(std::string_view s, size_t n);
bool is_ascii(std::string_view s);
// The cost of looking for `needle` in `s`, in steps.
inline uint64_t search_steps(std::string_view s, std::string_view needle) { return s.size() / (needle.size() > 1 ? 16 : 64); }
// The place of `needle` in `s` from `from` on, in linear time; npos where it is not there.
size_t find_text(std::string_view s, std::string_view needle, size_t from = 0);
// str.strip(chars); without chars white space.
std::string_view strip(std::string_view s, const Value* chars, bool left, bool right);
// str.replace; count < 0: all of them.
Value replace_text(Renderer& r, uint32_t at, std::string_view s, std::string_view from, std::string_view to, int64_t count);
// str.upper, lower, title, capitalize, swapcase.
Value change_text(Renderer& r, uint32_t at, std::string_view s, std::string_view how);
// MarkupSafe's escape.
Value escape_text(Renderer& r, uint32_t at, std::string_view s);
void append_upper(std::string_view s, TextBuilder* out);
void append_lower(std::string_view s, TextBuilder* out);
// str.splitlines; null: failed.
List* split_lines(Renderer& r, uint32_t at, std::string_view s, bool keep_ends);
// The place of the text within its padding: str.ljust, rjust and center.
enum class Align : uint8_t { kLeft, kRight, kCenter };
Value pad_text(Renderer& r, uint32_t at, std::string_view s, int64_t width, std::string_view fill, Align align);
// An argument that has to be a whole number; false: failed.
bool whole_number(Renderer& r, const Call& call, size_t i, int64_t* out);
// An argument that has to be a text.
bool is_text(Renderer& r, const Call& call, size_t i);

// "format" % values; str.format; and format(value, spec), as in {:>8.2f}.
Value format_percent(Renderer& r, uint32_t at, std::string_view format, Value values);
Value format_braces(Renderer& r, const Call& call);
bool format_value(Renderer& r, uint32_t at, Value value, std::string_view spec, TextBuilder* out);

Value to_json(Renderer& r, const Call& call);
Value strftime_now(Renderer& r, const Call& call);

}  // namespace kvrt::jinja
