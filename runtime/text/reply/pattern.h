// PatternReader reads, byte by byte, the texts around a call's name and its arguments.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace kvrt::reply {

// White space: next to a mark it belongs to the mark.
inline constexpr std::string_view kWhiteSpace = " \t\r\n";
inline bool is_space(char c) { return kWhiteSpace.find(c) != std::string_view::npos; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_name(char c) { return is_word(c) || c == '-' || c == '.' || c == '/'; }

// In a pattern %n is a function's name, %i the letters of an identifier, %d digits, %k the key of an argument, %t what the model says of
// its type; the text between ( and ) is a call's id. A line break is read as any white space, perhaps none. So is %s, which a call
// that is written leaves out. All else is literal.
class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern = {}) : pattern_(pattern), alive_(!pattern.empty()) {}
  bool feed(char c);  // false: the pattern does not go on, now and later
  bool alive() const { return alive_; }
  bool whole() const { return alive_ && pattern_.empty(); }  // the pattern has come to its last byte
  bool may_end() const;                                      // or as far as it must come

  std::string name, id;  // in the pattern of a tag: the argument's key and type

 private:
  bool advance(char c);
  std::string_view pattern_;  // the rest of it
  size_t run_ = 0;            // bytes that the class under way has read
  bool alive_, in_id_ = false;
};

// Reads a call's head by all its patterns at once.
class HeadReader {
 public:
  void reset(const std::array<std::string_view, 4>& patterns);
  bool feed(char c);                      // false: no pattern goes on
  const PatternReader* complete() const;  // the head after which the payload may begin now, or null

 private:
  std::array<PatternReader, 4> patterns_;
};

}  // namespace kvrt::reply
