#include "bindings/cli/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cwchar>
#include <utility>

#include "bindings/cli/common.h"

namespace cli {

namespace {

constexpr size_t kColumnsLeast = 20;  // a narrower window is left to the terminal

// wcwidth, whatever the locale of the program is.
size_t character_columns(uint32_t c) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (c < 0x7F || !utf8) return 1;
  const locale_t old = uselocale(utf8);
  const int width = wcwidth(static_cast<wchar_t>(c));
  uselocale(old);
  return width < 0 ? 1 : static_cast<size_t>(width);
}

// True: no line begins with this wide character.
bool closes(std::string_view c) {
  constexpr std::string_view kClosing = "、。，．：；？！」』）】〕〉》ー";
  return kClosing.find(c) != std::string_view::npos;
}

constexpr std::string_view kJoiner = "\xE2\x80\x8D";  // U+200D: the characters beside it are one picture

// True: U+1F3FB to U+1F3FF, the colour of the character before it.
bool is_skin_tone(std::string_view c) { return c.size() == 4 && c.starts_with("\xF0\x9F\x8F") && static_cast<unsigned char>(c[3]) >= 0xBB; }

size_t after_space(size_t column, char c) { return c == '\t' ? (column / 8 + 1) * 8 : column + 1; }

}  // namespace

size_t window_columns(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    uint32_t c = 0;
    const size_t size = code_point(text, c);
    columns += size ? character_columns(c) : 1;
    text.remove_prefix(size ? size : 1);
  }
  return columns;
}

std::string Wrap::add(std::string_view text) {
  const size_t columns = window_columns(fd_);
  if (columns_ && columns && columns < columns_) column_ %= columns;  // terminals break a line that became too long
  columns_ = columns;
  while (!text.empty()) {
    uint32_t c = 0;
    const size_t size = std::max<size_t>(code_point(text, c), 1);
    character(text.substr(0, size), character_columns(c));
    text.remove_prefix(size);
  }
  return std::exchange(out_, {});
}

std::string Wrap::end() {
  place();
  spaces_.clear();
  column_ = 0;
  return std::exchange(out_, {});
}

void Wrap::character(std::string_view bytes, size_t width) {
  const char c = bytes[0];
  if (c == '\n') return line_end();
  look_for_fence(c);
  if (in_code() || columns_ < kColumnsLeast) {
    place();
    write_spaces();
    out_ += bytes;
    column_ += width;
  } else if (c == ' ' || c == '\t') {
    space(c);
  } else {
    word(bytes, width);
  }
}

void Wrap::line_end() {
  place();
  spaces_.clear();
  constexpr size_t kFenceLeast = 3;
  const Fence& marks = line_.begins;
  const bool opens = marks.size >= kFenceLeast && (marks.mark == '~' || (marks.mark == '`' && !line_.ticks));
  const bool closes = marks.mark == fence_.mark && marks.size >= fence_.size && !line_.word;
  if (in_code() ? closes : opens) fence_ = in_code() ? Fence() : marks;
  line_ = {};
  out_ += '\n';
  column_ = 0;
}

void Wrap::look_for_fence(char c) {
  Fence& marks = line_.begins;
  if (marks.size == 0 && c == ' ') return;
  if (marks.size == 0) marks.mark = c;
  if (c == marks.mark && !line_.over) {
    ++marks.size;
    return;
  }
  line_.over = true;
  line_.word |= c != ' ' && c != '\t';
  line_.ticks |= c == '`';
}

void Wrap::space(char c) {
  place();
  spaces_ += c;
}

void Wrap::write_spaces() {
  for (const char c : spaces_) column_ = after_space(column_, c);
  out_ += std::exchange(spaces_, {});
}

// Writes what waits: it fits.
void Wrap::place() {
  if (!word_.empty()) write_spaces();
  column_ += std::exchange(word_columns_, 0);
  out_ += std::exchange(word_, {});
  runs_ = may_cut_ = false;
}

void Wrap::word(std::string_view bytes, size_t width) {
  const bool joined = std::exchange(joins_, bytes == kJoiner) || is_skin_tone(bytes);
  if ((width > 1 || may_cut_) && width && !joined && !closes(bytes)) place();
  size_t begin = column_;  // of the word that waits
  for (const char c : spaces_) begin = after_space(begin, c);
  if (!runs_ && word_.empty() && (column_ == 0 || begin + kLongWord <= columns_)) {
    write_spaces();
    runs_ = true;
  }
  if (!runs_ && begin + word_columns_ + width > columns_) {
    out_ += '\n';
    column_ = 0;
    spaces_.clear();
    place();
    runs_ = true;
  }
  may_cut_ = width > 1 || (may_cut_ && !width);
  if (runs_) {
    out_ += bytes;
    column_ = column_ + width > columns_ ? width : column_ + width;
  } else {
    word_ += bytes;
    word_columns_ += width;
  }
}

void ShownAnswer::go_on_from(const std::string& said) {
  wrap_.add(printable(said, true));
  wrap_.end();
}

void ShownAnswer::add(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO);
  if (!terminal) return write_out(text);
  std::string whole = std::exchange(waits_, {}).append(text);
  if (whole.ends_with('\r')) {
    waits_ = "\r";
    whole.pop_back();
  }
  write_out(wrap_.add(printable(whole, true)));
}

void ShownAnswer::end() {
  write_out(wrap_.add(printable(std::exchange(waits_, {}), true)));
  write_out(wrap_.end());
}

}  // namespace cli
