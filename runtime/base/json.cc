#include "runtime/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runtime/base/numbers.h"
#include "runtime/base/utf8.h"

namespace kvrt {

namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
}  // namespace

JsonReader::JsonReader(std::string_view text) : source_(text) {
  if (text.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
}

JsonReader::Part JsonReader::wrong(size_t at) {
  if (!wrong_) at_ = std::min(at + 1, source_.size() + 1);
  wrong_ = true;
  return Part::kWrong;
}

// The state after a value, or after the end of one that was open.
JsonReader::Part JsonReader::ended(Part part) {
  want_ = open_.empty() ? Want::kNothing : Want::kCommaOrEnd;
  return part;
}

JsonReader::Part JsonReader::next() {
  if (wrong_) return Part::kWrong;
  while (is_space(peek())) ++at_;
  if (want_ == Want::kNothing) return at_ == source_.size() ? Part::kEnd : wrong(at_);
  if (want_ == Want::kCommaOrEnd || want_ == Want::kKeyOrEnd || want_ == Want::kValueOrEnd) {
    if (peek() == ']' || peek() == '}') return close(peek());
  }
  if (want_ == Want::kCommaOrEnd) {
    if (peek() != ',') return wrong(at_);
    ++at_;
    want_ = open_.back() == '{' ? Want::kKey : Want::kValue;
    while (is_space(peek())) ++at_;
  }
  if (want_ == Want::kKey || want_ == Want::kKeyOrEnd) {
    if (peek() != '"') return wrong(at_);
    if (string(Part::kKey) == Part::kWrong) return Part::kWrong;
    while (is_space(peek())) ++at_;
    if (peek() != ':') return wrong(at_);
    ++at_;
    want_ = Want::kValue;
    return Part::kKey;
  }
  return value();
}

JsonReader::Part JsonReader::value() {
  switch (const char c = peek()) {
    case '{':
      return open(Part::kObject, c, Want::kKeyOrEnd);
    case '[':
      return open(Part::kArray, c, Want::kValueOrEnd);
    case '"':
      return ended(string(Part::kString));
    case 'n':
      return word("null", Part::kNull);
    case 't':
      return word("true", Part::kTrue);
    case 'f':
      return word("false", Part::kFalse);
    default:
      return c == '-' || is_digit(c) ? number() : wrong(at_);
  }
}

JsonReader::Part JsonReader::open(Part part, char bracket, Want want) {
  open_.push_back(bracket);
  ++at_;
  want_ = want;
  return part;
}

JsonReader::Part JsonReader::close(char bracket) {
  if (open_.back() != (bracket == ']' ? '[' : '{')) return wrong(at_);
  open_.pop_back();
  ++at_;
  return ended(bracket == ']' ? Part::kArrayEnd : Part::kObjectEnd);
}

JsonReader::Part JsonReader::word(std::string_view word, Part part) {
  for (size_t i = 0; i < word.size(); ++i, ++at_) {
    if (peek() != word[i]) return wrong(at_);
  }
  return ended(part);
}

JsonReader::Part JsonReader::number() {
  const size_t begin = at_;
  const auto digits = [this] {
    const size_t from = at_;
    while (is_digit(peek())) ++at_;
    return at_ > from;
  };
  if (peek() == '-') ++at_;
  if (peek() == '0') {
    ++at_;
  } else if (!digits()) {
    return wrong(at_);
  }
  if (peek() == '.') {
    ++at_;
    if (!digits()) return wrong(at_);
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    if (!digits()) return wrong(at_);
  }
  text_ = source_.substr(begin, at_ - begin);
  return ended(Part::kNumber);
}

// Reads four hexadecimal digits.
bool JsonReader::code_unit(uint32_t* out) {
  const std::string_view digits = source_.substr(at_, 4);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), *out, 16);
  at_ += static_cast<size_t>(read.ptr - digits.data());
  return read.ptr == digits.data() + 4;
}

// Decodes an escape from behind its backslash on.
bool JsonReader::escape() {
  static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
  const char c = peek();
  if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
    decoded_.push_back(kMeant[i]);
    ++at_;
    return true;
  }
  uint32_t high = 0, low = 0;
  if (c != 'u') return false;
  ++at_;
  if (!code_unit(&high) || (high >= 0xDC00 && high < 0xE000)) return false;
  if (high < 0xD800 || high >= 0xE000) {
    append_code_point(high, &decoded_);
    return true;
  }
  if (peek() != '\\') return false;
  ++at_;
  if (peek() != 'u') return false;
  ++at_;
  if (!code_unit(&low) || low < 0xDC00 || low >= 0xE000) return false;
  append_code_point(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), &decoded_);
  return true;
}

