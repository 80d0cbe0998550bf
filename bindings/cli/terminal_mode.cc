#include "bindings/cli/terminal_mode.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "bindings/cli/common.h"

namespace cli {

namespace {

constexpr int kSignals[] = {SIGTSTP, SIGQUIT, SIGTERM, SIGHUP, SIGINT};
termios found;
bool known = false;  // `found` is the terminal's mode before the chat
volatile sig_atomic_t line_is_read = 0, alarmed = 0;

void brackets(bool on) {
  const std::string_view code = on ? "\x1b[?2004h" : "\x1b[?2004l";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, code.data(), code.size());
}

void give_back() {
  if (!in_foreground()) return;
  brackets(false);
  if (known) tcsetattr(STDIN_FILENO, TCSANOW, &found);
}

// SIGALRM comes 20 times a second. No flag SA_RESTART: the call that it finds returns.
void alarms(bool on) {
  alarmed = on;
  struct itimerval every {};
  if (on) every.it_value.tv_usec = every.it_interval.tv_usec = 50'000;
  setitimer(ITIMER_REAL, &every, nullptr);
}

void on_signal(int signal);

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// Gives the terminal back; then the signal stops or ends the program as if there were no handler.
void on_signal(int signal) {
  const int error = errno;
  give_back();
  handle(signal, SIG_DFL);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, signal);
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &set, &old);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  handle(signal, on_signal);
  TerminalMode::take();
  if (line_is_read) alarms(true);
  errno = error;
}

}  // namespace

bool in_foreground() { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

TerminalMode::TerminalMode() {
  known = tcgetattr(STDIN_FILENO, &found) == 0;
  for (int signal : kSignals) {
    if (!is_ignored(signal)) handle(signal, on_signal);
  }
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  sigaction(SIGALRM, &wake, nullptr);
}

void TerminalMode::take() {
  if (!in_foreground()) return;
  termios now = found;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  now.c_lflag |= NOFLSH;  // Ctrl-C ends an answer, not what is typed ahead
  now.c_iflag |= INLCR;   // as the line editor has it
  if (known && !line_is_read) tcsetattr(STDIN_FILENO, TCSANOW, &now);
  brackets(true);
}

TerminalMode::~TerminalMode() {
  for (int signal : kSignals) {
    if (!is_ignored(signal)) handle(signal, SIG_DFL);
  }
  give_back();
}

void TerminalMode::reading(bool on) {
  line_is_read = on;
  if (!on) alarms(false);
}

void TerminalMode::drawn() {
  termios now;
  if (alarmed && tcgetattr(STDIN_FILENO, &now) == 0 && now.c_cc[VINTR] == _POSIX_VDISABLE) alarms(false);
}

}  // namespace cli
