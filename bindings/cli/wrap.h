// An answer on a terminal: broken at words, as it comes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

// The columns of the terminal behind a descriptor; 0: it is none, or does not say.
size_t window_columns(int fd);
// The columns that text takes: 2 for a wide character, 0 for one that joins the character before it.
size_t columns_of(std::string_view text);

// Breaks text between words and between wide characters, and takes a window that changes its size. Code between fences (``` or ~~~, as
// CommonMark has them) stays as it is. A word is written as it comes; one that begins near the end of the line waits until it fits or does
// not. A longer word than kLongWord may be broken by the terminal.
class Wrap {
 public:
  static constexpr size_t kLongWord = 32;
  // `column`: where the first line begins.
  explicit Wrap(int fd, size_t column = 0) : fd_(fd), column_(column) {}
  std::string add(std::string_view text);  // what of it is to be written now
  std::string end();                       // what still waits; the next text begins a line

 private:
  struct Fence {
    char mark = 0;
    size_t size = 0;  // the count of its marks; 0: there is none
  };
  struct Line {                                      // as far as it may be a fence
    Fence begins;                                    // the first character, and how often it comes
    bool over = false, word = false, ticks = false;  // another came; one that is not a space; a backtick
  };
  bool in_code() const { return fence_.size > 0; }
  void character(std::string_view bytes, size_t width);
  void word(std::string_view bytes, size_t width);
  void space(char c);
  void line_end();
  void look_for_fence(char c);
  void write_spaces();
  void place();

  int fd_;
  size_t columns_ = 0, column_;      // of the window; where the next character goes
  std::string out_, word_, spaces_;  // word_ and the spaces before it wait
  size_t word_columns_ = 0;
  bool runs_ = false;     // the word at hand is written as it comes
  bool may_cut_ = false;  // a wide character was the last: the line may end after it
  bool joins_ = false;    // ... unless it joins the next one
  Fence fence_;           // of the code at hand
  Line line_;
};

// Shows an answer on standard output: printable and broken at words on a terminal, byte for byte elsewhere.
class ShownAnswer {
 public:
  explicit ShownAnswer(size_t column = 0) : wrap_(1, column) {}
  void go_on_from(const std::string& said);  // its beginning, which was shown before; on a line of its own
  void add(std::string_view text);
  void end();

 private:
  Wrap wrap_;
  std::string waits_;  // a carriage return: a line feed may come with the next text
};

}  // namespace cli
