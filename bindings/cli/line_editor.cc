#include "bindings/cli/line_editor.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "bindings/cli/common.h"

#ifdef KVRT_LIBEDIT
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <cwctype>

#include "bindings/cli/pastes.h"
#include "bindings/cli/terminal_mode.h"
#endif

namespace cli {

namespace {

LineEditor::Read read_plain(std::string& line) {
  if (isatty(STDIN_FILENO)) draw("> ");
  line.clear();
  int c = 0;
  while ((c = std::cin.get()) != EOF && c != '\n') {
    if (line.size() >= kTextBytesMax) return LineEditor::Read::kTooLong;
    line.push_back(static_cast<char>(c));
  }
  if (line.ends_with('\r')) line.pop_back();  // of a line end as Windows has it
  return c != EOF || !line.empty() ? LineEditor::Read::kLine : LineEditor::Read::kEnd;
}

}  // namespace

#ifdef KVRT_LIBEDIT

namespace {

constexpr size_t kShownBytes = 2000;  // a longer paste gets a placeholder
constexpr int kHistory = 1000;

void append_utf8(std::string& out, wchar_t wide) {
  const auto c = static_cast<uint32_t>(wide);
  const auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | (c >> shift & 0x3F))); };
  if (c < 0x80) return out.push_back(static_cast<char>(c));
  if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | c >> 12));
    tail(6);
  } else {
    out.push_back(static_cast<char>(0xF0 | c >> 18));
    tail(12);
    tail(6);
  }
  tail(0);
}

std::wstring widen(const std::string& text) {
  std::mbstate_t state{};
  const char* from = text.c_str();
  std::wstring wide(text.size(), L'\0');
  const size_t n = std::mbsrtowcs(wide.data(), &from, wide.size(), &state);
  wide.resize(n == static_cast<size_t>(-1) ? 0 : n);
  return wide;
}

}  // namespace

class LineEditor::Terminal {
 public:
  Terminal() {
    std::setlocale(LC_CTYPE, "");  // libedit reads bytes by it
    if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit_ = el_init("kvrt", stdin, stderr, stderr);
    history_ = history_winit();
    if (!edit_ || !history_) return;
    HistEventW event;
    history_w(history_, &event, H_SETSIZE, kHistory);
    history_w(history_, &event, H_SETUNIQUE, 1);
    el_wset(edit_, EL_CLIENTDATA, this);
    el_wset(edit_, EL_SIGNAL, 1);
    el_wset(edit_, EL_HIST, history_w, history_);
    el_wset(edit_, EL_PROMPT, &Terminal::prompt);
    // The terminal's own inserting and deleting are off: libedit counts their columns as if every character took one.
    for (const wchar_t* able : {L"ic", L"IC", L"im", L"dc", L"DC"}) el_wset(edit_, EL_SETTC, able, L"", nullptr);
    el_wset(edit_, EL_EDITOR, L"emacs");
    bind_keys();
    el_wset(edit_, EL_PREP_TERM, 1);  // libedit learns the user's own keys now, and does not look for them after a stop
    el_wset(edit_, EL_PREP_TERM, 0);
    // Between two reads the terminal is as TerminalMode has it; Ctrl-C is a key while a line is read.
    el_wset(edit_, EL_SETTY, L"-x", L"-icanon", L"-echo", L"+noflsh", L"+inlcr", nullptr);
    el_wset(edit_, EL_SETTY, L"-d", L"intr=", nullptr);
    TerminalMode::take();
  }
  ~Terminal() {
    if (edit_) el_end(edit_);
    if (history_) history_wend(history_);
  }
  bool ok() const { return edit_ && history_; }

