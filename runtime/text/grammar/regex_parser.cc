#include "runtime/text/grammar/regex_parser.h"

#include <algorithm>
#include <optional>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"

namespace kvrt {

using NfaPart = CharNfa::Part;

namespace {

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
CodePointSet with_non_ascii(CodePointSet set) {
  set.add(0x80, 0x10FFFF);
  return set;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// What an escape of a digit or a letter means to engines that know more.
const char* meaning_of_escape(char c) {
  if (is_ascii_digit(c)) return "a back reference";
  return c == 'b' || c == 'B' ? "a word boundary" : c == 'p' || c == 'P' ? "a Unicode property" : "this escape";
}

// Of \d, \w and \s, and of \D, \W and \S, which are all others.
std::optional<Chars> named_class(char c) {
  const auto either = [&](const Chars& chars) { return is_ascii_letter(c) && c <= 'Z' ? chars.complement() : chars; };
  switch (c) {
    case 'd':
    case 'D':
      return either(Chars(digits(), with_non_ascii(digits())));
    case 'w':
    case 'W':
      return either(Chars(word(), with_non_ascii(word())));
    case 's':
    case 'S':
      return either(Chars(space(), any_space()));
    default:
      return std::nullopt;
  }
}

}  // namespace

NfaPart RegexParser::characters(const Chars& chars) {
  engines_differ_ = engines_differ_ || chars.every.ranges() != chars.some.ranges();
  return nfa_.read(some_ ? chars.some : chars.every);
}

NfaPart RegexParser::end_of_text() {
  engines_differ_ = true;
  if (!some_) return nfa_.assertion(CharNfa::kEnd);
  NfaPart line = nfa_.literal("\n");
  line = nfa_.sequence(line, nfa_.assertion(CharNfa::kEnd));
  const NfaPart ways[] = {line, nfa_.assertion(CharNfa::kEnd)};
  return nfa_.choice(ways);
}

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

// After the backslash.
Result<Chars> RegexParser::escape(bool in_class) {
  const char c = peek();
  if (at_end()) return wrong("a backslash that escapes nothing");
  constexpr std::string_view kNames = "nrtfv", kValues = "\n\r\t\f\v";
  const size_t control = kNames.find(c);
  ++at_;
  if (control != std::string_view::npos) {
    const auto value = static_cast<char32_t>(kValues[control]);
    return Chars(CodePointSet{{value, value}});
  }
  if (const auto named = named_class(c)) return *named;
  if (c == 'b' && in_class) return Chars(CodePointSet{{'\b', '\b'}});
  KVRT_ASSIGN(const char32_t value, escaped(c));
  return Chars(CodePointSet{{value, value}});
}

// The character that the escape of `c` stands for, after which the pattern is.
Result<char32_t> RegexParser::escaped(char c) {
  if (c == 'x' || c == 'u') {
    KVRT_ASSIGN(const char32_t value, hex(c == 'x' ? 2 : 4));
    if (value >= 0xD800 && value < 0xE000) return unsupported("a surrogate");
    return value;
  }
  if (c == '0' && !is_ascii_digit(peek())) return char32_t{0};
  if (static_cast<uint8_t>(c) < 0x80 && !is_ascii_digit(c) && !is_ascii_letter(c)) return static_cast<char32_t>(c);
  --at_;
  if (is_ascii_digit(c) || is_ascii_letter(c)) return unsupported(meaning_of_escape(c));
  const CodePoint point = read_code_point(pattern_.substr(at_));
  at_ += point.size;
  return point.value;
}

Result<Chars> RegexParser::char_class() {
  ++at_;
  const bool negated = peek() == '^';
  at_ += negated;
  Chars set{CodePointSet{}};
  std::vector<CodePointSet::Range> same;  // by both readings
  auto single = [](const Chars& s) { return s.some.ranges().size() == 1 && s.some.ranges()[0].first == s.some.ranges()[0].second; };
  auto one = [&]() -> Result<Chars> {
    if (peek() == '\\') {
      ++at_;
      return escape(true);
    }
    const CodePoint c = read_code_point(pattern_.substr(at_));
    at_ += c.size;
    return Chars(CodePointSet{{c.value, c.value}});
  };
  while (peek() != ']') {
    if (at_end()) return wrong("a class without its closing ]");
    if (peek() == '[' && peek(1) == ':') return unsupported("a POSIX class");
    KVRT_ASSIGN(Chars first, one());
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < pattern_.size() && single(first)) {
      ++at_;
      KVRT_ASSIGN(const Chars last, one());
      if (!single(last)) return wrong("a range to a class");
      const char32_t low = first.every.ranges()[0].first, high = last.every.ranges()[0].first;
      if (high < low) return wrong("a range whose end comes before its beginning");
      first = Chars(CodePointSet{{low, high}});
    }
    if (first.every.ranges() == first.some.ranges()) {
      same.insert(same.end(), first.every.ranges().begin(), first.every.ranges().end());
      continue;
    }
    set.every.add(first.every);
    set.some.add(first.some);
  }
  ++at_;
  set.every.add(same);
  set.some.add(std::move(same));
  return negated ? set.complement() : set;
}

Result<NfaPart> RegexParser::group() {
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
  KVRT_ASSIGN(const NfaPart part, alternatives());
  if (peek() != ')') return wrong("a group without its closing )");
  ++at_;
  --depth_;
  return part;
}

Result<NfaPart> RegexParser::atom() {
  const char c = peek();
  if (c == '(') return group();
  if (c == '[') {
    KVRT_ASSIGN(const Chars set, char_class());
    return characters(set);
  }
  if (c == '.') {
    ++at_;
    return characters({CodePointSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement(), CodePointSet{{'\n', '\n'}}.complement()});
  }
  if (c == '\\') {
    ++at_;
    KVRT_ASSIGN(const Chars set, escape(false));
    return characters(set);
  }
  if (c == '^' || c == '$') {
    ++at_;
    return c == '$' ? end_of_text() : nfa_.assertion(CharNfa::kBegin);
  }
  if (c == '*' || c == '+' || c == '?') return wrong("a quantifier that follows nothing");
  const CodePoint point = read_code_point(pattern_.substr(at_));
  at_ += point.size;
  return nfa_.read({{point.value, point.value}});
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
    *max = number().value_or(CharNfa::kNoMax);
  }
  if (at >= pattern_.size() || pattern_[at] != '}') return false;
  if (*max < *min) return wrong("a quantifier whose maximum is below its minimum");
  if (*min > kGrammarRepeatsMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "%s: a repetition of more than %u", where_.c_str(), kGrammarRepeatsMax);
  }
  at_ = at;
  return true;
}

