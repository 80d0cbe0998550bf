#include "runtime/text/grammar/regex.h"

#include <algorithm>
#include <utility>

#include "runtime/base/limits.h"
#include "runtime/text/grammar/regex_parser.h"

namespace kvrt {

Result<Regex> Regex::parse(std::string_view pattern, const std::string& where, bool anchored) {
  RegexParser every(pattern, where, false, anchored), some(pattern, where, true, false);
  KVRT_TRY(every.parse());
  KVRT_TRY(some.parse());
  Regex out;
  out.source_ = pattern;
  auto add = [&](CharNfa e, CharNfa s, bool negated) {
    auto term = std::make_shared<Term>();
    *term = {std::move(e), std::move(s), negated, !every.engines_differ() && !anchored};
    out.terms_.push_back(std::move(term));
  };
  add(every.take(), some.take(), false);
  for (size_t i = 0; i < every.around().size(); ++i) {
    add(std::move(every.around()[i].nfa), std::move(some.around()[i].nfa), every.around()[i].negated);
  }
  return out;
}

Result<Regex> Regex::anchored() const { return parse(source_, "schema", true); }

Result<Regex> Regex::of_texts(const std::vector<std::string>& utf8, const std::string& where) {
  auto term = std::make_shared<Term>();
  std::vector<CharNfa::Part> parts;
  for (const std::string& text : utf8) parts.push_back(term->every.literal(text));
  term->every.finish(term->every.choice(parts));
  if (term->every.too_large())
    return error(Code::kLimit, Detail::kGrammarLimit, "%s: constants or names of more than %u characters", where.c_str(), kPatternNodesMax);
  term->exact = true;
  Regex out;
  out.terms_.push_back(std::move(term));
  return out;
}

void Regex::add_to(Ask ask, std::vector<const CharNfa*>* nfas) const {
  for (const auto& term : terms_) {
    // That `every` accepts shows that a pattern is found, that `some` does not, that it is not found.
    const bool every = ask == Ask::kBoth || (ask == Ask::kEvery) != term->negated;
    if (every || term->exact) nfas->push_back(&term->every);
    if (!term->exact && (ask == Ask::kBoth || !every)) nfas->push_back(&term->some);
  }
}

Regex::Found Regex::found(Ask ask, uint64_t accepted, size_t at) const {
  Found all = Found::kEvery;
  for (const auto& term : terms_) {
    const bool first = (accepted >> at++) & 1;
    bool yes = first, no = !first;  // of the term's pattern
    if (!term->exact && ask == Ask::kBoth) {
      no = !((accepted >> at++) & 1);
    } else if (!term->exact) {
      ((ask == Ask::kEvery) != term->negated ? no : yes) = false;
    }
    if (term->negated) std::swap(yes, no);
    all = std::min(all, no ? Found::kNone : yes ? Found::kEvery : Found::kSome);
  }
  return all;
}

Regex::Found Regex::find_in(std::string_view utf8, uint64_t* steps) const {
  std::vector<const CharNfa*> nfas;
  add_to(Ask::kBoth, &nfas);
  uint64_t accepted = 0;
  for (size_t i = 0; i < nfas.size(); ++i) accepted |= uint64_t{nfas[i]->accepts(utf8, steps)} << i;
  return found(Ask::kBoth, accepted, 0);
}

}  // namespace kvrt