  Read read(std::string& line, bool& pasted) {
    line.clear();
    dropped_ = too_long_ = left_ = false;
    int count = 0;
    TerminalMode::take();  // from another program that had it meanwhile
    type_ahead();
    TerminalMode::reading(true);
    errno = 0;
    const wchar_t* typed = el_wgets(edit_, &count);
    const bool signal = errno == EINTR && !left_;  // a stop earlier in this read may have left it there
    TerminalMode::reading(false);
    if (too_long_) return Read::kTooLong;
    if (dropped_) return Read::kDropped;
    if (!typed || count <= 0) {
      draw("\n");
      if (signal) again();
      return signal ? Read::kSignal : Read::kEnd;
    }
    std::wstring wide(typed, static_cast<size_t>(count));
    while (!wide.empty() && (wide.back() == L'\n' || wide.back() == L'\r')) wide.pop_back();
    for (wchar_t c : wide) append_utf8(line, c);
    if (line.find_first_not_of(" \t") != std::string::npos) enter(wide);
    if (!pastes_.put_back(line, pasted)) {
      say("(the placeholder of a paste was changed: the line is not sent; the arrow up brings it back)\n");
      line.clear();
      return Read::kDropped;
    }
    return line.size() > kTextBytesMax ? Read::kTooLong : Read::kLine;
  }

