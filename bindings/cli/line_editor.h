// The line that a person types on a terminal, with history, arrows, wide characters and pastes of any length (libedit). Where standard input
// is no terminal, or libedit was not there at build: lines as they come.
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
  // kLine: `line` in UTF-8, with what was pasted in the place of what stood for it (`pasted`). kDropped: Ctrl-C took it back. kTooLong: more
  // than a text may have. kSignal: one came, and the line goes on with the next read.
  Read read(std::string& line, bool& pasted);
  // For the arrow up; not what is longer than a line.
  void remember(const std::string& line);
  // Takes what is typed while no line is read; the next one begins with it. To be called now and then. True: a Ctrl-C was a key still when it
  // came, as the line before was being ended.
  bool collect();

 private:
  class Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: plain lines
};

}  // namespace cli
