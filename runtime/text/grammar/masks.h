// GrammarMasks keeps books: of the states that some answer met, and of their masks. All matchers of a grammar read a book and add to it.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/grammar_states.h"
#include "runtime/text/grammar/vocab.h"

namespace kvrt {

// It is thread-safe. States and masks live as long as the book.
class GrammarBook {
 public:
  using State = GrammarStates::State;
  struct At {
    State state;
    bool limited;  // a limit left readings out on the way
  };
  struct Mask {
    std::span<const uint64_t> bits;
    bool limited;  // a limit left tokens out
  };

  GrammarBook(const Grammar& grammar, const GrammarVocab& vocab);
  At begin();
  Mask mask(State state);
  // The state after the token; kDead: it is not allowed. An end token that only ends the answer leaves the state as it is.
  At accept(State state, int32_t token);
  bool may_end(State state);
  bool complete(State state);
  // The book should not grow any more: it has its full size, or an exception left it half-way.
  bool spent();
  size_t bytes();
  // Takes over a state of another book, which may be spent.
  State take_over(GrammarBook* from, State state);

 private:
  class Turn;
  void walk(const TokenTrie& trie, State from, uint32_t plain_run, std::vector<uint64_t>* mask) KVRT_REQUIRES(mu_);
  uint64_t kinds_away(State state) KVRT_REQUIRES(mu_);
  void add_tokens(State state, std::vector<uint64_t>* mask) KVRT_REQUIRES(mu_);
  bool make_mask(State state, std::vector<uint64_t>* mask) KVRT_REQUIRES(mu_);
  uint32_t keep(std::vector<uint64_t> mask) KVRT_REQUIRES(mu_);
  size_t size() const KVRT_REQUIRES(mu_);

  const Grammar& grammar_;
  const GrammarVocab::Impl& vocab_;
  Mutex mu_;
  GrammarStates states_ KVRT_GUARDED_BY(mu_);
  static constexpr uint32_t kNotMade = UINT32_MAX;
  struct MaskOf {
    uint32_t mask = kNotMade;
    bool limited = false;
  };
  std::vector<MaskOf> mask_of_ KVRT_GUARDED_BY(mu_);               // by state
  std::vector<std::vector<uint64_t>> masks_ KVRT_GUARDED_BY(mu_);  // each mask once: many states have the same
  std::unordered_multimap<uint64_t, uint32_t> by_hash_ KVRT_GUARDED_BY(mu_);
  std::vector<State> path_ KVRT_GUARDED_BY(mu_);                       // a walk's states, by depth
  std::vector<std::pair<State, uint64_t>> away_ KVRT_GUARDED_BY(mu_);  // what the walk knows of kinds_away
  uint64_t steps_ KVRT_GUARDED_BY(mu_) = 0;
  bool curtailed_ KVRT_GUARDED_BY(mu_) = false;  // the walk met a limit of the states
  bool limited_ KVRT_GUARDED_BY(mu_) = false;    // the walk met a limit of its own, or no token is left
  bool half_way_ KVRT_GUARDED_BY(mu_) = false;
};

struct GrammarMasks::Impl {
  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<const GrammarVocab> vocab;
  Mutex mu;
  std::shared_ptr<GrammarBook> book KVRT_GUARDED_BY(mu);

  // The book to go on with instead of `spent`, which is null at the beginning.
  std::shared_ptr<GrammarBook> current(const GrammarBook* spent);
};

}  // namespace kvrt
