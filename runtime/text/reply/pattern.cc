#include "runtime/text/reply/pattern.h"

namespace kvrt::reply {

namespace {

bool is_key(char c, bool first) {
  return static_cast<unsigned char>(c) >= 0x20 && c != '<' && c != '>' && c != '"' && !(first && c == '/');
}

bool is_of(char kind, char c, bool first) {
  if (kind == 's') return is_space(c);
  if (kind == 'd') return is_digit(c);
  return kind == 'k' || kind == 't' ? is_key(c, first) : is_name(c);
}

}  // namespace

bool PatternReader::feed(char c) { return alive_ = alive_ && advance(c); }

bool PatternReader::advance(char c) {
  for (;;) {
    if (pattern_.empty()) return false;
    const char op = pattern_[0];
    if (op == '(' || op == ')') {
      in_id_ = op == '(';
      pattern_.remove_prefix(1);
      continue;
    }
    if (op != '%' && op != '\n') {
      if (c != op) return false;
      pattern_.remove_prefix(1);
      break;
    }
    const char kind = op == '\n' ? 's' : pattern_[1];
    if (is_of(kind, c, run_ == 0)) {
      ++run_;
      if (kind == 'n' || kind == 'k') name.push_back(c);
      if (kind == 't') id.push_back(c);
      break;
    }
    if (run_ == 0 && kind != 's' && kind != 't') return false;
    run_ = 0;
    pattern_.remove_prefix(op == '\n' ? 1 : 2);
  }
  if (in_id_) id.push_back(c);
  return true;
}

bool PatternReader::may_end() const {
  if (!alive_) return false;
  std::string_view left = pattern_;
  if (left.size() >= 2 && left[0] == '%' && left[1] != 's' && run_ > 0) left.remove_prefix(2);
  while (!left.empty() && (left[0] == '\n' || left.starts_with("%s"))) left.remove_prefix(left[0] == '\n' ? 1 : 2);
  return left.empty();
}

void HeadReader::reset(const std::array<std::string_view, 4>& patterns) {
  for (size_t i = 0; i < patterns_.size(); ++i) patterns_[i] = PatternReader(patterns[i]);
}

bool HeadReader::feed(char c) {
  bool any = false;
  for (PatternReader& pattern : patterns_) any |= pattern.feed(c);
  return any;
}

const PatternReader* HeadReader::complete() const {
  for (const PatternReader& pattern : patterns_)
    if (pattern.may_end()) return &pattern;
  return nullptr;
}

}  // namespace kvrt::reply
