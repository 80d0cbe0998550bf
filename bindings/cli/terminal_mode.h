// The terminal of a chat.
#pragma once

namespace cli {

// From take() on keys come one by one and unseen, so that what is typed ahead waits for who reads it, a paste comes in brackets, and Ctrl-C,
// Ctrl-Z and Ctrl-\ are signals. The terminal is as it was found when this goes, and when a signal stops or ends the program; in the background
// it is left alone. One at a time.
class TerminalMode {
 public:
  TerminalMode();
  ~TerminalMode();
  TerminalMode(const TerminalMode&) = delete;
  static void take();
  // The line editor reads, with a mode of its own, and takes that again by itself after a stop.
  static void reading(bool on);
};

// This program is who the terminal's keys are for.
bool in_foreground();

}  // namespace cli
