// The insides of regex.cc.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar/char_nfa.h"

namespace kvrt {

// What a class or an escape reads: by every engine's reading, and by some engine's.
struct Chars {
  CodePointSet every, some;
  Chars(const CodePointSet& both) : every(both), some(both) {}
  Chars(CodePointSet e, CodePointSet s) : every(std::move(e)), some(std::move(s)) {}
  Chars complement() const { return {some.complement(), every.complement()}; }
};

// Reads a pattern once, by one of the two readings.
class RegexParser {
 public:
  struct Around {
    CharNfa nfa;
    bool negated;
  };
  // `anchored`: as if ^ began each of its alternatives.
  RegexParser(std::string_view pattern, const std::string& where, bool some, bool anchored)
      : pattern_(pattern), where_(where), some_(some), anchored_(anchored) {}
  Status parse();
  CharNfa take() { return std::move(nfa_); }
  std::vector<Around>& around() { return around_; }
  bool engines_differ() const { return engines_differ_; }

 private:
  Status wrong(const char* what) const {
    return error(Code::kInvalid, Detail::kGrammarError, "%s: %s at byte %zu of the pattern", where_.c_str(), what, at_);
  }
  Status unsupported(const char* what) const {
    return error(Code::kUnsupported, Detail::kNone, "%s: %s at byte %zu of the pattern is not supported", where_.c_str(), what, at_);
  }
  Status limit() const {
    if (!nfa_.too_large()) return Status::ok();
    return error(Code::kLimit, Detail::kGrammarLimit, "%s: a pattern of more than %u states", where_.c_str(), kPatternNodesMax);
  }
  bool at_end() const { return at_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool next_is(std::string_view text) const { return pattern_.substr(std::min(at_, pattern_.size())).starts_with(text); }
  using Part = CharNfa::Part;
  Part characters(const Chars& chars);
  Part end_of_text();
  Result<Part> alternatives();
  Result<Part> sequence();
  Result<Part> atom();
  Result<Part> group();
  Result<Part> quantified(Part part);
  Result<bool> bounds(uint32_t* min, uint32_t* max);
  Result<Chars> char_class();
  Result<Chars> escape(bool in_class);
  Result<char32_t> escaped(char c);
  Result<char32_t> hex(size_t digits);
  Status look_around(bool behind);

  CharNfa nfa_;
  std::string_view pattern_;
  const std::string& where_;
  bool some_, anchored_;
  bool engines_differ_ = false;
  std::vector<Around> around_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
};

}  // namespace kvrt
