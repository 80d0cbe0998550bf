// strftime_now: the date of the conversation, in English whatever the host's locale is.
#include <cstdio>
#include <ctime>

#include "runtime/text/template/text.h"

namespace kvrt::jinja {

namespace {

constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};

// A number of at least `width` digits, filled with zeros.
void append_padded(int number, int width, TextBuilder* out) {
  char text[16];
  snprintf(text, sizeof text, "%0*d", width, number);
  out->append(std::string_view(text));
}

// False: not one of the directives that are spelled here.
bool append_directive(char c, const std::tm& t, TextBuilder* out) {
  auto day = static_cast<size_t>(t.tm_wday), month = static_cast<size_t>(t.tm_mon);
  int year = t.tm_year + 1900, hour = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  switch (c) {
    case 'a':
      return out->append(kDays[day].substr(0, 3)), true;
    case 'A':
      return out->append(kDays[day]), true;
    case 'b':
    case 'h':
      return out->append(kMonths[month].substr(0, 3)), true;
    case 'B':
      return out->append(kMonths[month]), true;
    case 'd':
      return append_padded(t.tm_mday, 2, out), true;
    case 'e':
      if (t.tm_mday < 10) out->append(' ');
      return append_padded(t.tm_mday, 1, out), true;
    case 'H':
      return append_padded(t.tm_hour, 2, out), true;
    case 'I':
      return append_padded(hour, 2, out), true;
    case 'j':
      return append_padded(t.tm_yday + 1, 3, out), true;
    case 'm':
      return append_padded(t.tm_mon + 1, 2, out), true;
    case 'M':
      return append_padded(t.tm_min, 2, out), true;
    case 'p':
      return out->append(t.tm_hour < 12 ? "AM" : "PM"), true;
    case 'S':
      return append_padded(t.tm_sec, 2, out), true;
    case 'u':
      return append_padded(t.tm_wday == 0 ? 7 : t.tm_wday, 1, out), true;
    case 'w':
      return append_padded(t.tm_wday, 1, out), true;
    case 'y':
      return append_padded(year % 100, 2, out), true;
    case 'Y':
      return append_padded(year, 1, out), true;
    case 'F':
      return append_padded(year, 1, out), out->append('-'), append_directive('m', t, out), out->append('-'), append_directive('d', t, out);
    case 'T':
      return append_directive('H', t, out), out->append(':'), append_directive('M', t, out), out->append(':'),
             append_directive('S', t, out);
    case 'R':
      return append_directive('H', t, out), out->append(':'), append_directive('M', t, out);
    case 'n':
    case 't':
      return out->append(c == 'n' ? '\n' : '\t'), true;
    case 'Z':  // a time without a zone, as datetime.now() is
    case 'z':
      return true;
    case '%':
      return out->append('%'), true;
    default:
      return false;
  }
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
