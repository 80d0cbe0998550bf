// The terminal's mode during a chat.
#pragma once

namespace cli {

// From take() on keys come one by one and without echo: keys typed ahead wait for a reader, a paste comes in brackets, and Ctrl-C, Ctrl-Z
// and Ctrl-\ are signals. The destructor, and a signal that stops or ends the program, put back the mode that was found. In the background
// the terminal is left alone. One object at a time.
class TerminalMode {
 public:
  TerminalMode();
  ~TerminalMode();
  TerminalMode(const TerminalMode&) = delete;
  static void take();
  // on: the line editor reads, in a mode of its own, in which Ctrl-C is a key. By itself it takes that mode again, and draws its line anew, where
  // SIGCONT ends its wait for a key; not where the stop came beside such a wait, or nothing stopped. So SIGALRM ends its waits after a stop...
  static void reading(bool on);
  // ...until it draws its line in its mode, which this tells.
  static void drawn();
};

// True: the terminal's keys go to this program.
bool in_foreground();

}  // namespace cli
