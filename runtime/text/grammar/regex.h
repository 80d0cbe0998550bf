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
// Engines differ: \d, \w, \s (ASCII or Unicode), '.' (which line ends), $ (before a last line break or not). So a string is found by
// every engine, by none, or by some.
class Regex {
 public:
  enum class Found { kNone, kSome, kEvery };
  static Result<Regex> parse(std::string_view pattern, const std::string& where);  // `where` begins messages
  static Regex of_texts(const std::vector<std::string>& utf8);                      // exactly those

  // Automata that tell whether it is found, to be run side by side; and what their acceptances, from bit `at` on, say.
  void add_to(std::vector<const CharNfa*>* nfas) const;
  Found found(uint64_t accepted, size_t at) const;
  Found find_in(std::string_view utf8) const;

 private:
  struct Term {  // all must hold
    CharNfa every, some;
    bool negated = false, exact = false;  // exact: every and some are the same
  };
  std::vector<std::shared_ptr<const Term>> terms_;
};

}  // namespace kvrt
