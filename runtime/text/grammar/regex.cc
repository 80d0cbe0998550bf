#include "runtime/text/grammar/regex.h"

#include <algorithm>
#include <optional>

#include "runtime/base/utf8.h"

namespace kvrt {

namespace {

using Part = GrammarBuilder::Part;

const CodePointSet& digits() {
  static const CodePointSet kSet{{'0', '9'}};
  return kSet;
}
const CodePointSet& word() {
  static const CodePointSet kSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return kSet;
}
const CodePointSet& space() {
  static const CodePointSet kSet{{'\t', '\r'}, {' ', ' '}};
  return kSet;
}
const CodePointSet& any_space() {  // by any engine's reading
  static const CodePointSet kSet{{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                 {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200B}, {0x2028, 0x2029},
                                 {0x202F, 0x202F}, {0x205F, 0x2060}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return kSet;
}
const CodePointSet& ascii() {
  static const CodePointSet kSet{{0, 0x7F}};
  return kSet;
}

class RegexParser {
 public:
  RegexParser(GrammarBuilder* builder, std::string_view pattern, const std::string& where)
      : builder_(*builder), pattern_(pattern), where_(where) {}
  Result<Part> parse();

 private:
  Status wrong(const char* what) const {
    return error(Code::kInvalid, Detail::kGrammarError, "%s: %s at byte %zu of the pattern", where_.c_str(), what, at_);
  }
  Status unsupported(const char* what) const {
    return error(Code::kUnsupported, Detail::kNone, "%s: %s at byte %zu of the pattern is not supported", where_.c_str(), what, at_);
  }
  bool at_end() const { return at_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  Part characters(const CodePointSet& set) { return builder_.characters(set, GrammarBuilder::Spelling::kJson); }
  Part anything() { return builder_.repeat(characters(CodePointSet::all()), 0, GrammarBuilder::kNoMax); }
  Result<Part> alternatives();
  Result<Part> sequence();
  Result<Part> atom();
  Result<Part> group();
  Result<Part> quantified(Part part);
  Result<bool> bounds(uint32_t* min, uint32_t* max);
  Result<CodePointSet> char_class();
  Result<CodePointSet> escape(bool in_class, bool* engines_differ);
  Result<char32_t> hex(size_t digits);

  GrammarBuilder& builder_;
  std::string_view pattern_;
  const std::string& where_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
};

Result<char32_t> RegexParser::hex(size_t count) {
  char32_t value = 0;
  for (size_t i = 0; i < count; ++i, ++at_) {
    const char c = peek();
    const bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!digit && !letter) return wrong("an escape without its hexadecimal digits");
    value = value * 16 + static_cast<char32_t>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

// After the backslash. engines_differ: the set's complement is not the same for all engines.
Result<CodePointSet> RegexParser::escape(bool in_class, bool* engines_differ) {
  const char c = peek();
  if (at_end()) return wrong("a backslash that escapes nothing");
  constexpr std::string_view kNames = "nrtfv", kValues = "\n\r\t\f\v";
  const size_t control = kNames.find(c);
  if (c == 'd' || c == 'w' || c == 'D' || c == 'W') *engines_differ = true;
  ++at_;
  if (control != std::string_view::npos)
    return CodePointSet{{static_cast<char32_t>(kValues[control]), static_cast<char32_t>(kValues[control])}};
  if (c == 'd') return digits();
  if (c == 'w') return word();
  if (c == 's') return space();
  if (c == 'D') return ascii().without(digits());
  if (c == 'W') return ascii().without(word());
  if (c == 'S') return any_space().complement();
  if (c == 'b' && in_class) return CodePointSet{{'\b', '\b'}};
  char32_t value = static_cast<uint8_t>(c);
  if (c == 'x' || c == 'u') {
    KVRT_ASSIGN(value, hex(c == 'x' ? 2 : 4));
    if (value >= 0xD800 && value < 0xE000) return unsupported("a surrogate");
  } else if (c == '0' && !(peek() >= '0' && peek() <= '9')) {
    value = 0;
  } else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
    --at_;
    if (c >= '0' && c <= '9') return unsupported("a back reference");
    return unsupported(c == 'b' || c == 'B' ? "a word boundary" : c == 'p' || c == 'P' ? "a Unicode property" : "this escape");
  } else if (value >= 0x80) {
    --at_;
    const CodePoint point = read_code_point(pattern_.substr(at_));
    at_ += point.size;
    value = point.value;
  }
  return CodePointSet{{value, value}};
}

Result<CodePointSet> RegexParser::char_class() {
  ++at_;
  const bool negated = peek() == '^';
  at_ += negated;
  CodePointSet set;
  bool engines_differ = false;
  auto single = [](const CodePointSet& s) { return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].second; };
  auto one = [&]() -> Result<CodePointSet> {
    if (peek() == '\\') {
      ++at_;
      return escape(true, &engines_differ);
    }
    const CodePoint c = read_code_point(pattern_.substr(at_));
    at_ += c.size;
    return CodePointSet{{c.value, c.value}};
  };
  while (peek() != ']') {
    if (at_end()) return wrong("a class without its closing ]");
    if (peek() == '[' && peek(1) == ':') return unsupported("a POSIX class");
    KVRT_ASSIGN(const CodePointSet first, one());
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < pattern_.size() && single(first)) {
      ++at_;
      KVRT_ASSIGN(const CodePointSet last, one());
      if (!single(last)) return wrong("a range to a class");
      if (last.ranges()[0].first < first.ranges()[0].first) return wrong("a range whose end comes before its beginning");
      set.add(first.ranges()[0].first, last.ranges()[0].first);
    } else {
      set.add(first);
    }
  }
  ++at_;
  if (!negated) return set;
  return engines_differ ? ascii().without(set) : set.complement();
}

Result<Part> RegexParser::group() {
  ++at_;
  if (++depth_ > kGrammarDepthMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "%s: groups nested deeper than %u", where_.c_str(), kGrammarDepthMax);
  }
  if (peek() == '?') {
    if (peek(1) == ':') {
      at_ += 2;
    } else if (peek(1) == '<' && peek(2) != '=' && peek(2) != '!') {
      const size_t end = pattern_.find('>', at_);
      if (end == std::string_view::npos) return wrong("a group's name without its closing >");
      at_ = end + 1;
    } else {
      return unsupported("look-around or another (?...) group");
    }
  }
  KVRT_ASSIGN(const Part part, alternatives());
  if (peek() != ')') return wrong("a group without its closing )");
  ++at_;
  --depth_;
  return part;
}

Result<Part> RegexParser::atom() {
  const char c = peek();
  bool engines_differ = false;
  if (c == '(') return group();
  if (c == '[') {
    KVRT_ASSIGN(const CodePointSet set, char_class());
    return characters(set);
  }
  if (c == '.') {
    ++at_;
    return characters(CodePointSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement());
  }
  if (c == '\\') {
    ++at_;
    KVRT_ASSIGN(const CodePointSet set, escape(false, &engines_differ));
    return characters(set);
  }
  if (c == '^' || c == '$') return unsupported("an anchor inside the pattern");
  if (c == '*' || c == '+' || c == '?') return wrong("a quantifier that follows nothing");
  const CodePoint point = read_code_point(pattern_.substr(at_));
  at_ += point.size;
  return characters({{point.value, point.value}});
}

// {m} {m,} {m,n}; false: something else, which stands for itself.
Result<bool> RegexParser::bounds(uint32_t* min, uint32_t* max) {
  size_t at = at_ + 1;
  auto number = [&]() -> std::optional<uint32_t> {
    uint64_t value = 0;
    const size_t begin = at;
    for (; at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9'; ++at) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(pattern_[at] - '0'), UINT32_MAX - 1);
    }
    if (at == begin) return std::nullopt;
    return static_cast<uint32_t>(value);
  };
  const auto first = number();
  if (!first) {
    if (at < pattern_.size() && pattern_[at] == ',') return unsupported("{,n}, which engines read in different ways");
    return false;
  }
  *min = *max = *first;
  if (at < pattern_.size() && pattern_[at] == ',') {
    ++at;
    *max = number().value_or(GrammarBuilder::kNoMax);
  }
  if (at >= pattern_.size() || pattern_[at] != '}') return false;
  if (*max < *min) return wrong("a quantifier whose maximum is below its minimum");
  if (*min > kGrammarRepeatsMax || (*max > kGrammarRepeatsMax && *max != GrammarBuilder::kNoMax)) {
    return error(Code::kLimit, Detail::kGrammarLimit, "%s: a repetition of more than %u", where_.c_str(), kGrammarRepeatsMax);
  }
  at_ = at;
  return true;
}

Result<Part> RegexParser::quantified(Part part) {
  uint32_t min = 0, max = GrammarBuilder::kNoMax;
  const char c = peek();
  if (c == '?') {
    max = 1;
  } else if (c == '+') {
    min = 1;
  } else if (c == '{') {
    KVRT_ASSIGN(const bool is_quantifier, bounds(&min, &max));
    if (!is_quantifier) return part;
  } else if (c != '*') {
    return part;
  }
  ++at_;
  if (peek() == '?') ++at_;  // lazy: the same strings
  const bool again = peek() == '*' || peek() == '+' || peek() == '?';
  if (again) return wrong("a quantifier after a quantifier");
  part = builder_.repeat(part, min, max);
  KVRT_TRY(builder_.status());
  return part;
}

Result<Part> RegexParser::sequence() {
  const bool outer = depth_ == 0;
  Part whole = builder_.empty();
  bool end = false;
  if (outer && peek() == '^') {
    ++at_;
  } else if (outer) {
    whole = builder_.sequence(whole, anything());
  }
  while (!at_end() && peek() != '|' && peek() != ')') {
    if (outer && peek() == '$' && (at_ + 1 == pattern_.size() || peek(1) == '|')) {
      ++at_;
      end = true;
      break;
    }
    KVRT_ASSIGN(Part part, atom());
    KVRT_ASSIGN(part, quantified(part));
    whole = builder_.sequence(whole, part);
    KVRT_TRY(builder_.status());
  }
  return outer && !end ? builder_.sequence(whole, anything()) : whole;
}

Result<Part> RegexParser::alternatives() {
  std::vector<Part> parts;
  for (;;) {
    KVRT_ASSIGN(const Part part, sequence());
    parts.push_back(part);
    if (peek() != '|' || at_end()) break;
    ++at_;
  }
  return builder_.choice(parts);
}

Result<Part> RegexParser::parse() {
  KVRT_ASSIGN(const Part part, alternatives());
  if (!at_end()) return wrong("a ) that closes nothing");
  return part;
}

}  // namespace

Result<GrammarBuilder::Part> regex_part(GrammarBuilder* builder, std::string_view pattern, const std::string& where) {
  return RegexParser(builder, pattern, where).parse();
}

}  // namespace kvrt
