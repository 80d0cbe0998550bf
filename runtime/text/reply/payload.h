// PayloadScan finds the end of a tool call's payload.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/reply/syntax.h"
#include "runtime/text/reply/tags.h"

namespace kvrt::reply {

// The keys of an object that is a call without a mark (CallSyntax::kStrict).
inline constexpr std::string_view kCallKeys[] = {"name", "arguments", "parameters", "type", "id"};

// Follows a payload byte by byte to its end. It refuses early a text that cannot become one; a text that passes is parsed as a whole.
class PayloadScan {
 public:
  using State = TagScan::State;
  // Whether a payload may begin with `c`. `named`: it is the arguments of a call whose name the head gave. The payload of a bare call does not
  // begin with a word, as too many answers do.
  static bool begins(const CallSyntax& syntax, bool named, char c);
  void reset(const CallSyntax& syntax, bool named);
  State feed(char c);
  // As feed, for a control token, which can only be a mark.
  State feed_control(std::string_view spelling);

 private:
  State quoted(char c);
  State in_string(char c);
  State bracket(char c);
  State begin_string(char quote);
  bool goes_on_word(char c) const;
  bool is_plain(char c) const;
  bool calls_level() const { return !named_ && open_.size() == level_; }
  bool keys_level() const { return (flags_ & CallSyntax::kStrict) && open_.size() == level_ + 1 && open_.back() == '{'; }

  unsigned flags_ = 0;
  bool named_ = false, tagged_ = false;
  std::string open_;  // brackets
  size_t level_ = 0;  // brackets around each call: 1 in a list of calls
  char quote_ = 0;
  bool escaped_ = false, in_word_ = false;
  bool key_next_ = false, in_key_ = false;  // strict: a key of a call's object comes next, or is under way
  std::string key_;                         // kQuoted: the string or the mark under way
  TagScan tags_;
};

}  // namespace kvrt::reply
