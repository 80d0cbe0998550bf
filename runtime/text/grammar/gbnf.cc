// GBNF, the notation of llama.cpp's grammars -> GrammarBuilder.
#include "runtime/text/grammar/gbnf.h"

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/utf8.h"

namespace kvrt {

namespace {

using Part = GrammarBuilder::Part;

bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class GbnfParser {
 public:
  GbnfParser(std::string_view source, const GrammarVocab* vocab, GrammarBuilder* builder)
      : source_(source), vocab_(vocab), builder_(*builder) {}
  Result<uint32_t> parse();  // the rule of `root`

 private:
  struct Name {
    uint32_t rule;
    size_t first_use;
  };

  [[gnu::format(printf, 3, 4)]] Status wrong(size_t at, const char* format, ...) const;
  bool at_end() const { return at_ >= source_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  void skip_space(bool newlines);
  std::string_view name();
  uint32_t rule_of(std::string_view name, size_t at);
  Status rule();
  Result<Part> alternatives(bool nested);
  Result<Part> sequence(bool nested);
  Result<Part> item();
  Result<Part> group();
  Result<Part> literal();
  Result<Part> char_class();
  Result<Part> token();
  Result<char32_t> character();
  Result<uint32_t> count();
  Result<Part> repeated(Part part);

  const std::string_view source_;
  const GrammarVocab* const vocab_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  GrammarBuilder& builder_;
  std::unordered_map<std::string_view, Name> names_;
};

Status GbnfParser::wrong(size_t at, const char* format, ...) const {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  at = std::min(at, source_.size());
  const std::string_view before = source_.substr(0, at);
  const size_t line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t newline = before.rfind('\n');
  const std::string_view row = newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto column = std::count_if(row.begin(), row.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }) + 1;
  return error(Code::kInvalid, Detail::kGrammarError, "grammar: line %zu, column %td: %s", line, column, what);
}

void GbnfParser::skip_space(bool newlines) {
  for (; !at_end(); ++at_) {
    const char c = peek();
    if (c == '#') {
      while (at_ + 1 < source_.size() && source_[at_ + 1] != '\n' && source_[at_ + 1] != '\r') ++at_;
    } else if (c != ' ' && c != '\t' && !(newlines && (c == '\n' || c == '\r'))) {
      return;
    }
  }
}

std::string_view GbnfParser::name() {
  const size_t begin = at_;
  while (!at_end() && is_name(peek())) ++at_;
  return source_.substr(begin, at_ - begin);
}

uint32_t GbnfParser::rule_of(std::string_view name, size_t at) {
  auto [found, fresh] = names_.try_emplace(name, Name{0, at});
  if (fresh) found->second.rule = builder_.add_rule(std::string(name));
  return found->second.rule;
}

Result<char32_t> GbnfParser::character() {
  const size_t begin = at_;
  if (peek() != '\\') {
    const CodePoint c = read_code_point(source_.substr(at_));
    at_ += c.size;
    return c.value;
  }
  const char kind = peek(1);
  at_ += 2;
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) {
    constexpr std::string_view kNames = "nrt\"\\[]-^", kValues = "\n\r\t\"\\[]-^";
    const size_t found = at_ <= source_.size() ? kNames.find(kind) : std::string_view::npos;
    if (found == std::string_view::npos)
      return wrong(begin, "unknown escape; expected \\n \\r \\t \\\" \\\\ \\[ \\] \\xNN \\uNNNN or \\UNNNNNNNN");
    return static_cast<char32_t>(kValues[found]);
  }
  uint64_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const char c = peek();
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!is_digit(c) && !letter) return wrong(begin, "\\%c needs %zu hexadecimal digits", kind, digits);
    value = value * 16 + static_cast<uint64_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return wrong(begin, "\\%c: no such character", kind);
  return static_cast<char32_t>(value);
}

Result<Part> GbnfParser::literal() {
  const size_t begin = at_++;
  std::string text;
  while (peek() != '"') {
    if (at_end() || peek() == '\n') return wrong(begin, "a literal without its closing \"");
    KVRT_ASSIGN(const char32_t c, character());
    append_code_point(c, &text);
  }
  ++at_;
  return builder_.literal(text);
}

