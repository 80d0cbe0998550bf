#include "runtime/text/reply/literals.h"

#include <algorithm>
#include <utility>

#include "runtime/base/json.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt::reply {

namespace {

// It looks at one word at a time and keeps the brackets.
class Python {
 public:
  Python(std::string_view text, bool builtins, std::string* out) : text_(text), builtins_(builtins), out_(out) {}

  bool value() {
    in_value_ = true;
    return calls();
  }

  bool calls() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      bool ok = c == '"' || c == '\'' ? string() : begins_word(c) ? word() : is_digit(c) || c == '-' || c == '.' ? number() : mark();
      if (!ok) return false;
    }
    return open_.empty();
  }

 private:
  char top() const { return open_.empty() ? '\0' : open_.back(); }

  bool mark() {
    char c = text_[at_++];
    if (c == '[' || c == '{') open_.push_back(c);
    if (c == ']' || c == '}' || c == ')') {
      if (open_.empty() || c != closing(open_.back())) return false;
      open_.pop_back();
      if (c == ')') return out_->append("}}"), true;
    }
    if (c == '(' || c == '=' || (c == ':' && top() != '{')) return false;  // those of calls and of keywords are read with their words
    out_->push_back(c);
    return true;
  }

  bool number() {
    for (char c; at_ < text_.size() && (is_word(c = text_[at_]) || c == '.' || c == '-' || c == '+'); ++at_) out_->push_back(c);
    return true;
  }

  bool word() {
    size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    if (!in_value_ && (open_.empty() || open_ == "[")) return call(word);
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (top() != '(' || at_ == text_.size() || text_[at_] != '=') return constant(word);
    out_->append("\"").append(word).append("\":");
    ++at_;
    return std::ranges::all_of(word, is_word);
  }

  // The call whose name that is.
  bool call(std::string_view name) {
    if (at_ == text_.size() || text_[at_] != '(') return false;
    if (builtins_ && name.ends_with(".call")) name.remove_suffix(5);
    out_->append("{\"name\":\"").append(name).append("\",\"arguments\":{");
    open_.push_back('(');
    ++at_;
    return true;
  }

  bool constant(std::string_view word) {
    static constexpr std::pair<std::string_view, std::string_view> kConstants[] = {
        {"True", " true "}, {"true", " true "}, {"False", " false "}, {"false", " false "}, {"None", " null "}, {"null", " null "}};
    const auto* found = std::ranges::find(kConstants, word, &std::pair<std::string_view, std::string_view>::first);
    if (found == std::end(kConstants)) return false;
    out_->append(found->second);
    return true;
  }

  bool string() {
    char quote = text_[at_++];
    out_->push_back('"');
    for (char c; at_ < text_.size() && (c = text_[at_++]) != quote;) {
      if (c == '\\' && !escape()) return false;
      if (c == '"') out_->push_back('\\');
      if (c != '\\') out_->push_back(c);
    }
    out_->push_back('"');
    return true;
  }

  bool escape() {
    char c = at_ < text_.size() ? text_[at_++] : '\0';
    static constexpr std::string_view kJsonToo = "ntrbf\\\"u";
    if (kJsonToo.find(c) != std::string_view::npos) return out_->append({'\\', c}), true;
    if (c == 'x') return out_->append("\\u00"), true;
    out_->push_back(c);
    return c == '\'';  // not \N{..}, octal, \a, \v
  }

  std::string_view text_;
  bool builtins_, in_value_ = false;
  size_t at_ = 0;
  std::string open_;
  std::string* out_;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool python_calls_to_json(std::string_view text, bool builtins, std::string* out) { return Python(text, builtins, out).calls(); }
bool python_value_to_json(std::string_view text, std::string* out) { return Python(text, false, out).value(); }

bool quoted_to_json(std::string_view text, std::string* out) {
  constexpr std::string_view kMarks = "{}[],:";
  constexpr std::pair<std::string_view, std::string_view> kPython[] = {{"None", "null"}, {"True", "true"}, {"False", "false"}};
  while (!text.empty()) {
    if (text.starts_with(kQuote)) {
      text.remove_prefix(kQuote.size());
      const size_t end = text.find(kQuote);
      if (end == std::string_view::npos) return false;
      append_json_string(text.substr(0, end), out);
      text.remove_prefix(end + kQuote.size());
      continue;
    }
    if (kMarks.find(text[0]) != std::string_view::npos || is_space(text[0])) {
      out->push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(text.find_first_of("{}[],:<"), text.size());
    std::string_view word = trimmed(text.substr(0, end));
    for (const auto& [python, json] : kPython)
      if (word == python) word = json;
    if (end < text.size() && text[end] == ':') {
      append_json_string(trimmed(text.substr(0, end)), out);
    } else {
      out->append(word);
    }
    text.remove_prefix(end);
  }
  return true;
}

}  // namespace kvrt::reply
