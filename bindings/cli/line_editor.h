// Reads the line that a person types on a terminal, with history, arrows, wide characters and pastes of any length (libedit). Where
// standard input is no terminal, or libedit was not there at build, it reads plain lines.
#pragma once

#include <memory>
#include <string>

namespace cli {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;

  enum class Read { kLine, kEnd, kDropped, kTooLong, kSignal };
  // kLine: `line` in UTF-8, with each pasted text in place of its placeholder (`pasted`: there is one). kDropped: Ctrl-C dropped the line.
  // kTooLong: it is longer than a text may be. kSignal: a signal came, and the next read goes on with the line.
  Read read(std::string& line, bool& pasted);
  // Adds a line to the history, for the arrow up; not one that is long or has control characters.
  void remember(const std::string& line);
  // Takes the keys that are typed while no line is read; the next line begins with them. To be called now and then. True: a Ctrl-C was
  // among them, still a key when it came, as the line before was just ending.
  bool collect();

 private:
  class Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: plain lines
};

}  // namespace cli