JsonReader::Part JsonReader::string(Part part) {
  decoded_.clear();
  size_t begin = ++at_;
  bool escapes = false;
  for (;; ++at_) {
    const auto c = static_cast<unsigned char>(peek());
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    const std::string_view plain = source_.substr(begin, at_ - begin);
    if (const size_t bad = find_invalid_utf8(plain); bad != std::string_view::npos) return wrong(begin + bad);
    if (c == '"') {
      if (escapes) decoded_ += plain;
      text_ = escapes ? std::string_view(decoded_) : plain;
      ++at_;
      return part;
    }
    if (c != '\\') return wrong(at_);
    decoded_ += plain;
    escapes = true;
    ++at_;
    if (!escape()) return wrong(at_);
    begin = at_--;
  }
}

// ---- writing ------------------------------------------------------------------------------------------------------------------------

void append_json_string(std::string_view s, std::string* out) {
  out->push_back('"');
  while (!s.empty()) {
    size_t n = 0;
    const auto plain = [&s](size_t i) { return static_cast<unsigned char>(s[i]) >= 0x20 && s[i] != '"' && s[i] != '\\'; };
    while (n < s.size() && plain(n)) ++n;
    std::string_view run = s.substr(0, n);
    for (size_t bad; (bad = find_invalid_utf8(run)) != std::string_view::npos; run.remove_prefix(utf8_prefix(run).valid)) {
      out->append(run.substr(0, bad)).append("\xEF\xBF\xBD");
      run.remove_prefix(bad);
    }
    out->append(run);
    s.remove_prefix(n);
    if (s.empty()) break;
    static constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    out->push_back('\\');
    if (const size_t i = kEscaped.find(s[0]); i != std::string_view::npos) {
      out->push_back(kLetters[i]);
    } else {
      out->append({'u', '0', '0', "01"[s[0] >> 4], "0123456789abcdef"[s[0] & 15]});
    }
    s.remove_prefix(1);
  }
  out->push_back('"');
}

void append_json_real(double number, std::string* out) {
  if (!std::isfinite(number)) {
    out->append("null");
    return;
  }
  char buffer[40];
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e15);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const std::string_view text(buffer, static_cast<size_t>(std::to_chars(buffer, buffer + sizeof buffer, number, format).ptr - buffer));
  out->append(text);
  if (plain && text.find('.') == std::string_view::npos) out->append(".0");
}

void append_json_number(std::string_view spelling, std::string* out) {
  if (spelling.find_first_of(".eE") == std::string_view::npos) {
    return void(out->append(spelling == "-0" ? "0" : spelling));
  }
  double number = 0;
  (void)read_real(spelling, &number);
  append_json_real(number, out);
}

void append_json_value(JsonReader* reader, JsonReader::Part part, std::string* out) {
  using Part = JsonReader::Part;
  const size_t depth = reader->depth() - (part == Part::kArray || part == Part::kObject);
  for (bool comma = false;; part = reader->next()) {
    const bool closes = part == Part::kArrayEnd || part == Part::kObjectEnd;
    if (comma && !closes) out->push_back(',');
    comma = part != Part::kArray && part != Part::kObject && part != Part::kKey;
    switch (part) {
      case Part::kNull:
        out->append("null");
        break;
      case Part::kFalse:
        out->append("false");
        break;
      case Part::kTrue:
        out->append("true");
        break;
      case Part::kNumber:
        append_json_number(reader->text(), out);
        break;
      case Part::kString:
        append_json_string(reader->text(), out);
        break;
      case Part::kKey:
        append_json_string(reader->text(), out);
        out->push_back(':');
        break;
      case Part::kArray:
        out->push_back('[');
        break;
      case Part::kObject:
        out->push_back('{');
        break;
      case Part::kArrayEnd:
        out->push_back(']');
        break;
      case Part::kObjectEnd:
        out->push_back('}');
        break;
      case Part::kEnd:
      case Part::kWrong:
        return;
    }
    if (reader->depth() == depth) return;
  }
}

}  // namespace kvrt