Result<Part> GbnfParser::char_class() {
  const size_t begin = at_++;
  const bool negated = peek() == '^';
  at_ += negated;
  std::vector<CodePointSet::Range> ranges;
  while (peek() != ']') {
    if (at_end() || peek() == '\n') return wrong(begin, "a class without its closing ]");
    const size_t first_at = at_;
    KVRT_ASSIGN(const char32_t first, character());
    char32_t last = first;
    if (peek() == '-' && peek(1) != ']') {
      ++at_;
      if (at_end() || peek() == '\n') return wrong(begin, "a class without its closing ]");
      KVRT_ASSIGN(last, character());
    }
    if (last < first) return wrong(first_at, "a range whose end comes before its beginning");
    ranges.emplace_back(first, last);
  }
  ++at_;
  CodePointSet set;
  set.add(std::move(ranges));
  if (set.ranges().empty() && !negated) return wrong(begin, "an empty class, which nothing fits");
  return builder_.characters(negated ? set.complement() : set, GrammarBuilder::Spelling::kRaw);
}

// <[1000]>: a token by its id; <think>: the token that is spelled so, with the brackets; ! before it: all others.
Result<Part> GbnfParser::token() {
  const bool others = peek() == '!';
  at_ += others;
  const size_t begin = at_;
  const size_t end = source_.find_first_of(">\n", begin);
  if (peek() != '<' || end == std::string_view::npos || source_[end] != '>') return wrong(begin, "expected a token, <[id]> or <text>");
  if (vocab_ == nullptr) return wrong(begin, "a token, and there is no vocabulary");
  const std::string_view text = source_.substr(begin, end + 1 - begin);
  int64_t id = vocab_->find(text);
  if (text.starts_with("<[")) {
    const char* last = text.data() + text.size() - 2;  // of the closing ]
    const auto read = std::from_chars(text.data() + 2, last, id);
    if (read.ec == std::errc::invalid_argument || read.ptr != last || *last != ']') return wrong(begin, "expected a token's id, <[id]>");
    if (read.ec != std::errc() || id < 0 || id >= vocab_->tokens()) {
      return wrong(begin, "there is no such token: the vocabulary has %u", vocab_->tokens());
    }
  }
  if (id < 0) return wrong(begin, "there is no token %.*s", static_cast<int>(std::min<size_t>(text.size(), 64)), text.data());
  at_ = end + 1;
  return builder_.token({{static_cast<int32_t>(id)}, others});
}

Result<Part> GbnfParser::group() {
  const size_t begin = at_++;
  if (++depth_ > kGrammarDepthMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "grammar: groups nested deeper than %u", kGrammarDepthMax);
  }
  skip_space(true);
  KVRT_ASSIGN(const Part part, alternatives(true));
  --depth_;
  if (peek() != ')') return wrong(at_end() ? begin : at_, "a group without its closing )");
  ++at_;
  return part;
}

Result<uint32_t> GbnfParser::count() {
  const size_t begin = at_;
  uint64_t value = 0;
  for (; is_digit(peek()); ++at_) value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), UINT32_MAX);
  if (at_ == begin) return wrong(begin, "expected a number of repetitions");
  if (value > kGrammarRepeatsMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "grammar: a repetition of more than %u", kGrammarRepeatsMax);
  }
  return static_cast<uint32_t>(value);
}

// The repetitions after an item: ? * + {m} {m,} {m,n}, any number of them.
Result<Part> GbnfParser::repeated(Part part) {
  for (;; skip_space(depth_ > 0)) {
    uint32_t min = 0, max = GrammarBuilder::kNoMax;
    if (peek() == '?') {
      max = 1;
    } else if (peek() == '+') {
      min = 1;
    } else if (peek() == '{') {
      const size_t begin = at_++;
      skip_space(depth_ > 0);
      KVRT_ASSIGN(min, count());
      skip_space(depth_ > 0);
      if (peek() == ',') {
        ++at_;
        skip_space(depth_ > 0);
        if (peek() != '}') {
          KVRT_ASSIGN(max, count());
        }
        skip_space(depth_ > 0);
      } else {
        max = min;
      }
      if (peek() != '}') return wrong(at_, "a repetition without its closing }");
      if (max < min) return wrong(begin, "a repetition whose maximum is below its minimum");
    } else if (peek() != '*') {
      return part;
    }
    ++at_;
    part = builder_.repeat(part, min, max);
    KVRT_TRY(builder_.status());
  }
}

