#include "runtime/text/grammar/grammar.h"

#include "runtime/base/limits.h"
#include "runtime/text/grammar/masks.h"

namespace kvrt {

Grammar::Grammar(std::unique_ptr<const Automaton> automaton) : automaton_(std::move(automaton)) {}
Grammar::~Grammar() = default;

struct GrammarMatcher::Impl {
  explicit Impl(std::shared_ptr<GrammarMasks> m) : masks(std::move(m)), book(masks->impl().current(nullptr)) {
    const GrammarBook::At at = book->begin();
    state = at.state;
    limited = at.limited;
  }
  // A book that has its size is left for a new one.
  void make_room() {
    if (!book->spent()) return;
    std::shared_ptr<GrammarBook> next = masks->impl().current(book.get());
    state = next->take_over(book.get(), state);
    book = std::move(next);
  }

  std::shared_ptr<GrammarMasks> masks;
  std::shared_ptr<GrammarBook> book;
  GrammarBook::State state;
  bool limited;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<GrammarMasks> masks) : impl_(std::make_unique<Impl>(std::move(masks))) {}
GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab)
    : GrammarMatcher(GrammarMasks::make(std::move(grammar), std::move(vocab))) {}
GrammarMatcher::GrammarMatcher(const GrammarMatcher& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
GrammarMatcher::~GrammarMatcher() = default;

std::span<const uint64_t> GrammarMatcher::mask() {
  impl_->make_room();
  const GrammarBook::Mask mask = impl_->book->mask(impl_->state);
  impl_->limited |= mask.limited;
  return mask.bits;
}

bool GrammarMatcher::accept(int32_t token) {
  impl_->make_room();
  const GrammarBook::At at = impl_->book->accept(impl_->state, token);
  impl_->limited |= at.limited;
  if (at.state == GrammarStates::kDead) return false;
  impl_->state = at.state;
  return true;
}

bool GrammarMatcher::may_end() const { return impl_->book->may_end(impl_->state); }
bool GrammarMatcher::complete() const { return impl_->book->complete(impl_->state); }

Status GrammarMatcher::status() const {
  if (!impl_->limited) return Status::ok();
  return error(Code::kLimit, Detail::kGrammarLimit,
               "grammar: too ambiguous or too deep at this text: more than %u readings or %u rules within rules "
               "(kGrammarStackMax)",
               kGrammarConfigsMax, kGrammarStackMax);
}

}  // namespace kvrt
