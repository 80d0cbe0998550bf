// Regular expressions of JSON schema's `pattern`, as automata over characters.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/grammar/char_nfa.h"

namespace kvrt {

// The strings in which a pattern is found (it is not anchored unless it says so). The regular part of ECMA-262: literals, escapes, classes,
// '.', groups, |, quantifiers, ^, $; look-ahead behind the ^ that begins the pattern and look-behind before the $ that ends it. Other
// look-around, back references, \b, \p are UNSUPPORTED by name; a malformed pattern is INVALID, one too large LIMIT.
//
// Engines differ: \d, \w, \s (ASCII or Unicode), '.' (which line ends), $ (before a last line break or not). So a pattern is found in a
// string by every engine, by none, or by some. A repetition of a long piece counts up to 128 or more; beyond it is found by some.
class Regex {
 public:
  enum class Found { kNone, kSome, kEvery };
  // `where` begins messages. `anchored`: only at the string's beginning it is found by every engine.
  static Result<Regex> parse(std::string_view pattern, const std::string& where, bool anchored = false);
  const std::string& source() const { return source_; }
  bool is_anchored() const { return source_.empty() || source_[0] == '^'; }
  Result<Regex> anchored() const;
  static Result<Regex> of_texts(const std::vector<std::string>& utf8, const std::string& where);  // exactly those

  // Automata that tell whether it is found, to be run side by side, and what their acceptances, from bit `at` on, say. To ask whether every
  // engine finds it, or whether none does, takes half of them; the answer is kSome where it is not so.
  enum class Ask { kEvery, kNone, kBoth };
  void add_to(Ask ask, std::vector<const CharNfa*>* nfas) const;
  Found found(Ask ask, uint64_t accepted, size_t at) const;
  Found find_in(std::string_view utf8, uint64_t* steps) const;  // steps: CharNfa::accepts

 private:
  struct Term {  // all must hold
    CharNfa every, some;
    bool negated = false, exact = false;  // exact: every and some are the same
  };
  std::vector<std::shared_ptr<const Term>> terms_;
  std::string source_;  // of a pattern
};

}  // namespace kvrt