Result<Part> GbnfParser::item() {
  const char c = peek();
  if (c == '"') return literal();
  if (c == '[') return char_class();
  if (c == '(') return group();
  if (c == '<' || c == '!') return token();
  if (c == '.') {
    ++at_;
    return builder_.characters(CodePointSet::all(), GrammarBuilder::Spelling::kRaw);
  }
  const size_t begin = at_;
  return builder_.call(rule_of(name(), begin));
}

Result<Part> GbnfParser::sequence(bool nested) {
  Part whole = builder_.empty();
  for (skip_space(nested); !at_end(); skip_space(nested)) {
    const char c = peek();
    if (c != '"' && c != '[' && c != '(' && c != '.' && c != '<' && c != '!' && !is_name(c)) break;
    KVRT_ASSIGN(Part part, item());
    skip_space(nested);
    KVRT_ASSIGN(part, repeated(part));
    whole = builder_.sequence(whole, part);
    KVRT_TRY(builder_.status());
  }
  return whole;
}

Result<Part> GbnfParser::alternatives(bool nested) {
  std::vector<Part> parts;
  for (;;) {
    KVRT_ASSIGN(const Part part, sequence(nested));
    parts.push_back(part);
    if (peek() != '|') break;
    ++at_;
    skip_space(true);
  }
  return builder_.choice(parts);
}

Status GbnfParser::rule() {
  const size_t begin = at_;
  const std::string_view left = name();
  if (left.empty()) return wrong(begin, "expected the name of a rule");
  skip_space(false);
  if (source_.substr(at_, 3) != "::=")
    return wrong(at_, "expected ::= after %.*s", static_cast<int>(std::min<size_t>(left.size(), 64)), left.data());
  at_ += 3;
  const uint32_t rule = rule_of(left, begin);
  KVRT_TRY(builder_.status());
  if (builder_.defined(rule)) return wrong(begin, "a second rule %.*s", static_cast<int>(std::min<size_t>(left.size(), 64)), left.data());
  skip_space(true);
  KVRT_ASSIGN(const Part part, alternatives(false));
  if (!at_end() && peek() != '\n' && peek() != '\r') return wrong(at_, "expected the end of the rule or one of \" [ ( . < ! | name");
  builder_.define(rule, part);
  return builder_.status();
}

Result<uint32_t> GbnfParser::parse() {
  if (source_.size() > kGrammarBytesMax) {
    return error(Code::kLimit, Detail::kGrammarLimit, "grammar: %zu bytes, the limit is %zu", source_.size(), kGrammarBytesMax);
  }
  const size_t bad = find_invalid_utf8(source_);
  if (bad != std::string_view::npos) return wrong(bad, "not valid UTF-8");
  const uint32_t root = rule_of("root", 0);
  for (skip_space(true); !at_end(); skip_space(true)) KVRT_TRY(rule());
  if (!builder_.defined(root)) return wrong(0, "there is no rule root");
  for (const auto& [name, entry] : names_) {
    if (!builder_.defined(entry.rule)) {
      return wrong(entry.first_use, "there is no rule %.*s", static_cast<int>(std::min<size_t>(name.size(), 64)), name.data());
    }
  }
  return root;
}

}  // namespace

Result<uint32_t> add_gbnf(std::string_view source, const GrammarVocab* vocab, GrammarBuilder* builder) {
  return GbnfParser(source, vocab, builder).parse();
}

Result<std::shared_ptr<const Grammar>> Grammar::from_gbnf(std::string_view source, const GrammarVocab* vocab) {
  GrammarBuilder builder("grammar");
  KVRT_TRY(add_gbnf(source, vocab, &builder).take_status());
  KVRT_ASSIGN(auto automaton, builder.build());
  return std::make_shared<const Grammar>(std::move(automaton));
}

}  // namespace kvrt