  // A terminal holds back the bytes after 4 KiB that nobody reads, and a Ctrl-C among them.
  bool collect() {
    bool interrupt = false;
    pollfd ready{STDIN_FILENO, POLLIN, 0};
    char bytes[4096];
    while (ahead_.size() <= kTextBytesMax && in_foreground() && poll(&ready, 1, 0) == 1) {
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n <= 0) break;
      const std::string_view keys(bytes, static_cast<size_t>(n));
      interrupt |= keys.find('\3') != keys.npos;
      for (char key : keys) {
        if (key != '\3') ahead_ += key;
      }
    }
    return interrupt;
  }

  void enter(const std::wstring& line) {
    HistEventW event;
    history_w(history_, &event, H_ENTER, line.c_str());
  }

 private:
  // The next read begins with the line as far as it was typed.
  void again() {
    const LineInfoW* line = el_wline(edit_);
    el_wpush(edit_, std::wstring(line->buffer, line->lastchar).c_str());
  }

  // The keys that were collected come before those typed now. Where they end within a character, the rest of it is read.
  void type_ahead() {
    std::wstring keys;
    std::mbstate_t state{};
    for (size_t at = 0; at < ahead_.size();) {
      wchar_t c = 0;
      const size_t n = std::mbrtowc(&c, ahead_.data() + at, ahead_.size() - at, &state);
      if (n == static_cast<size_t>(-2)) {
        char byte = 0;
        if (::read(STDIN_FILENO, &byte, 1) != 1) break;
        at = ahead_.size();
        ahead_ += byte;
        continue;
      }
      const bool sound = n != 0 && n != static_cast<size_t>(-1);
      if (sound) keys += c;
      if (n == static_cast<size_t>(-1)) state = {};
      at += sound ? n : 1;
    }
    ahead_.clear();
    if (!keys.empty()) el_wpush(edit_, keys.c_str());
  }

  static wchar_t* prompt(EditLine*) {
    TerminalMode::drawn();
    static wchar_t text[] = L"> ";
    return text;
  }
  static Terminal* of(EditLine* edit) {
    void* self = nullptr;
    el_wget(edit, EL_CLIENTDATA, &self);
    return static_cast<Terminal*>(self);
  }
  void bind_keys();
  template <unsigned char (Terminal::*act)()>
  static unsigned char key(EditLine* edit, wint_t) {
    return (of(edit)->*act)();
  }

  struct Line {
    std::wstring_view text;
    size_t at;  // the cursor's
  };
  Line line() const {
    const LineInfoW* info = el_wline(edit_);
    return {{info->buffer, static_cast<size_t>(info->lastchar - info->buffer)}, static_cast<size_t>(info->cursor - info->buffer)};
  }
  unsigned char move(size_t to) {
    el_cursor(edit_, static_cast<int>(to) - static_cast<int>(line().at));
    return CC_CURSOR;
  }
  // Erases [begin, end); the placeholder of a paste goes as a whole.
  unsigned char erase(size_t begin, size_t end) {
    if (const auto whole = pastes_.touched(line().text, begin, end)) {
      begin = std::min(begin, whole->first);
      end = std::max(end, whole->second);
    }
    move(end);
    el_wdeletestr(edit_, static_cast<int>(end - begin));
    return CC_REFRESH;
  }
  size_t word_left() const {
    auto [text, at] = line();
    while (at > 0 && !std::iswalnum(static_cast<wint_t>(text[at - 1]))) --at;
    while (at > 0 && std::iswalnum(static_cast<wint_t>(text[at - 1]))) --at;
    const auto paste = pastes_.touched(text, at, line().at);
    return paste ? std::min(at, paste->first) : at;
  }
  size_t word_right() const {
    auto [text, at] = line();
    while (at < text.size() && !std::iswalnum(static_cast<wint_t>(text[at]))) ++at;
    while (at < text.size() && std::iswalnum(static_cast<wint_t>(text[at]))) ++at;
    const auto paste = pastes_.touched(text, line().at, at);
    return paste ? std::max(at, paste->second) : at;
  }

  unsigned char left() {
    const auto [text, at] = line();
    if (at == 0) return CC_ERROR;
    const auto paste = pastes_.touched(text, at - 1, at);
    return move(paste ? paste->first : at - 1);
  }
  unsigned char right() {
    const auto [text, at] = line();
    if (at == text.size()) return CC_ERROR;
    const auto paste = pastes_.touched(text, at, at + 1);
    return move(paste ? paste->second : at + 1);
  }
  unsigned char to_word_left() { return move(word_left()); }
  unsigned char to_word_right() { return move(word_right()); }
  unsigned char erase_left() { return line().at > 0 ? erase(line().at - 1, line().at) : static_cast<unsigned char>(CC_ERROR); }
  unsigned char erase_right() {
    return line().at < line().text.size() ? erase(line().at, line().at + 1) : static_cast<unsigned char>(CC_ERROR);
  }
  unsigned char erase_or_end() {
    left_ = line().text.empty();
    return left_ ? static_cast<unsigned char>(CC_EOF) : erase_right();
  }
  // Erases a word by the editor's own key, so that Ctrl-Y brings it back.
  unsigned char erase_word(size_t begin, size_t end, const wchar_t* editors_key) {
    if (pastes_.touched(line().text, begin, end)) return erase(begin, end);
    el_wpush(edit_, editors_key);
    return CC_NORM;
  }
  unsigned char erase_word_left() { return erase_word(word_left(), line().at, L"\033\177"); }
  unsigned char erase_word_right() { return erase_word(line().at, word_right(), L"\033d"); }
  unsigned char nothing() { return CC_NORM; }

  unsigned char drop() {
    dropped_ = true;
    draw("^C\n");
    return CC_NEWLINE;
  }

  // Reads a paste up to its closing bracket.
  unsigned char paste() {
    constexpr std::string_view kEnd = "\x1b[201~";
    std::string text, last;
    while (last != kEnd) {
      wchar_t c = 0;
      if (el_wgetc(edit_, &c) != 1) return CC_EOF;
      if (c == L'\3') return drop();  // Ctrl-C in a paste that does not end
      std::string bytes;
      append_utf8(bytes, c);
      last += bytes;
      if (last.size() > kEnd.size()) last.erase(0, last.size() - kEnd.size());
      if (text.size() <= kTextBytesMax + kEnd.size()) text += bytes;
    }
    too_long_ = text.size() > kTextBytesMax + kEnd.size();
    if (too_long_) return CC_NEWLINE;
    text.resize(text.size() - kEnd.size());
    std::string lines;
    for (size_t i = 0; i < text.size(); ++i) {  // libedit has the terminal swap \r, which most send for a line end, and \n
      const bool end = text[i] == '\n' || text[i] == '\r';
      lines.push_back(end ? '\n' : text[i]);
      if (text[i] == '\n' && i + 1 < text.size() && text[i + 1] == '\r') ++i;
    }
    insert(std::move(lines));
    return CC_REFRESH;
  }

  void insert(std::string text) {
    const bool plain = text.size() <= kShownBytes && text == printable(text);
    el_winsertstr(edit_, widen(plain ? text : pastes_.add(std::move(text))).c_str());
  }

  TerminalMode mode_;  // before the editor has the terminal
  EditLine* edit_ = nullptr;
  HistoryW* history_ = nullptr;
  Pastes pastes_;
  std::string ahead_;                                       // typed while no line was read
  bool dropped_ = false, too_long_ = false, left_ = false;  // left_: Ctrl-D came
};

