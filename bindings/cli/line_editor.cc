#include "bindings/cli/line_editor.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "bindings/cli/common.h"

#ifdef KVRT_LIBEDIT
#include <histedit.h>
#include <langinfo.h>
#include <termios.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <vector>
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
  return c != EOF || !line.empty() ? LineEditor::Read::kLine : LineEditor::Read::kEnd;
}

}  // namespace

#ifdef KVRT_LIBEDIT

namespace {

constexpr size_t kShownBytes = 2000;  // of a line; a longer paste gets a placeholder
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
    known_ = tcgetattr(STDIN_FILENO, &found_) == 0;
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
    // Without the terminal's own inserting and deleting, whose columns libedit counts as if every character took one.
    for (const wchar_t* able : {L"ic", L"IC", L"im", L"dc", L"DC"}) el_wset(edit_, EL_SETTC, able, L"", nullptr);
    el_wset(edit_, EL_EDITOR, L"emacs");
    el_wset(edit_, EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
    el_wset(edit_, EL_BIND, L"^W", L"ed-delete-prev-word", nullptr);
    el_source(edit_, nullptr);
    el_wset(edit_, EL_ADDFN, L"kvrt-paste", L"takes a bracketed paste", &Terminal::on_paste);
    el_wset(edit_, EL_ADDFN, L"kvrt-drop", L"takes the line back", &Terminal::on_drop);
    el_wset(edit_, EL_BIND, L"\033[200~", L"kvrt-paste", nullptr);
    el_wset(edit_, EL_BIND, L"^C", L"kvrt-drop", nullptr);
    quiet();
  }
  ~Terminal() {
    if (edit_) el_end(edit_);
    if (history_) history_wend(history_);
    if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &found_);
  }
  bool ok() const { return edit_ && history_; }

  Read read(std::string& line, bool& pasted) {
    line.clear();
    dropped_ = too_long_ = false;
    int count = 0;
    const wchar_t* typed = nullptr;
    {
      const Keys keys;
      errno = 0;
      typed = el_wgets(edit_, &count);
    }
    if (too_long_) return Read::kTooLong;
    if (dropped_) return Read::kDropped;
    if (!typed || count <= 0) {
      const bool signal = errno == EINTR;
      draw("\n");
      if (signal) again();
      return signal ? Read::kSignal : Read::kEnd;
    }
    std::wstring wide(typed, static_cast<size_t>(count));
    while (!wide.empty() && (wide.back() == L'\n' || wide.back() == L'\r')) wide.pop_back();
    for (wchar_t c : wide) append_utf8(line, c);
    if (!line.empty()) enter(wide);
    for (const Paste& paste : pastes_) {
      const size_t at = line.find(paste.shown);
      if (at == std::string::npos) continue;
      line.replace(at, paste.shown.size(), paste.text);
      pasted = true;
    }
    return line.size() > kTextBytesMax ? Read::kTooLong : Read::kLine;
  }

  void enter(const std::wstring& line) {
    HistEventW event;
    history_w(history_, &event, H_ENTER, line.c_str());
  }

 private:
  struct Paste {
    std::string shown, text;
  };

  // The line as far as it was typed is what the next read begins with.
  void again() {
    const LineInfoW* line = el_wline(edit_);
    el_wpush(edit_, std::wstring(line->buffer, line->lastchar).c_str());
  }

  // What is typed while no line is read is shown with the next one, and not by the terminal before.
  void quiet() const {
    termios now = found_;
    now.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
  }

  // Ctrl-C is a key while a line is read, and a paste comes in brackets.
  class Keys {
   public:
    Keys() {
      known_ = tcgetattr(STDIN_FILENO, &was_) == 0;
      termios now = was_;
      now.c_cc[VINTR] = _POSIX_VDISABLE;
      if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
      draw("\x1b[?2004h");
    }
    ~Keys() {
      if (known_) tcsetattr(STDIN_FILENO, TCSADRAIN, &was_);
      draw("\x1b[?2004l");
    }
    Keys(const Keys&) = delete;

   private:
    termios was_{};
    bool known_ = false;
  };

  static wchar_t* prompt(EditLine*) {
    static wchar_t text[] = L"> ";
    return text;
  }
  static Terminal* of(EditLine* edit) {
    void* self = nullptr;
    el_wget(edit, EL_CLIENTDATA, &self);
    return static_cast<Terminal*>(self);
  }
  static unsigned char on_paste(EditLine* edit, wint_t) { return of(edit)->paste(); }
  static unsigned char on_drop(EditLine* edit, wint_t) { return of(edit)->drop(); }

  unsigned char drop() {
    dropped_ = true;
    draw("^C\n");
    return CC_NEWLINE;
  }

  // Up to the closing bracket.
  unsigned char paste() {
    constexpr std::string_view kEnd = "\x1b[201~";
    std::string text, last;
    while (last != kEnd) {
      wchar_t c = 0;
      if (el_wgetc(edit_, &c) != 1) return CC_EOF;
      if (c == L'\3') return drop();  // of a paste that does not end
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
    const auto ends = std::count(text.begin(), text.end(), '\n');
    if (ends == 0 && text.size() <= kShownBytes && text == printable(text)) {
      el_winsertstr(edit_, widen(text).c_str());
      return;
    }
    const std::string size = ends > 0 ? counted(static_cast<uint64_t>(ends + (text.back() != '\n')), "line") : human_bytes(text.size());
    pastes_.push_back({fmt::format("[paste {}: {}]", pastes_.size() + 1, size), std::move(text)});
    el_winsertstr(edit_, widen(pastes_.back().shown).c_str());
  }

  EditLine* edit_ = nullptr;
  HistoryW* history_ = nullptr;
  std::vector<Paste> pastes_;  // all of them: a line of the history may have any
  bool dropped_ = false, too_long_ = false;
  termios found_{};
  bool known_ = false;  // found_ is the terminal as it was
};

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

#else

class LineEditor::Terminal {};
LineEditor::LineEditor() = default;
LineEditor::Read LineEditor::read(std::string& line, bool& pasted) {
  pasted = false;
  return read_plain(line);
}
void LineEditor::remember(const std::string&) {}

#endif

LineEditor::~LineEditor() = default;

}  // namespace cli
