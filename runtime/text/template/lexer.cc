#include "runtime/text/template/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/template/value.h"

namespace kvrt::jinja {

namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

size_t skip_space(std::string_view s, size_t at) {
  while (at < s.size()) {
    CodePoint point = read_code_point(s.substr(at));
    if (point.size == 0 || !is_space(point.value)) break;
    at += point.size;
  }
  return at;
}

size_t rstrip(std::string_view s) {
  size_t end = s.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(s[begin]) & 0xC0) == 0x80) --begin;
    if (!is_space(read_code_point(s.substr(begin)).value)) break;
    end = begin;
  }
  return end;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : s_(source) {}

  Result<std::vector<Token>> run() {
    while (at_ < s_.size()) {
      if (tokens_.size() > kTemplateTokensMax) return too_many();
      const size_t open = next_open();
      text_until(open);
      if (open == s_.size()) break;
      char kind = s_[open + 1];
      at_ = open + 2;
      if (at_ < s_.size() && (s_[at_] == '-' || s_[at_] == '+')) ++at_;
      if (kind == '#') {
        KVRT_TRY(comment(open));
        continue;
      }
      if (kind == '%' && keyword_tag(at_, "raw") != std::string_view::npos) {
        KVRT_TRY(raw(open));
        continue;
      }
      push(kind == '%' ? Token::kBlockBegin : Token::kPrintBegin, open);
      KVRT_TRY(tag(kind == '%', open));
    }
    push(Token::kEnd, s_.size());
    return std::move(tokens_);
  }

 private:
  // Where the next {%, {{ or {# is; the end of the source if there is none.
  size_t next_open() const {
    size_t open = s_.find('{', at_);
    while (open != std::string_view::npos && (open + 1 == s_.size() || strchr("%{#", s_[open + 1]) == nullptr))
      open = s_.find('{', open + 1);
    return std::min(open, s_.size());
  }

  Status comment(size_t open) {
    size_t close = s_.find("#}", at_);
    if (close == std::string_view::npos) return fail(open, "a comment is not closed");
    char sign = close > at_ ? s_[close - 1] : ' ';
    at_ = close + 2;
    after_tag(sign, true);
    return {};
  }

  Status fail(size_t at, const std::string& message) const {
    return error_at(s_, static_cast<uint32_t>(at), Code::kInvalid, Detail::kTemplateError, message);
  }
  Status unsupported(size_t at, const char* construct) const {
    return error_at(s_, static_cast<uint32_t>(at), Code::kUnsupported, Detail::kNone, std::string(construct) + " is not supported");
  }
  Token& push(Token::Kind kind, size_t at, std::string text = {}) {
    tokens_.push_back({kind, static_cast<uint32_t>(at), std::move(text)});
    return tokens_.back();
  }

  // The end of a tag that holds only `word` from `at` on (after its sign); npos where there is no such tag.
  size_t keyword_tag(size_t at, std::string_view word) const {
    at = skip_space(s_, at);
    if (s_.substr(at, word.size()) != word) return std::string_view::npos;
    at = skip_space(s_, at + word.size());
    if (at < s_.size() && (s_[at] == '-' || s_[at] == '+')) ++at;
    return s_.substr(at, 2) == "%}" ? at + 2 : std::string_view::npos;
  }

  // All between {% raw %} and {% endraw %} is text.
  Status raw(size_t open) {
    at_ = keyword_tag(at_, "raw");
    after_tag(s_[at_ - 3], true);
    for (size_t end = s_.find("{%", at_); end != std::string_view::npos; end = s_.find("{%", end + 2)) {
      size_t inside = end + 2;
      if (inside < s_.size() && (s_[inside] == '-' || s_[inside] == '+')) ++inside;
      size_t behind = keyword_tag(inside, "endraw");
      if (behind == std::string_view::npos) continue;
      text_until(end);
      at_ = behind;
      after_tag(s_[at_ - 3], true);
      return {};
    }
    return fail(open, "a raw block is not closed");
  }

  void text_until(size_t open) {
    std::string_view data = s_.substr(at_, open - at_);
    char sign = open + 2 < s_.size() ? s_[open + 2] : ' ';
    if (open < s_.size() && sign == '-') {
      data = data.substr(0, rstrip(data));
    } else if (open < s_.size() && sign != '+' && s_[open + 1] != '{') {  // lstrip_blocks
      size_t line = data.rfind('\n') + 1;                                 // 0 without one
      if ((line > 0 || line_start_) && skip_space(data, line) == data.size()) data = data.substr(0, line);
    }
    if (!data.empty()) push(Token::kText, at_, std::string(data));
  }

  // Skips the text that the end of a tag takes from behind it: "-" all white space, "+" nothing, else a block one line end.
  void after_tag(char sign, bool block) {
    size_t begin = at_;
    if (sign == '-') {
      at_ = skip_space(s_, at_);
    } else if (block && sign != '+' && at_ < s_.size() && s_[at_] == '\n') {
      ++at_;
    }
    line_start_ = at_ > begin && s_[at_ - 1] == '\n';
  }

  Status tag(bool block, size_t open) {
    const char* close = block ? "%}" : "}}";
    size_t nesting = 0;
    for (;;) {
      at_ = skip_space(s_, at_);
      if (at_ >= s_.size()) return fail(open, "a tag is not closed");
      if (nesting == 0) {
        bool signed_end = (s_[at_] == '-' || (block && s_[at_] == '+')) && s_.substr(at_ + 1, 2) == close;
        if (signed_end || s_.substr(at_, 2) == close) {
          push(block ? Token::kBlockEnd : Token::kPrintEnd, at_);
          char sign = signed_end ? s_[at_] : ' ';
          at_ += signed_end ? 3 : 2;
          after_tag(sign, block);
          return {};
        }
      }
      KVRT_TRY(token(&nesting));
      if (tokens_.size() > kTemplateTokensMax) return too_many();
    }
  }

  Status too_many() const {
    return error_at(s_, static_cast<uint32_t>(at_), Code::kLimit, Detail::kTemplateLimit,
                    "more than " + std::to_string(kTemplateTokensMax) + " tokens");
  }

  Status name() {
    size_t end = at_;
    while (end < s_.size() && (is_name_start(s_[end]) || is_digit(s_[end]))) ++end;
    if (end - at_ > kTemplateNameBytesMax) {
      return error_at(s_, static_cast<uint32_t>(at_), Code::kLimit, Detail::kTemplateLimit,
                      "a name of more than " + std::to_string(kTemplateNameBytesMax) + " bytes");
    }
    push(Token::kName, at_, std::string(s_.substr(at_, end - at_)));
    at_ = end;
    return {};
  }

  Status token(size_t* nesting) {
    char c = s_[at_];
    if (is_name_start(c)) return name();
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string();
    for (std::string_view op : {"//", "**", "==", "!=", ">=", "<="}) {
      if (s_.substr(at_, 2) == op) {
        push(Token::kOperator, at_, std::string(op));
        at_ += 2;
        return {};
      }
    }
    if (c == 0 || strchr("+-/*%~[](){}><=.:|,;", c) == nullptr) {
      return static_cast<unsigned char>(c) >= 0x80 ? unsupported(at_, "a name that is not ASCII") : fail(at_, "unexpected character");
    }
    if (strchr("([{", c) != nullptr) ++*nesting;
    if (strchr(")]}", c) != nullptr) {
      if (*nesting == 0) return fail(at_, std::string("unexpected '") + c + "'");
      --*nesting;
    }
    push(Token::kOperator, at_, std::string(1, c));
    ++at_;
    return {};
  }

  // 0x1F, 0o17, 0b11.
  Status prefixed_integer(int base) {
    size_t end = at_ + 2;
    std::string digits;
    for (; end < s_.size() && (is_name_start(s_[end]) || is_digit(s_[end])); ++end) {
      if (s_[end] != '_') digits.push_back(s_[end]);
    }
    Token& token = push(Token::kInt, at_);
    const char *first = digits.data(), *last = first + digits.size();
    auto read = std::from_chars(first, last, token.integer, base);
    if (read.ptr != last || digits.empty()) return unsupported(at_, "this form of number");
    if (read.ec != std::errc()) return unsupported(at_, "a number beyond 64 bits");
    at_ = end;
    return {};
  }

  bool digit_at(size_t i) const { return i < s_.size() && is_digit(s_[i]); }

  // Of 0x1F, 0o17 and 0b11; 0: the number is decimal.
  int base() const {
    switch (s_[at_] == '0' && at_ + 1 < s_.size() ? s_[at_ + 1] | 0x20 : 0) {
      case 'x':
        return 16;
      case 'o':
        return 8;
      case 'b':
        return 2;
      default:
        return 0;
    }
  }

  // Where digits end that begin at `i`, with a single _ between two of them.
  size_t digits_end(size_t i) const {
    while (digit_at(i) || (i < s_.size() && s_[i] == '_' && digit_at(i + 1))) ++i;
    return i;
  }

  // Where a fraction and an exponent end that follow the digits before `i`; i: there are none.
  size_t real_end(size_t i) const {
    if (i < s_.size() && s_[i] == '.' && digit_at(i + 1)) i = digits_end(i + 1);
    if (i >= s_.size() || (s_[i] | 0x20) != 'e') return i;
    const bool sign = i + 1 < s_.size() && (s_[i + 1] == '+' || s_[i + 1] == '-');
    const size_t exponent = i + 1 + sign;
    return digit_at(exponent) ? digits_end(exponent) : i;
  }

  Status number() {
    if (base() != 0) return prefixed_integer(base());
    const bool after_dot = at_ > 0 && s_[at_ - 1] == '.';
    const size_t whole = digits_end(at_), end = after_dot ? whole : real_end(whole);
    const bool real = end != whole;
    std::string text(s_.substr(at_, end - at_));
    std::erase(text, '_');
    const bool zero_first = text.size() > 1 && text[0] == '0' && text.find_first_not_of('0') != std::string::npos;
    if (!real && zero_first) return fail(at_, "an integer begins with 0");
    if (end < s_.size() && is_name_start(s_[end])) return unsupported(at_, "this form of number");
    Token& token = push(real ? Token::kFloat : Token::kInt, at_);
    const char *first = text.data(), *last = first + text.size();
    auto ec = real ? std::from_chars(first, last, token.real).ec : std::from_chars(first, last, token.integer).ec;
    if (ec != std::errc()) return unsupported(at_, "a number beyond 64 bits");
    at_ = end;
    return {};
  }

  Status string() {
    size_t open = at_;
    char quote = s_[at_++];
    std::string text;
    while (at_ < s_.size() && s_[at_] != quote) {
      if (s_[at_] != '\\') {
        text.push_back(s_[at_++]);
      } else {
        KVRT_TRY(escape(&text));
      }
    }
    if (at_ >= s_.size()) return fail(open, "a string is not closed");
    ++at_;
    push(Token::kString, open, std::move(text));
    return {};
  }

  Status escape(std::string* text) {
    size_t begin = at_++;
    if (at_ >= s_.size()) return fail(begin, "a string is not closed");
    char c = s_[at_++];
    static const char kLetters[] = "\\'\"abfnrtv", kValues[] = "\\'\"\a\b\f\n\r\t\v";
    if (const char* p = c == 0 ? nullptr : strchr(kLetters, c)) {
      text->push_back(kValues[p - kLetters]);
      return {};
    }
    if (c == '\n') return {};
    if (c >= '0' && c <= '7') return octal(text);
    if (c == 'N') return unsupported(begin, "the escape \\N");
    const size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (width > 0) return code_point(begin, width, text);
    text->push_back('\\');  // not an escape: both characters stand
    text->push_back(c);
    return {};
  }

  // Of up to three digits, the first of which is before at_.
  Status octal(std::string* text) {
    uint32_t value = 0;
    const char *first = s_.data() + at_ - 1, *last = s_.data() + std::min(at_ + 2, s_.size());
    at_ = static_cast<size_t>(std::from_chars(first, last, value, 8).ptr - s_.data());
    append_code_point(value, text);
    return {};
  }

  // Of `width` hexadecimal digits. The escape began at `begin`.
  Status code_point(size_t begin, size_t width, std::string* text) {
    uint32_t value = 0;
    const char *first = s_.data() + at_, *last = s_.data() + std::min(at_ + width, s_.size());
    auto read = std::from_chars(first, last, value, 16);
    if (read.ec != std::errc() || read.ptr != first + width || value > 0x10FFFF) return fail(begin, "a malformed escape");
    if (value >= 0xD800 && value < 0xE000) {
      return unsupported(begin, "a surrogate in a string");
    }
    append_code_point(value, text);
    at_ += width;
    return {};
  }

  std::string_view s_;
  size_t at_ = 0;
  bool line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    out.push_back(source[i] == '\r' ? '\n' : source[i]);
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

Result<std::vector<Token>> lex(std::string_view source) { return Lexer(source).run(); }

Status error_at(std::string_view source, uint32_t at, Code code, Detail detail, const std::string& message) {
  std::string_view before = source.substr(0, at);
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return error(code, detail, "template line %td, column %zu: %s", line, column, message.c_str());
}

}  // namespace kvrt::jinja
