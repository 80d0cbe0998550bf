#include "runtime/text/grammar/masks.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "runtime/base/limits.h"

namespace kvrt {

// A turn that adds to the book. One that an exception ends leaves it half-way: its states may be read, and no more.
class KVRT_THREAD_SAFETY(scoped_lockable) GrammarBook::Turn {
 public:
  explicit Turn(GrammarBook* book) KVRT_THREAD_SAFETY(acquire_capability(book->mu_)) : book_(*book), before_(0) {
    book_.mu_.lock();
    before_ = book_.half_way_;
    book_.half_way_ = true;
  }
  ~Turn() KVRT_THREAD_SAFETY(release_capability()) { book_.mu_.unlock(); }
  void done() KVRT_NO_THREAD_SAFETY_ANALYSIS { book_.half_way_ = before_; }  // held since the begin

 private:
  GrammarBook& book_;
  bool before_;
};

GrammarBook::GrammarBook(const Grammar& grammar, const GrammarVocab& vocab)
    : grammar_(grammar), vocab_(vocab.impl()), states_(grammar.automaton()) {}

GrammarBook::At GrammarBook::begin() {
  Turn turn(this);
  const State state = states_.begin();
  turn.done();
  return {state, states_.curtailed(state)};
}

// Sets the tokens that can be read from here; `plain_run` characters of plain text are known to be.
void GrammarBook::walk(const TokenTrie& trie, State from, uint32_t plain_run, std::vector<uint64_t>* mask) {
  constexpr uint32_t kSubtrie = 16;  // nodes that are worth a look whether all can be taken at once
  path_.resize(trie.depth_max + 1);
  path_[0] = from;
  const TokenTrie::Node* nodes = trie.nodes.data();
  const auto count = static_cast<uint32_t>(trie.nodes.size() - 1);
  for (uint32_t i = 0; i < count;) {
    const TokenTrie::Node& node = nodes[i];
    if (node.longest != 0 && node.longest <= plain_run) {
      i = node.next;
      continue;
    }
    const State at = path_[node.depth - 1u];
    const auto [to, first] = states_.walk_step(at, node.byte);
    if (first) {
      steps_ += 1 + states_.readings(to);
      curtailed_ = curtailed_ || states_.curtailed(to);
      limited_ = steps_ > kGrammarMaskStepsMax || states_.walked_bytes() > 3 * kGrammarCacheBytesMax;
      if (limited_) return;
    }
    if (states_.dead(to)) {
      i = node.next;
      continue;
    }
    const bool all = to == at && node.next - i > kSubtrie && (trie.below[i] & kinds_away(to)) == 0;
    path_[node.depth] = to;
    i = all ? node.next : i + 1;
    for (uint32_t t = node.first; t < nodes[i].first; ++t) {
      const auto token = static_cast<size_t>(trie.tokens[t]);
      (*mask)[token / 64] |= uint64_t{1} << (token % 64);
    }
  }
}

uint64_t GrammarBook::kinds_away(State state) {
  for (const auto& [known, kinds] : away_) {
    if (known == state) return kinds;
  }
  return away_.emplace_back(state, states_.kinds_away(state)).second;
}

// Adds the tokens that may come as tokens.
void GrammarBook::add_tokens(State state, std::vector<uint64_t>* mask) {
  std::optional<std::vector<int32_t>> but;  // the tokens that no set of others has
  auto bit = [](int32_t id) { return uint64_t{1} << (id % 64); };
  states_.for_each_token_set(state, [&](const TokenSet& set) {
    if (set.others && but) {
      std::vector<int32_t> both;
      std::ranges::set_intersection(*but, set.ids, std::back_inserter(both));
      but = std::move(both);
    } else if (set.others) {
      but = set.ids;
    } else {
      for (int32_t id : set.ids) (*mask)[static_cast<size_t>(id) / 64] |= bit(id);
    }
  });
  if (!but) return;
  std::vector<uint64_t> others = vocab_.ordinary_mask;
  for (int32_t id : *but) others[static_cast<size_t>(id) / 64] &= ~bit(id);
  for (size_t i = 0; i < mask->size(); ++i) (*mask)[i] |= others[i];
}

// True: a limit left tokens out.
bool GrammarBook::make_mask(State state, std::vector<uint64_t>* mask) {
  const uint32_t run = states_.plain_run(state);
  *mask = vocab_.plain_masks[run];  // [0] is empty
  states_.begin_walk();
  away_.clear();
  steps_ = 0;
  curtailed_ = limited_ = false;
  if (run < kPlainRunMax) walk(vocab_.plain, state, run, mask);
  walk(vocab_.other, state, 0, mask);
  for (size_t i = 0; i < mask->size() && states_.may_end(state); ++i) (*mask)[i] |= vocab_.end_mask[i];
  add_tokens(state, mask);
  return limited_ || (curtailed_ && std::ranges::all_of(*mask, [](uint64_t word) { return word == 0; }));
}

uint32_t GrammarBook::keep(std::vector<uint64_t> mask) {
  const uint64_t hash = std::hash<std::string_view>()({reinterpret_cast<const char*>(mask.data()), mask.size() * sizeof(uint64_t)});
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto same = first; same != last; ++same) {
    if (masks_[same->second] == mask) return same->second;
  }
  masks_.push_back(std::move(mask));
  return by_hash_.emplace(hash, static_cast<uint32_t>(masks_.size() - 1))->second;
}

