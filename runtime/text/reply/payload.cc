#include "runtime/text/reply/payload.h"

#include "runtime/base/limits.h"
#include "runtime/text/reply/literals.h"

namespace kvrt::reply {

namespace {

bool begins_key(std::string_view text, bool whole) {
  for (std::string_view key : kCallKeys)
    if (whole ? key == text : key.starts_with(text)) return true;
  return false;
}

}  // namespace

bool PayloadScan::begins(const CallSyntax& syntax, bool named, char c) {
  if (syntax.tags != nullptr) return named && c == syntax.tags->open[0];
  if (named) return c == '{';
  return c == '{' || c == '[' || ((syntax.flags & CallSyntax::kPython) && !syntax.begin.empty() && begins_word(c));
}

void PayloadScan::reset(const CallSyntax& syntax, bool named) {
  *this = PayloadScan();
  flags_ = syntax.flags;
  named_ = named;
  tagged_ = syntax.tags != nullptr;
  if (tagged_) tags_.reset(*syntax.tags);
}

PayloadScan::State PayloadScan::in_string(char c) {
  if (static_cast<unsigned char>(c) < 0x20) return State::kRefused;  // neither JSON nor Python has them in a string
  bool ends = !escaped_ && c == quote_;
  escaped_ = !escaped_ && c == '\\';
  if (ends) quote_ = 0;
  if (!in_key_) return State::kMore;
  if (ends) in_key_ = false;
  if (!ends) key_.push_back(c);
  return begins_key(key_, ends) ? State::kMore : State::kRefused;
}

PayloadScan::State PayloadScan::bracket(char c) {
  if (c == '{' || c == '[' || c == '(') {
    if (open_.size() >= kJsonDepthMax || (c == '(' && !in_word_)) return State::kRefused;
    if (open_.empty() && !named_)
      level_ = c == '[' ? 1 : 0;
    else if (c == '[' && calls_level())
      return State::kRefused;
    in_word_ = false;
    open_.push_back(c);
    key_next_ = keys_level();
    return State::kMore;
  }
  if (open_.empty() || c != closing(open_.back()) || in_word_) return State::kRefused;
  open_.pop_back();
  key_next_ = false;
  return open_.empty() ? State::kDone : State::kMore;
}

PayloadScan::State PayloadScan::feed_control(std::string_view spelling) {
  State state = State::kRefused;
  if (!tagged_ && !((flags_ & CallSyntax::kQuoted) && spelling == kQuote)) return state;
  for (char c : spelling) {
    state = feed(c);
    if (state == State::kRefused) return state;
  }
  return !tagged_ || tags_.is_mark(spelling) ? state : State::kRefused;
}

PayloadScan::State PayloadScan::quoted(char c) {
  if (quote_ != 0) {
    key_.push_back(c);
    if (key_.ends_with(kQuote)) quote_ = 0, key_.clear();
    return State::kMore;
  }
  if (c == '<' || !key_.empty()) {
    key_.push_back(c);
    if (key_ == kQuote) quote_ = '"', key_.clear();
    return kQuote.starts_with(key_) ? State::kMore : State::kRefused;
  }
  if (c == '{' || c == '}' || c == '[' || c == ']') return bracket(c);
  return c == '"' || c == '>' ? State::kRefused : State::kMore;
}

PayloadScan::State PayloadScan::feed(char c) {
  constexpr std::string_view kBrackets = "{}[]()";
  if (tagged_) return tags_.feed(c);
  if (flags_ & CallSyntax::kQuoted) return quoted(c);
  if (quote_ != 0) return in_string(c);
  if (goes_on_word(c)) {
    in_word_ = true;
    return State::kMore;
  }
  if (in_word_ && c != '(') return State::kRefused;
  if (is_space(c)) return State::kMore;
  if (kBrackets.find(c) != kBrackets.npos) return bracket(c);
  if (c == ',') {
    key_next_ = keys_level();
    return State::kMore;
  }
  if (calls_level() || (key_next_ && c != '"')) return State::kRefused;
  if (c == '"' || (c == '\'' && flags_ & CallSyntax::kPython)) return begin_string(c);
  return is_plain(c) ? State::kMore : State::kRefused;
}

// Of the name of a call that is written as Python's.
bool PayloadScan::goes_on_word(char c) const {
  return flags_ & CallSyntax::kPython && calls_level() && (in_word_ ? is_name(c) : begins_word(c));
}

PayloadScan::State PayloadScan::begin_string(char quote) {
  quote_ = quote;
  in_key_ = key_next_;
  key_next_ = false;
  key_.clear();
  return State::kMore;
}

// Of numbers, of literals, and between a key and its value.
bool PayloadScan::is_plain(char c) const {
  return is_word(c) || c == ':' || c == '-' || c == '+' || c == '.' || (c == '=' && flags_ & CallSyntax::kPython);
}

}  // namespace kvrt::reply