// Binds the codes that terminals send for keys; keys without a use do nothing.
void LineEditor::Terminal::bind_keys() {
  const auto bind = [&](const std::wstring& keys, const wchar_t* function) { el_wset(edit_, EL_BIND, keys.c_str(), function, nullptr); };
  el_wset(edit_, EL_ADDFN, L"kvrt-nothing", L"does nothing", &Terminal::key<&Terminal::nothing>);
  for (const wchar_t* key : {L"\033[Z", L"\033[I", L"\033[O", L"\033[E", L"\033[P", L"\033[Q", L"\033[R", L"\033[S", L"\033[[A", L"\033[[B",
                             L"\033[[C", L"\033[[D", L"\033[[E", L"\033OP", L"\033OQ", L"\033OR", L"\033OS"}) {
    bind(key, L"kvrt-nothing");
  }
  for (const wchar_t modifier : std::wstring(L"2345678")) {
    for (const wchar_t last : std::wstring(L"ABCDEFHPQRS")) bind(std::wstring(L"\033[1;") + modifier + last, L"kvrt-nothing");
  }
  for (int number = 1; number <= 34; ++number) {
    const std::wstring key = L"\033[" + std::to_wstring(number);
    bind(key + L"~", L"kvrt-nothing");
    for (const wchar_t modifier : std::wstring(L"2345678")) bind(key + L";" + modifier + L"~", L"kvrt-nothing");
  }
  for (const wchar_t* key : {L"\033[1~", L"\033[7~", L"\033[H", L"\033OH"}) bind(key, L"ed-move-to-beg");
  for (const wchar_t* key : {L"\033[4~", L"\033[8~", L"\033[F", L"\033OF"}) bind(key, L"ed-move-to-end");
  bind(L"^R", L"em-inc-search-prev");
  el_source(edit_, nullptr);

  const auto own = [&](const wchar_t* name, unsigned char (*act)(EditLine*, wint_t), std::initializer_list<const wchar_t*> keys) {
    el_wset(edit_, EL_ADDFN, name, name, act);
    for (const wchar_t* key : keys) bind(key, name);
  };
  own(L"kvrt-paste", &Terminal::key<&Terminal::paste>, {L"\033[200~"});
  own(L"kvrt-drop", &Terminal::key<&Terminal::drop>, {L"^C"});
  own(L"kvrt-left", &Terminal::key<&Terminal::left>, {L"^B", L"\033[D", L"\033OD"});
  own(L"kvrt-right", &Terminal::key<&Terminal::right>, {L"^F", L"\033[C", L"\033OC"});
  own(L"kvrt-word-left", &Terminal::key<&Terminal::to_word_left>, {L"\033b", L"\033[1;5D", L"\033[1;3D", L"\033Od"});
  own(L"kvrt-word-right", &Terminal::key<&Terminal::to_word_right>, {L"\033f", L"\033[1;5C", L"\033[1;3C", L"\033Oc"});
  own(L"kvrt-erase-left", &Terminal::key<&Terminal::erase_left>, {L"^?", L"^H"});
  own(L"kvrt-erase-right", &Terminal::key<&Terminal::erase_right>, {L"\033[3~"});
  own(L"kvrt-erase-or-end", &Terminal::key<&Terminal::erase_or_end>, {L"^D"});
  own(L"kvrt-erase-word-left", &Terminal::key<&Terminal::erase_word_left>, {L"^W"});
  own(L"kvrt-erase-word-right", &Terminal::key<&Terminal::erase_word_right>, {L"\033[3;5~"});
}

LineEditor::LineEditor() {
  const char* term = std::getenv("TERM");
  if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !term || !*term || std::strcmp(term, "dumb") == 0) return;
  terminal_ = std::make_unique<Terminal>();
  if (!terminal_->ok()) terminal_.reset();
}

LineEditor::Read LineEditor::read(std::string& line, bool& pasted) {
  pasted = false;
  if (terminal_) return terminal_->read(line, pasted);
  return read_plain(line);
}

void LineEditor::remember(const std::string& line) {
  if (terminal_ && !line.empty() && line.size() <= kShownBytes && line == printable(line)) terminal_->enter(widen(line));
}

bool LineEditor::collect() { return terminal_ && terminal_->collect(); }

#else

class LineEditor::Terminal {};
LineEditor::LineEditor() = default;
LineEditor::Read LineEditor::read(std::string& line, bool& pasted) {
  pasted = false;
  return read_plain(line);
}
void LineEditor::remember(const std::string&) {}
bool LineEditor::collect() { return false; }

#endif

LineEditor::~LineEditor() = default;

}  // namespace cli
