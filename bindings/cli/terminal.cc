// Output that is safe for a terminal, and the signals that a terminal sends.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "bindings/cli/common.h"

namespace cli {

namespace {

// True: the character moves the cursor, changes modes, breaks the line, turns the direction of the text after it, or is none (XML forbids it).
bool controls(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF || c == 0xFFFE || c == 0xFFFF;
}

std::atomic<bool> interrupted = false, unread = false;
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

size_t code_point(std::string_view text, uint32_t& value) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t size = first < 0x80                    ? 1
                      : first >= 0xC2 && first < 0xE0 ? 2
                      : first >= 0xE0 && first < 0xF0 ? 3
                      : first >= 0xF0 && first < 0xF5 ? 4
                                                      : 0;
  if (size < 2) return value = first, size;
  if (text.size() < size) return 0;
  value = first & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool sound =
      (size != 3 || value >= 0x800) && (size != 4 || value >= 0x10000) && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
  return sound ? size : 0;
}

std::string printable(std::string_view text, bool lines) {
  std::string out;
  while (!text.empty()) {
    uint32_t c = 0;
    const size_t size = code_point(text, c);
    if (lines && text.substr(0, 2) == "\r\n") {
      // a foreign line end: the \r goes
    } else if (!size) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (controls(c) && !(lines && (c == '\n' || c == '\t'))) {
      out += c < 0x80 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
    } else {
      out.append(text, 0, size);
    }
    text.remove_prefix(size ? size : 1);
  }
  return out;
}

void remark(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void show(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO);
  const std::string shown = terminal ? printable(text, true) : std::string();
  if (terminal) text = shown;
  write_out(text);
}

bool is_ignored(int signal) {
  struct sigaction old {};
  return sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN;
}

Interrupt::Interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  for (const int signal : kInterrupts) {
    if (is_ignored(signal)) continue;  // by nohup, or by a shell in whose background this runs
    // A second one ends the program, but a terminal that closes sends two: the shell's, and the kernel's when the shell has gone.
    action.sa_flags = SA_RESTART | (signal == SIGHUP ? 0 : static_cast<int>(SA_RESETHAND));
    sigaction(signal, &action, nullptr);
  }
  watch_reader();
}
Interrupt::~Interrupt() {
  for (const int signal : kInterrupts) {
    if (!is_ignored(signal)) ::signal(signal, SIG_DFL);
  }
  signal(SIGPIPE, SIG_DFL);
}
bool Interrupt::came() { return interrupted || unread; }

void watch_reader() {
  struct sigaction action {};
  action.sa_handler = [](int) { unread = true; };
  action.sa_flags = SA_RESTART;  // the rest of the output meets it again
  sigaction(SIGPIPE, &action, nullptr);
}
bool reader_went() { return unread; }

}  // namespace cli
