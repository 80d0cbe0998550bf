#include "json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace {

constexpr size_t kValuesMax = 1 << 20;  // each takes some fifty times its shortest text

class Reader {
 public:
  Reader(std::string_view text, int depth_max) : text_(text), depth_max_(depth_max) {}

  Json read() {
    Json value = read_value(0);
    skip_space();
    if (at_ < text_.size()) fail("expected the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw JsonError("invalid JSON at byte " + std::to_string(at_) + ": " + what); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Json read_value(int depth) {
    if (++values_ > kValuesMax) fail("more than 1048576 values");
    skip_space();
    Json value;
    const size_t begin = at_;
    if (depth == depth_max_ && (peek() == '{' || peek() == '[')) fail("nested deeper than " + std::to_string(depth_max_));
    if (peek() == '"') {
      value.kind = Json::kString;
      value.text = read_string();
    } else if (take('{')) {
      read_object(&value, depth);
    } else if (take('[')) {
      read_array(&value, depth);
    } else {
      read_scalar(&value);
    }
    value.raw = text_.substr(begin, at_ - begin);
    return value;
  }

  void read_array(Json* value, int depth) {
    value->kind = Json::kArray;
    if (take(']')) return;
    do value->items.push_back(read_value(depth + 1));
    while (take(','));
    if (!take(']')) fail("expected , or ]");
  }

  void read_object(Json* value, int depth) {
    value->kind = Json::kObject;
    if (take('}')) return;
    do {
      skip_space();
      if (peek() != '"') fail("expected a name in quotes");
      value->names.push_back(read_string());
      if (!take(':')) fail("expected :");
      value->items.push_back(read_value(depth + 1));
    } while (take(','));
    if (!take('}')) fail("expected , or }");
  }

  void read_scalar(Json* value) {
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      value->kind = word == "null" ? Json::kNull : Json::kBool;
      value->truth = word == "true";
      at_ += word.size();
      return;
    }
    value->kind = Json::kNumber;
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else {
      read_digits();
    }
    if (peek() == '.') ++at_, read_digits();
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      read_digits();
    }
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value->number).ec == std::errc()) return;
    if (digits.find_first_of(".eE") != digits.npos) fail("a number out of range");
    value->number = digits[0] == '-' ? -HUGE_VAL : HUGE_VAL;  // an integer: its digits are in raw
  }
  void read_digits() {
    if (peek() < '0' || peek() > '9') fail("expected a value");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }

  unsigned read_hex() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) fail("expected four hex digits");
      code = code * 16 + static_cast<unsigned>(digit);
    }
    return code;
  }

  void read_escape(std::string* out) {
    const char c = peek();
    ++at_;
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(c); c != '\0' && i != kFrom.npos) return out->push_back(kTo[i]);
    if (c != 'u') fail("an unknown escape");
    unsigned code = read_hex();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const unsigned low = read_hex();
      if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xD800 && code < 0xE000) {
      fail("half a surrogate pair");
    }
    const auto put = [&](unsigned byte) { out->push_back(static_cast<char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xC0 | code >> 6);
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F));
    } else {
      put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F));
    }
    put(0x80 | (code & 0x3F));
  }

  std::string read_string() {
    std::string out;
    for (++at_;;) {
      if (at_ == text_.size()) fail("a string without an end");
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      ++at_;
      if (c == '"') return out;
      if (c == '\\') {
        read_escape(&out);
      } else {
        out.push_back(c);
      }
    }
  }

  std::string_view text_;
  const int depth_max_;
  size_t at_ = 0, values_ = 0;
};

}  // namespace

const Json* Json::find(std::string_view name) const {
  for (size_t i = names.size(); i-- > 0;) {
    if (names[i] == name) return items[i].is(kNull) ? nullptr : &items[i];
  }
  return nullptr;
}

Json read_json(std::string_view text, int depth_max) {
  if (const size_t bad = find_bad_utf8(text); bad != text.npos) throw JsonError("invalid UTF-8 at byte " + std::to_string(bad));
  return Reader(text, depth_max).read();
}

bool same(const Json& a, const Json& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  if (a.is(Json::kBool)) return a.truth == b.truth;
  const auto whole = [](const Json& n) { return n.raw.find_first_of(".eE") == n.raw.npos; };
  if (a.is(Json::kNumber)) return a.number == b.number && (a.raw == b.raw || !whole(a) || !whole(b));
  if (a.is(Json::kString)) return a.text == b.text;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (a.is(Json::kArray)) {
      if (!same(a.items[i], b.items[i])) return false;
      continue;
    }
    const Json* other = b.find(a.names[i]);
    if (other ? !same(a.items[i], *other) : !a.items[i].is(Json::kNull)) return false;
  }
  return true;
}

size_t find_bad_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto at = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u; };
    const unsigned c = at(0), second = at(1);
    const size_t length = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    // No longer form than needed, no surrogates, nothing above U+10FFFF.
    const bool bad =
        (c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) || (c == 0xF4 && second > 0x8F);
    if (length == 0 || bad) return i;
    for (size_t k = 1; k < length; ++k) {
      if ((at(k) & 0xC0) != 0x80) return i;
    }
    i += length;
  }
  return text.npos;
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  for (size_t bad; (bad = find_bad_utf8(bytes)) != bytes.npos; bytes.remove_prefix(bad + 1)) {
    out += bytes.substr(0, bad);
    out += "\uFFFD";
  }
  return out += bytes;
}

size_t half_character(std::string_view text) {
  constexpr size_t kMost = 3;  // of a character of four bytes
  for (size_t n = 1; n <= std::min(kMost, text.size()); ++n) {
    const auto first = static_cast<unsigned char>(text[text.size() - n]);
    if ((first & 0xC0) == 0x80) continue;
    const std::string_view last = text.substr(text.size() - n);
    if (find_bad_utf8(last) == last.npos) return 0;
    // It is half of a character if some bytes make it whole: the least ones do, or the greatest.
    for (const char rest : {'\x80', '\xBF'}) {
      for (size_t size = n + 1; size <= kMost + 1; ++size) {
        if (const std::string whole = std::string(last) + std::string(size - n, rest); find_bad_utf8(whole) == whole.npos) return n;
      }
    }
    return 0;
  }
  return 0;
}

void JsonWriter::comma() {
  if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':') out_ += ',';
}

JsonWriter& JsonWriter::begin(char bracket) {
  comma();
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) {
  out_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  string(name);
  out_ += ':';
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  comma();
  out_ += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out_ += '\\', out_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out_ += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : escape;
    } else {
      out_ += c;
    }
  }
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::number(uint64_t value) { return raw(std::to_string(value)); }

JsonWriter& JsonWriter::number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::isfinite(value) ? raw({text, static_cast<size_t>(end - text)}) : raw("-9999.0");  // as OpenAI writes what has no chance
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  comma();
  out_ += json;
  return *this;
}