GrammarBook::Mask GrammarBook::mask(State state) {
  Turn turn(this);
  if (mask_of_.size() <= state) mask_of_.resize(state + 1);
  if (mask_of_[state].mask == kNotMade) {
    std::vector<uint64_t> bits;
    const bool limited = make_mask(state, &bits);
    mask_of_[state] = {keep(std::move(bits)), limited};
  }
  turn.done();
  return {masks_[mask_of_[state].mask], mask_of_[state].limited};
}

GrammarBook::At GrammarBook::accept(State state, int32_t token) {
  if (token < 0 || static_cast<uint32_t>(token) >= vocab_.tokens) return {GrammarStates::kDead, false};
  const std::string_view text = vocab_.text(token);
  Turn turn(this);
  At at{text.empty() ? GrammarStates::kDead : state, false};
  for (size_t i = 0; i < text.size() && !states_.dead(at.state); ++i) {
    at.state = states_.step(at.state, static_cast<uint8_t>(text[i]));
    at.limited = at.limited || states_.curtailed(at.state);
  }
  if (!grammar_.automaton().token_sets.empty()) {
    const bool ordinary = vocab_.has(vocab_.ordinary_mask, token);
    at.state = states_.step_token(state, states_.dead(at.state) ? GrammarStates::kDead : at.state, token, ordinary);
    at.limited = at.limited || states_.curtailed(at.state);
  }
  if (states_.dead(at.state)) at.state = vocab_.is_end(token) && states_.may_end(state) ? state : GrammarStates::kDead;
  turn.done();
  return at;
}

bool GrammarBook::may_end(State state) {
  Lock lock(mu_);
  return states_.may_end(state);
}

bool GrammarBook::complete(State state) {
  Lock lock(mu_);
  return states_.complete(state);
}

size_t GrammarBook::size() const { return states_.bytes() + masks_.size() * vocab_.words() * sizeof(uint64_t); }

bool GrammarBook::spent() {
  Lock lock(mu_);
  return half_way_ || size() > kGrammarCacheBytesMax;
}

size_t GrammarBook::bytes() {
  Lock lock(mu_);
  return size();
}

GrammarBook::State GrammarBook::take_over(GrammarBook* from, State state) {
  GrammarStates::Copy copy;
  {
    Lock lock(from->mu_);
    copy = from->states_.copy(state);
  }
  Turn turn(this);
  const State taken = states_.add(copy);
  turn.done();
  return taken;
}

std::shared_ptr<GrammarMasks> GrammarMasks::make(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab) {
  auto impl = std::make_unique<Impl>();
  impl->grammar = std::move(grammar);
  impl->vocab = std::move(vocab);
  return std::make_shared<GrammarMasks>(std::move(impl));
}

GrammarMasks::GrammarMasks(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrammarMasks::~GrammarMasks() = default;

std::shared_ptr<GrammarBook> GrammarMasks::Impl::current(const GrammarBook* spent) {
  Lock lock(mu);
  if (!book || book.get() == spent || book->spent()) book = std::make_shared<GrammarBook>(*grammar, *vocab);
  return book;
}

size_t GrammarMasks::bytes() const {
  std::shared_ptr<GrammarBook> book;
  {
    Lock lock(impl_->mu);
    book = impl_->book;
  }
  const Automaton& a = impl_->grammar->automaton();
  return a.bytes() + (book ? book->bytes() : 0);
}

}  // namespace kvrt
