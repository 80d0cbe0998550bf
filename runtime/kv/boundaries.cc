#include "runtime/kv/boundaries.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/kv/kv_cache.h"

namespace kvrt {

namespace {

void insert(uint64_t end, std::vector<uint64_t>* ascending) {
  const auto at = std::ranges::lower_bound(*ascending, end);
  if (at == ascending->end() || *at != end) ascending->insert(at, end);
}

}  // namespace

Boundaries::Boundaries(KvCache* cache)
    : cache_(*cache),
      shape_(cache->shape_),
      pool_(cache->pool_),
      index_(cache->index_),
      first_window_(shape_.first_window()),
      units_max_(shape_.boundaries_units(pool_.size())) {}

// The last of the first `end` block ends whose windows are resident, if it is past that position. 0: none is.
uint32_t Boundaries::last_resident(const KvSequence& sequence, uint32_t end, uint64_t past) const {
  const uint32_t T = shape_.block_tokens;
  const auto resident = [&](uint32_t g, uint32_t i) {
    return sequence.tables[g].filled(i) == T || !PrefixIndex::lookup(sequence.chain[i], g).is_hole();
  };
  for (; uint64_t{end} * T > past; --end) {
    bool whole = true;
    for (uint32_t g = first_window_; whole && g < shape_.n_groups; ++g) {
      const uint32_t begin = shape_.window_begin(g, end - 1);
      for (uint32_t i = end; whole && i > begin; --i) whole = resident(g, i - 1);
    }
    if (whole) return end;
  }
  return 0;
}

bool Boundaries::adopt(KvSequence* sequence, uint64_t n) {
  const uint32_t T = shape_.block_tokens;
  const auto& chain = sequence->chain;
  if (chain.empty()) return false;
  const KvRun next = sequence->next_run(n);  // of all tokens: past the full blocks it may go on with less of the windows than before them
  if (next.stores == 0 || chain.size() * T <= next.begin) return false;
  // Not past the first hole of a group that keeps everything: rows there need it. Where there are states the last row runs once more.
  const uint64_t last = std::min<uint64_t>(chain.size() * T, shape_.has_states() ? n - 1 : n);
  const auto known = static_cast<uint32_t>(sequence->without_window(last) / T);
  if (first_window_ > 0 && uint64_t{known} * T > next.begin) mark(sequence, uint64_t{known} * T);
  const uint32_t end = last_resident(*sequence, known, next.begin);
  if (end == 0) return false;
  for (uint32_t g = first_window_; g < shape_.n_groups; ++g) {
    for (uint32_t i = shape_.window_begin(g, end - 1); i < end; ++i) {
      if (sequence->tables[g].filled(i) < T) cache_.take(sequence, g, i, PrefixIndex::lookup(chain[i], g).block(), T);
    }
  }
  for (const uint64_t mark : sequence->marks) {
    if (mark > next.begin && mark <= uint64_t{end} * T) keep(sequence, mark);  // its last block is not computed, so not sealed
  }
  roll(sequence, n, uint64_t{end} * T);
  return true;
}

void Boundaries::mark(KvSequence* sequence, uint64_t tokens) {
  const uint64_t end = block_end(tokens);
  if (first_window_ == shape_.n_groups || !sequence->share || end == 0) return;
  insert(end, &sequence->marks);
  std::erase(sequence->due, end);
  keep(sequence, end);
}

void Boundaries::mark_due(KvSequence* sequence, uint64_t tokens) {
  const uint64_t end = block_end(tokens);
  if (!std::ranges::binary_search(sequence->marks, end)) insert(end, &sequence->due);
  insert(end, &sequence->marks);
  keep(sequence, end);
}

void Boundaries::mark_asked(KvSequence* sequence, uint64_t tokens) {
  const uint64_t end = block_end(tokens);
  if (!shape_.has_windows() || !sequence->share || end == 0) return;
  insert(end, &sequence->asked);
  mark(sequence, end);
}

void Boundaries::mark_end(KvSequence* sequence, std::span<const int32_t> tokens) {
  if (!shape_.has_states() || first_window_ + 1 < shape_.n_groups || !sequence->share) return;
  const uint64_t T = shape_.block_tokens, at = sequence->computed(tokens.size()), first = at / T * T;
  const BlockId state = sequence->tables[first_window_].block(static_cast<uint32_t>(at / T));
  if (at == first || state == kNoBlock) return;  // the end of a block is marked as any
  auto& ends = sequence->ends;
  std::erase_if(ends, [&](const KvSequence::End& end) { return end.at >= at || PrefixIndex::lookup(end.link, first_window_).is_hole(); });
  ends.reserve(ends.size() + 1);
  cache_.extend(sequence, tokens);
  ChainRef link = index_.link(first ? sequence->chain[first / T - 1] : nullptr, sequence->root, tokens.subspan(first, at - first));
  if (!index_.contains(state) && index_.insert(state, link, first_window_)) {
    link->boundary = true;
    link->kept[first_window_] = 1;
  }
  ends.push_back({at, std::move(link)});
}

// Takes the state at the last such end within the first `tokens` tokens, if the sequence has all other KV there and no later state.
void Boundaries::back_to_end(KvSequence* sequence, uint64_t tokens) {
  auto& ends = sequence->ends;
  std::erase_if(ends, [&](const KvSequence::End& end) { return end.at > tokens; });
  for (; !ends.empty(); ends.pop_back()) {
    const uint64_t at = ends.back().at;
    const Place state = PrefixIndex::lookup(ends.back().link, first_window_);
    if (state.is_hole()) continue;
    if (!sequence->adopts() || sequence->without_window(tokens) < at || sequence->restart(tokens) >= at) return;
    const auto i = static_cast<uint32_t>(at / shape_.block_tokens), filled = static_cast<uint32_t>(at % shape_.block_tokens);
    return cache_.take(sequence, first_window_, i, state.block(), filled);
  }
}

// Calls fn(link, group) for each link of the windows that end with this one.
template <typename Fn>
void Boundaries::each_of_windows(const ChainRef& last, Fn fn) const {
  for (uint32_t g = first_window_; g < shape_.n_groups; ++g) {
    const uint64_t links = (uint64_t{shape_.groups[g].window} + shape_.block_tokens - 1) / shape_.block_tokens;
    ChainRef link = last;
    for (uint64_t n = 0; n < links && link; ++n, link = link->before) fn(link, g);
  }
}

void Boundaries::keep(KvSequence* sequence, uint64_t end) {
  const auto& chain = sequence->chain;
  if (end == 0 || end / shape_.block_tokens > chain.size()) return;
  const auto last = static_cast<uint32_t>(end / shape_.block_tokens - 1);
  const bool due = std::ranges::binary_search(sequence->due, end);
  if (chain[last]->boundary) {
    if (!due && chain[last]->due) chain[last]->due = false, --due_;
    return;
  }
  bool whole = true;
  for (uint32_t g = 0; g < first_window_; ++g) whole &= !PrefixIndex::lookup(chain[last], g).is_hole();
  each_of_windows(chain[last], [&](const ChainRef& link, uint32_t g) { whole &= !PrefixIndex::lookup(link, g).is_hole(); });
  if (!whole) return;
  chain[last]->boundary = true;
  chain[last]->due = due;
  due_ += due;
  each_of_windows(chain[last], [](const ChainRef& link, uint32_t g) { ++link->kept[g]; });
  const BlockId block = chain[last]->places[first_window_].block();
  if (block == kNoBlock || !pool_.cached(block)) return;
  pool_.ref(block);  // it went along with another boundary
  cache_.drop(block);
}

// Drops the blocks of groups with windows but those of which keeps(group, first position, end) is true. False: there were none.
template <typename Fn>
bool Boundaries::give_up_windows(KvSequence* sequence, Fn keeps) {
  const uint64_t T = shape_.block_tokens;
  bool any = false;
  for (uint32_t g = first_window_; g < shape_.n_groups; ++g) {
    BlockTable& table = sequence->tables[g];
    for (uint32_t i = table.first(); i < table.size(); ++i) {
      if (table.block(i) == kNoBlock || keeps(shape_.groups[g], i * T, (i + 1) * T)) continue;
      cache_.drop(table.block(i));
      table.lose(i, Hole::kBehindWindow);
      any = true;
    }
  }
  return any;
}

void Boundaries::roll(KvSequence* sequence, uint64_t n, uint64_t at) {
  give_up_windows(sequence, [&](const KvShape::Group& group, uint64_t first, uint64_t end) {
    const uint64_t window = group.window;
    const bool before = first < at && (group.state ? at <= end : end + window > at);
    return before || (!group.state && end + 2 * window > n);
  });
}

bool Boundaries::shed(KvSequence* sequence, const KvRun& run) {
  return give_up_windows(sequence, [&](const KvShape::Group& group, uint64_t first, uint64_t end) {
    if (group.state) return run.begin <= end;  // before the run, or the place for the one after it
    return first < run.end && end + group.window > run.begin;
  });
}

// The boundary that was used least recently, of those that are only due where there are such. One whose last block is held is in no LRU: any
// such is given up last.
bool Boundaries::give_up_oldest() {
  BlockId oldest = pool_.oldest(Keep::kCachedWindow);
  for (BlockId block = oldest; due_ > 0 && block != kNoBlock; block = pool_.newer(block)) {
    if (!index_.find(block)->link->due) continue;
    oldest = block;
    break;
  }
  ChainRef boundary =
      oldest != kNoBlock ? index_.find(oldest)->link : index_.find_link([&](const ChainRef& link) { return has_cached_window(link); });
  if (!boundary) return false;
  give_up(std::move(boundary));
  return true;
}

// A boundary whose last block is held is in no LRU.
bool Boundaries::has_cached_window(const ChainRef& boundary) const {
  bool found = false;
  if (!boundary->boundary) return false;
  each_of_windows(boundary,
                  [&](const ChainRef& link, uint32_t g) { found |= !link->places[g].is_hole() && pool_.cached(link->places[g].block()); });
  return found;
}

// Gives up a boundary: its windows, and the KV that these alone made usable.
void Boundaries::give_up(ChainRef boundary) {
  forget(boundary);
  forget_past(std::move(boundary));
}

void Boundaries::forget(const ChainRef& boundary) {
  KVRT_CHECK(boundary->boundary);
  boundary->boundary = false;
  due_ -= boundary->due;
  boundary->due = false;
  each_of_windows(boundary, [&](const ChainRef& link, uint32_t g) {
    const BlockId block = link->places[g].block();
    --link->kept[g];
    if (block == kNoBlock || !pool_.cached(block) || (link->boundary && g == first_window_)) return;
    pool_.ref(block);
    cache_.evictions_ += link->kept[g] == 0;
    cache_.drop(block);  // as what it is kept for now
  });
}

// Cached blocks of groups that keep everything, from the link back to a boundary, or to one after which others go on.
void Boundaries::forget_past(ChainRef link) {
  for (; first_window_ > 0 && link && !link->boundary && !index_.has_child(*link); link = link->before) {
    for (uint32_t g = 0; g < first_window_; ++g) {
      const BlockId block = link->places[g].block();
      if (block == kNoBlock) continue;
      if (pool_.refs(block) > 0) return;
      ++cache_.evictions_;
      index_.erase(block);
      pool_.evict(block);
    }
  }
}

}  // namespace kvrt