Result<NfaPart> RegexParser::quantified(NfaPart part) {
  uint32_t min = 0, max = CharNfa::kNoMax;
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
  // A large maximum is lowered for texts that are sure to fit, and is none for those that may.
  const auto size = static_cast<uint32_t>(nfa_.nodes().size()) - part.first;
  const uint32_t most = std::max(min, std::max(kPatternRepeatsMin, kGrammarRepeatsMax / std::max(size, 1u)));
  if (max > most && max != CharNfa::kNoMax) {
    max = some_ ? CharNfa::kNoMax : most;
    engines_differ_ = true;
  }
  part = nfa_.repeat(part, min, max);
  KVRT_TRY(limit());
  return part;
}

// `(?=...)`, `(?!...)` at the text's beginning, `(?<=...)`, `(?<!...)` at its end: a pattern of its own, which must be found there or not.
Status RegexParser::look_around(bool behind) {
  const bool negated = peek(behind ? 3 : 2) == '!';
  const std::string_view all = pattern_;
  const size_t begin = at_ + (behind ? 4 : 3);
  RegexParser inner(all, where_, some_, true);
  inner.at_ = begin;
  inner.depth_ = depth_ + 1;
  if (inner.depth_ > kGrammarDepthMax) return unsupported("look-around nested this deep");
  KVRT_ASSIGN(NfaPart part, inner.alternatives());
  if (inner.peek() != ')') return inner.wrong("a group without its closing )");
  at_ = inner.at_ + 1;
  if (behind) {
    const NfaPart before = inner.nfa_.anything();
    part = inner.nfa_.sequence(before, part);
  } else {
    part = inner.nfa_.sequence(part, inner.nfa_.anything());
  }
  inner.nfa_.finish(part);
  KVRT_TRY(inner.limit());
  engines_differ_ = engines_differ_ || inner.engines_differ_;
  around_.push_back({std::move(inner.nfa_), negated});
  return Status::ok();
}

Result<NfaPart> RegexParser::sequence() {
  const bool outer = depth_ == 0;
  NfaPart whole = nfa_.empty();
  bool end = false;
  if (outer && peek() == '^') {
    ++at_;
    while (next_is("(?=") || next_is("(?!")) KVRT_TRY(look_around(false));
  } else if (outer && !anchored_) {
    whole = nfa_.sequence(whole, nfa_.anything());
  }
  while (!at_end() && peek() != '|' && peek() != ')') {
    if (outer && (next_is("(?<=") || next_is("(?<!"))) {
      const size_t at = at_;
      KVRT_TRY(look_around(true));
      if (!(peek() == '$' && at_ + 1 == pattern_.size())) {
        at_ = at;
        return unsupported("look-behind that is not before the $ that ends the pattern");
      }
      continue;
    }
    if (outer && peek() == '$' && (at_ + 1 == pattern_.size() || peek(1) == '|')) {
      ++at_;
      whole = nfa_.sequence(whole, end_of_text());
      end = true;
      break;
    }
    KVRT_ASSIGN(NfaPart part, atom());
    KVRT_ASSIGN(part, quantified(part));
    whole = nfa_.sequence(whole, part);
    KVRT_TRY(limit());
  }
  return outer && !end ? nfa_.sequence(whole, nfa_.anything()) : whole;
}

Result<NfaPart> RegexParser::alternatives() {
  std::vector<NfaPart> parts;
  for (;;) {
    KVRT_ASSIGN(const NfaPart part, sequence());
    parts.push_back(part);
    if (peek() != '|' || at_end()) break;
    ++at_;
  }
  if (depth_ == 0 && parts.size() > 1 && !around_.empty()) return unsupported("look-around in one of several alternatives");
  return nfa_.choice(parts);
}

Status RegexParser::parse() {
  KVRT_ASSIGN(const NfaPart part, alternatives());
  if (!at_end()) return wrong("a ) that closes nothing");
  nfa_.finish(part);
  return limit();
}

}  // namespace kvrt
