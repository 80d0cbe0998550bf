#include "runtime/text/grammar/grammar.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/text/grammar/states.h"
#include "runtime/text/grammar/vocab.h"

namespace kvrt {

Grammar::Grammar(std::unique_ptr<const Automaton> automaton) : automaton_(std::move(automaton)) {}
Grammar::~Grammar() = default;

struct GrammarMatcher::Impl {
  using State = GrammarStates::State;

  Impl(std::shared_ptr<const Grammar> g, std::shared_ptr<const GrammarVocab> v)
      : grammar(std::move(g)), vocab(std::move(v)), states(grammar->automaton()) {
    state = states.begin();
    limited = states.curtailed(state);
  }

  void walk(const TokenTrie& trie, uint32_t plain_run, std::vector<uint64_t>* mask);
  void add_tokens(std::vector<uint64_t>* mask);
  void make_mask(std::vector<uint64_t>* mask);
  void make_room();

  std::shared_ptr<const Grammar> grammar;
  std::shared_ptr<const GrammarVocab> vocab;
  GrammarStates states;
  State state;
  bool limited = false;
  std::vector<int32_t> mask_of;  // by state: which of the masks, or -1
  std::vector<std::vector<uint64_t>> masks;
  std::vector<State> path;  // the walk's states, by depth
  uint64_t steps = 0;
  bool curtailed = false;  // the walk met a limit
};

// Sets the tokens that can be read from here; `plain_run` characters of plain text are known to be.
void GrammarMatcher::Impl::walk(const TokenTrie& trie, uint32_t plain_run, std::vector<uint64_t>* mask) {
  path.resize(trie.depth_max + 1);
  path[0] = state;
  const auto count = static_cast<uint32_t>(trie.nodes.size());
  for (uint32_t i = 0; i < count;) {
    const TokenTrie::Node& node = trie.nodes[i];
    if (node.longest != 0 && node.longest <= plain_run) {
      i = node.next;
      continue;
    }
    const State to = states.step(path[node.depth - 1u], node.byte);
    if (states.first_of_walk(path[node.depth - 1u], node.byte)) steps += 1 + states.readings(to);
    curtailed = curtailed || states.curtailed(to);
    if (states.dead(to)) {
      i = node.next;
      continue;
    }
    if (steps > kGrammarMaskStepsMax || states.bytes() > 4 * kGrammarCacheBytesMax) {
      limited = true;
      return;
    }
    path[node.depth] = to;
    for (int32_t token = node.token; token >= 0; token = vocab->impl().twin[static_cast<size_t>(token)]) {
      (*mask)[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    }
    ++i;
  }
}

// Adds the tokens that may come as tokens.
void GrammarMatcher::Impl::add_tokens(std::vector<uint64_t>* mask) {
  std::optional<std::vector<int32_t>> but;  // the tokens that no set of others has
  auto bit = [](int32_t id) { return uint64_t{1} << (id % 64); };
  states.for_each_token_set(state, [&](const TokenSet& set) {
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
  std::vector<uint64_t> others = vocab->impl().ordinary_mask;
  for (int32_t id : *but) others[static_cast<size_t>(id) / 64] &= ~bit(id);
  for (size_t i = 0; i < mask->size(); ++i) (*mask)[i] |= others[i];
}

void GrammarMatcher::Impl::make_mask(std::vector<uint64_t>* mask) {
  const GrammarVocab::Impl& v = vocab->impl();
  const uint32_t run = states.plain_run(state);
  *mask = v.plain_masks[run];  // [0] is empty
  states.begin_walk();
  steps = 0;
  curtailed = false;
  if (run < kPlainRunMax) walk(v.plain, run, mask);
  walk(v.other, 0, mask);
  for (size_t i = 0; i < mask->size() && states.may_end(state); ++i) (*mask)[i] |= v.end_mask[i];
  add_tokens(mask);
  if (curtailed && std::all_of(mask->begin(), mask->end(), [](uint64_t word) { return word == 0; })) limited = true;
}

void GrammarMatcher::Impl::make_room() {
  if (states.bytes() + masks.size() * vocab->impl().words() * sizeof(uint64_t) <= kGrammarCacheBytesMax) return;
  state = states.reset(state);
  mask_of.clear();
  masks.clear();
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab)
    : impl_(std::make_unique<Impl>(std::move(grammar), std::move(vocab))) {}
GrammarMatcher::~GrammarMatcher() = default;

std::span<const uint64_t> GrammarMatcher::mask() {
  Impl& m = *impl_;
  m.make_room();
  if (m.mask_of.size() <= m.state) m.mask_of.resize(m.state + 1, -1);
  if (m.mask_of[m.state] < 0) {
    m.mask_of[m.state] = static_cast<int32_t>(m.masks.size());
    m.make_mask(&m.masks.emplace_back());
  }
  return m.masks[static_cast<size_t>(m.mask_of[m.state])];
}

bool GrammarMatcher::accept(int32_t token) {
  Impl& m = *impl_;
  const GrammarVocab::Impl& v = m.vocab->impl();
  if (token < 0 || static_cast<uint32_t>(token) >= v.tokens) return false;
  const std::string_view text = v.text(token);
  m.make_room();
  GrammarStates::State at = text.empty() ? GrammarStates::kDead : m.state;
  for (size_t i = 0; i < text.size() && !m.states.dead(at); ++i) {
    at = m.states.step(at, static_cast<uint8_t>(text[i]));
    m.limited = m.limited || m.states.curtailed(at);
  }
  if (!m.grammar->automaton().token_sets.empty()) {
    at = m.states.step_token(m.state, m.states.dead(at) ? GrammarStates::kDead : at, token, v.has(v.ordinary_mask, token));
    m.limited = m.limited || m.states.curtailed(at);
  }
  if (m.states.dead(at)) return v.is_end(token) && may_end();
  m.state = at;
  return true;
}

bool GrammarMatcher::may_end() const { return impl_->states.may_end(impl_->state); }
bool GrammarMatcher::complete() const { return impl_->states.complete(impl_->state); }

Status GrammarMatcher::status() const {
  if (!impl_->limited) return Status::ok();
  return error(Code::kLimit, Detail::kGrammarLimit,
               "grammar: too ambiguous or too deep at this text: more than %u readings or %u rules within rules "
               "(kGrammarStackMax)",
               kGrammarConfigsMax, kGrammarStackMax);
}

}  // namespace kvrt
