// strftime_now: the date of the conversation, in English whatever the host's locale is.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};

struct DateNumber {
  char directive, fill;
  int width;
  int (*of)(const std::tm& t);
};
constexpr DateNumber kNumbers[] = {
    {'d', '0', 2, [](const std::tm& t) { return t.tm_mday; }},
    {'e', ' ', 2, [](const std::tm& t) { return t.tm_mday; }},
    {'H', '0', 2, [](const std::tm& t) { return t.tm_hour; }},
    {'I', '0', 2, [](const std::tm& t) { return t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12; }},
    {'j', '0', 3, [](const std::tm& t) { return t.tm_yday + 1; }},
    {'m', '0', 2, [](const std::tm& t) { return t.tm_mon + 1; }},
    {'M', '0', 2, [](const std::tm& t) { return t.tm_min; }},
    {'S', '0', 2, [](const std::tm& t) { return t.tm_sec; }},
    {'u', '0', 1, [](const std::tm& t) { return t.tm_wday == 0 ? 7 : t.tm_wday; }},
    {'w', '0', 1, [](const std::tm& t) { return t.tm_wday; }},
    {'y', '0', 2, [](const std::tm& t) { return (t.tm_year + 1900) % 100; }},
    {'Y', '0', 1, [](const std::tm& t) { return t.tm_year + 1900; }},
};

struct DateText {
  char directive;
  std::string_view (*of)(const std::tm& t);
};
constexpr DateText kTexts[] = {
    {'a', [](const std::tm& t) { return kDays[t.tm_wday].substr(0, 3); }},
    {'A', [](const std::tm& t) { return kDays[t.tm_wday]; }},
    {'b', [](const std::tm& t) { return kMonths[t.tm_mon].substr(0, 3); }},
    {'h', [](const std::tm& t) { return kMonths[t.tm_mon].substr(0, 3); }},
    {'B', [](const std::tm& t) { return kMonths[t.tm_mon]; }},
    {'p', [](const std::tm& t) { return std::string_view(t.tm_hour < 12 ? "AM" : "PM"); }},
    {'n', [](const std::tm&) { return std::string_view("\n"); }},
    {'t', [](const std::tm&) { return std::string_view("\t"); }},
    {'Z', [](const std::tm&) { return std::string_view(); }},  // a time without a zone, as datetime.now() is
    {'z', [](const std::tm&) { return std::string_view(); }},
    {'%', [](const std::tm&) { return std::string_view("%"); }},
};

// Directives that stand for others, whose letters are those.
struct DatePattern {
  char directive;
  std::string_view pattern;
};
constexpr DatePattern kPatterns[] = {{'F', "Y-m-d"}, {'T', "H:M:S"}, {'R', "H:M"}};

void append_number(const DateNumber& number, const std::tm& t, TextBuilder* out) {
  char text[16];
  snprintf(text, sizeof text, number.fill == '0' ? "%0*d" : "%*d", number.width, number.of(t));
  out->append(std::string_view(text));
}

// False: not one of the directives that are spelled here.
bool append_directive(char c, const std::tm& t, TextBuilder* out) {
  const auto is_c = [c](const auto& row) { return row.directive == c; };
  if (const auto* number = std::ranges::find_if(kNumbers, is_c); number != std::end(kNumbers)) return append_number(*number, t, out), true;
  if (const auto* text = std::ranges::find_if(kTexts, is_c); text != std::end(kTexts)) return out->append(text->of(t)), true;
  const auto* pattern = std::ranges::find_if(kPatterns, is_c);
  if (pattern == std::end(kPatterns)) return false;
  for (char letter : pattern->pattern) {
    if (!append_directive(letter, t, out)) out->append(letter);
  }
  return true;
}

}  // namespace

Value strftime_now(Renderer& r, const Call& c) {
  if (!is_text(r, c, 0)) return {};
  auto seconds = static_cast<time_t>(r.now());
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) return r.fail(c.at, "strftime_now: the clock has no date");
  TextBuilder out(r.arena());
  std::string_view s = c[0].str();
  for (size_t i = 0; i < s.size() && r.spend(c.at, 1); ++i) {
    if (s[i] != '%') {
      out.append(s[i]);
    } else if (++i == s.size() || !append_directive(s[i], local, &out)) {
      return r.unsupported(c.at, "strftime_now(\"" + r.own(s.substr(0, bytes_of_code_points(s, 64))) + "\")");
    }
  }
  return r.failed() ? Value() : out.value();
}

}  // namespace kvrt::jinja
