#include "runtime/kv/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"

namespace kvrt {

namespace {

// Beside KV that is kept for ever, windows at boundaries may take a quarter of the pool; and those of one boundary, so that a mark is of use.
constexpr uint64_t kWindowsPart = 4;

uint64_t window_units(uint64_t units, const KvShape& shape) {
  return shape.first_window() > 0 ? std::max(units / kWindowsPart, shape.boundary_units()) : units;
}

void insert(uint64_t end, std::vector<uint64_t>* ascending) {
  const auto at = std::ranges::lower_bound(*ascending, end);
  if (at == ascending->end() || *at != end) ascending->insert(at, end);
}

}  // namespace

KvCache::KvCache(uint32_t units, const KvShape& shape)
    : shape_(shape), first_window_(shape.first_window()), window_units_max_(window_units(units, shape)), pool_(units), domains_(units) {}

std::vector<BlockId> KvCache::units_of(BlockId block) const {
  std::vector<BlockId> units;
  for (; block != kNoBlock; block = pool_.next_unit(block)) units.push_back(block);
  return units;
}

void KvCache::extend(KvSequence* sequence, std::span<const int32_t> tokens) {
  const uint32_t T = block_tokens();
  auto& chain = sequence->chain;
  while ((chain.size() + 1) * T <= tokens.size()) {
    chain.push_back(index_.link(chain.empty() ? nullptr : chain.back(), sequence->root, tokens.subspan(chain.size() * T, T)));
  }
}

void KvCache::take(KvSequence* sequence, uint32_t group, uint32_t i, BlockId resident) {
  BlockTable& table = sequence->tables[group];
  pool_.ref(resident);
  if (table.block(i) != kNoBlock) drop(table.block(i));
  table.set(i, resident, block_tokens());
}

bool KvCache::adopt(KvSequence* sequence, std::span<const int32_t> tokens) {
  extend(sequence, tokens);
  if (!sequence->adopts()) return false;
  bool took = false;
  const auto& chain = sequence->chain;
  for (uint32_t g = 0; g < shape_.n_groups; ++g) {
    BlockTable& table = sequence->tables[g];
    table.grow(static_cast<uint32_t>(chain.size()));
    for (uint32_t i = 0; shape_.groups[g].window == 0 && i < chain.size(); ++i) {
      if (table.filled(i) == block_tokens()) continue;
      const BlockId resident = PrefixIndex::lookup(chain[i], g);
      if (resident == kNoBlock) continue;
      take(sequence, g, i, resident);
      took = true;
    }
  }
  return (first_window_ < shape_.n_groups && adopt_windows(sequence, tokens.size())) || took;
}

// Looks for the last block end, past the one where computing can go on as it is, whose windows are resident.
bool KvCache::adopt_windows(KvSequence* sequence, uint64_t n) {
  const uint32_t T = block_tokens();
  const auto& chain = sequence->chain;
  if (chain.empty()) return false;
  const KvRun next = sequence->next_run(n);  // of all tokens: past the full blocks it may go on with less of the windows than before them
  if (next.stores == 0 || chain.size() * T <= next.begin) return false;
  const auto found = [&](uint32_t g, uint32_t i) {
    return sequence->tables[g].filled(i) == T || PrefixIndex::lookup(chain[i], g) != kNoBlock;
  };
  // Not past the first hole of a group that keeps everything: rows there need it. Where there are states the last row runs once more.
  const uint64_t last = std::min<uint64_t>(chain.size() * T, shape_.has_states() ? n - 1 : n);
  auto end = static_cast<uint32_t>(sequence->without_window(last) / T);
  if (first_window_ > 0 && uint64_t{end} * T > next.begin) mark(sequence, uint64_t{end} * T);
  for (; uint64_t{end} * T > next.begin; --end) {
    uint32_t g = first_window_;
    for (; g < shape_.n_groups; ++g) {
      uint32_t i = end;
      const uint32_t begin = shape_.window_begin(g, end - 1);
      while (i > begin && found(g, i - 1)) --i;
      if (i > begin) break;
    }
    if (g == shape_.n_groups) break;
  }
  if (uint64_t{end} * T <= next.begin) return false;
  for (uint32_t g = first_window_; g < shape_.n_groups; ++g) {
    for (uint32_t i = shape_.window_begin(g, end - 1); i < end; ++i) {
      if (sequence->tables[g].filled(i) < T) take(sequence, g, i, PrefixIndex::lookup(chain[i], g));
    }
  }
  for (const uint64_t mark : sequence->marks) {
    if (mark > next.begin && mark <= uint64_t{end} * T) keep_windows(sequence, mark);  // its last block is not computed, so not sealed
  }
  roll(sequence, n, uint64_t{end} * T);
  return true;
}

KvCache::Resident KvCache::resident(const KvSequence& sequence) const {
  Resident found;
  if (!sequence.adopts()) return found;
  for (const ChainRef& link : sequence.chain) {
    for (uint32_t g = 0; g < first_window_; ++g) {
      const BlockId block = PrefixIndex::lookup(link, g);
      if (block == kNoBlock) return found;
      found.units += shape_.groups[g].units;
      found.cached += pool_.refs(block) == 0 ? shape_.groups[g].units : 0;
    }
  }
  return found;
}

std::optional<size_t> KvCache::shared_with_sibling(const KvSequence& sequence, std::span<const int32_t> tokens, uint64_t at) const {
  const uint64_t T = block_tokens(), i = at / T;
  if (!sequence.share || at % T != 0 || i > sequence.chain.size()) return std::nullopt;
  const auto rest = tokens.subspan(at, std::min<size_t>(T, tokens.size() - at));
  return index_.shared_with_sibling(i ? sequence.chain[i - 1] : nullptr, sequence.root, rest);
}

void KvCache::seal(KvSequence* sequence, std::span<const int32_t> tokens, uint32_t group, uint32_t i) {
  const BlockId own = sequence->tables[group].block(i);
  if (!sequence->share || index_.contains(own)) return;
  extend(sequence, tokens);
  const BlockId resident = PrefixIndex::lookup(sequence->chain[i], group);
  if (resident == kNoBlock) {
    if (pool_.refs(own) == 1) index_.insert(own, sequence->chain[i], group);
  } else if (sequence->adopts()) {  // another sequence sealed the same block first
    take(sequence, group, i, resident);
  }
  const uint64_t end = uint64_t{i + 1} * block_tokens();
  if (std::ranges::binary_search(sequence->marks, end)) keep_windows(sequence, end);
}

void KvCache::mark(KvSequence* sequence, uint64_t tokens) {
  const uint64_t end = tokens / block_tokens() * block_tokens();
  if (first_window_ == shape_.n_groups || !sequence->share || end == 0) return;
  insert(end, &sequence->marks);
  keep_windows(sequence, end);
}

void KvCache::mark_asked(KvSequence* sequence, uint64_t tokens) {
  const uint64_t end = tokens / block_tokens() * block_tokens();
  if (!shape_.has_windows() || !sequence->share || end == 0) return;
  insert(end, &sequence->asked);
  mark(sequence, end);
}

// Calls fn(link, group) for each link of the windows that end with this one.
template <typename Fn>
void KvCache::each_of_windows(const ChainRef& last, Fn fn) const {
  for (uint32_t g = first_window_; g < shape_.n_groups; ++g) {
    const uint64_t links = (uint64_t{shape_.groups[g].window} + block_tokens() - 1) / block_tokens();
    ChainRef link = last;
    for (uint64_t n = 0; n < links && link; ++n, link = link->before) fn(link, g);
  }
}

// Makes the block end a boundary, if all that it needs is resident.
void KvCache::keep_windows(KvSequence* sequence, uint64_t end) {
  const auto& chain = sequence->chain;
  if (end == 0 || end / block_tokens() > chain.size()) return;
  const auto last = static_cast<uint32_t>(end / block_tokens() - 1);
  if (chain[last]->boundary) return;
  bool whole = true;
  for (uint32_t g = 0; g < first_window_; ++g) whole &= PrefixIndex::lookup(chain[last], g) != kNoBlock;
  each_of_windows(chain[last], [&](const ChainRef& link, uint32_t g) { whole &= PrefixIndex::lookup(link, g) != kNoBlock; });
  if (!whole) return;
  chain[last]->boundary = true;
  each_of_windows(chain[last], [](const ChainRef& link, uint32_t g) { ++link->kept[g]; });
  const BlockId block = chain[last]->blocks[first_window_];
  if (block == kNoBlock || !pool_.cached(block)) return;
  pool_.ref(block);  // it went along with another boundary
  drop(block);
}

// Drops the blocks of groups with windows but those of which keeps(group, first position, end) is true. False: there were none.
template <typename Fn>
bool KvCache::give_up_windows(KvSequence* sequence, Fn keeps) {
  const uint64_t T = block_tokens();
  bool any = false;
  for (uint32_t g = first_window_; g < shape_.n_groups; ++g) {
    BlockTable& table = sequence->tables[g];
    for (uint32_t i = table.first(); i < table.size(); ++i) {
      if (table.block(i) == kNoBlock || keeps(shape_.groups[g], i * T, (i + 1) * T)) continue;
      drop(table.block(i));
      table.set(i, kNoBlock, 0);
      any = true;
    }
  }
  return any;
}

void KvCache::roll(KvSequence* sequence, uint64_t n, uint64_t at) {
  give_up_windows(sequence, [&](const KvShape::Group& group, uint64_t first, uint64_t end) {
    const uint64_t window = group.window;
    const bool before = first < at && (group.state ? at <= end : end + window > at);
    return before || (!group.state && end + 2 * window > n);
  });
}

bool KvCache::shed(KvSequence* sequence, const KvRun& run) {
  return give_up_windows(sequence, [&](const KvShape::Group& group, uint64_t first, uint64_t end) {
    if (group.state) return run.begin <= end;  // before the run, or the place for the one after it
    return first < run.end && end + group.window > run.begin;
  });
}

uint64_t KvCache::domain_of(const KvSequence& sequence) {
  uint64_t bits;
  std::memcpy(&bits, sequence.root.bytes.data(), sizeof bits);
  return bits > kForeign ? bits : kForeign + 1;
}

BlockId KvCache::alloc(const KvSequence& for_sequence, uint32_t group) {
  const uint32_t units = shape_.groups[group].units;
  if (pool_.free_count() + pool_.cached_count() < units) return kNoBlock;
  while (pool_.free_count() < units) {
    if (!evict_oldest()) return kNoBlock;
  }
  const BlockId block = pool_.alloc(units);
  const uint64_t domain = domain_of(for_sequence);
  for (BlockId unit = block; unit != kNoBlock; unit = pool_.next_unit(unit)) {
    uint64_t& has = domains_[static_cast<size_t>(unit)];
    has = has == 0 || has == domain ? domain : kForeign;
  }
  return block;
}

bool KvCache::is_foreign(BlockId block) const {
  for (; block != kNoBlock; block = pool_.next_unit(block)) {
    if (domains_[static_cast<size_t>(block)] == kForeign) return true;
  }
  return false;
}

void KvCache::overwritten(BlockId block, const KvSequence& sequence) {
  for (; block != kNoBlock; block = pool_.next_unit(block)) domains_[static_cast<size_t>(block)] = domain_of(sequence);
}

bool KvCache::unshare(BlockId block) {
  if (pool_.refs(block) != 1) return false;
  forget(block);
  return true;
}

void KvCache::replace(KvSequence* sequence, uint32_t group, uint32_t i, BlockId block, uint32_t filled) {
  BlockTable& table = sequence->tables[group];
  table.grow(i + 1);
  if (table.block(i) != kNoBlock) drop(table.block(i));
  table.set(i, block, filled);
  overwritten(block, *sequence);
}

void KvCache::share(const KvSequence& from, KvSequence* to) noexcept {
  for (uint32_t g = 0; g < shape_.n_groups; ++g) {
    const BlockTable& table = from.tables[g];
    for (uint32_t i = table.first(); i < table.size(); ++i) {
      if (table.block(i) == kNoBlock) continue;
      pool_.ref(table.block(i));
      to->tables[g].set(i, table.block(i), table.filled(i));
    }
  }
}

// What a block is kept for once nobody holds it.
Keep KvCache::keep_of(BlockId block) const {
  const PrefixIndex::Entry* entry = index_.find(block);
  if (!entry) return Keep::kNot;
  if (entry->group < first_window_) return Keep::kCached;
  if (entry->link->boundary && entry->group == first_window_) return Keep::kCachedWindow;
  return entry->link->kept[entry->group] > 0 ? Keep::kAlong : Keep::kNot;
}

void KvCache::drop(BlockId block) {
  const Keep keep = keep_of(block);
  if (keep == Keep::kNot && pool_.refs(block) == 1) index_.erase(block);
  pool_.unref(block, keep);
  while (pool_.window_count() > window_units_max_ && give_up_oldest_window()) continue;
}

// The boundary that was used least recently. One whose last block is held is in no LRU: any such is given up last.
bool KvCache::give_up_oldest_window() {
  const BlockId oldest = pool_.oldest(Keep::kCachedWindow);
  ChainRef boundary =
      oldest != kNoBlock ? index_.find(oldest)->link : index_.find_link([&](const ChainRef& link) { return has_cached_window(link); });
  if (!boundary) return false;
  give_up(std::move(boundary));
  return true;
}

// Releases the last block first: leaves of the prefix tree are the oldest in the LRU, so that a chain is given up from its end. Windows
// are newer than the KV that they make usable.
void KvCache::release(KvSequence* sequence, uint32_t from_block) {
  if (first_window_ < shape_.n_groups && from_block == 0 && sequence->share) {  // to come back to
    keep_windows(sequence, sequence->restart(uint64_t{sequence->blocks()} * block_tokens()) / block_tokens() * block_tokens());
  }
  for (BlockTable& table : sequence->tables) {
    for (uint32_t i = table.size(); i-- > std::max(from_block, table.first());) {
      if (table.block(i) != kNoBlock) drop(table.block(i));
    }
    table.shrink(from_block);
  }
}

void KvCache::cut(KvSequence* sequence, uint64_t tokens) {
  const uint64_t T = block_tokens(), within = tokens % T;
  const auto blocks = static_cast<uint32_t>((tokens + T - 1) / T);
  const uint64_t known = shape_.has_windows() ? sequence->computed(uint64_t{sequence->blocks()} * T) : 0;
  sequence->cut_known = std::min(tokens, std::max(known, sequence->cut_known));
  sequence->chain.resize(std::min<size_t>(sequence->chain.size(), tokens / T));
  for (auto* ends : {&sequence->marks, &sequence->asked}) std::erase_if(*ends, [&](uint64_t end) { return end > tokens; });
  release(sequence, blocks);
  if (within == 0) return;
  for (uint32_t g = 0; g < shape_.n_groups; ++g) {
    BlockTable& table = sequence->tables[g];
    if (table.size() < blocks || table.filled(blocks - 1) <= within) continue;
    if (!shape_.groups[g].state) {
      table.set_filled(blocks - 1, static_cast<uint32_t>(within));
      continue;
    }
    drop(table.block(blocks - 1));  // the state of a token that is gone
    table.set(blocks - 1, kNoBlock, 0);
  }
}

void KvCache::discard(KvSequence* sequence, std::span<const int32_t> tokens) {
  extend(sequence, tokens);
  for (const ChainRef& link : sequence->chain) {
    for (uint32_t g = 0; g < shape_.n_groups; ++g) {
      const BlockId block = PrefixIndex::lookup(link, g);
      if (block != kNoBlock) forget(block);
    }
  }
  release(sequence, 0);
}

// Takes a block out of the prefix cache. Its holders keep it.
void KvCache::forget(BlockId block) {
  const PrefixIndex::Entry* entry = index_.find(block);
  if (!entry) return;
  const ChainRef link = entry->link;
  if (link->boundary) forget_windows(link);  // it is one no more
  if (!index_.contains(block)) return;
  index_.erase(block);
  if (pool_.refs(block) == 0) pool_.evict(block);
}

bool KvCache::evict_oldest() {
  const BlockId block = pool_.oldest_cached();
  if (block == kNoBlock) return give_up_oldest_window();
  const PrefixIndex::Entry entry = *index_.find(block);
  if (entry.group < first_window_) {
    ++evictions_;
    forget(block);
  } else {
    give_up(entry.link);
  }
  return true;
}

// A boundary whose last block is held is in no LRU.
bool KvCache::has_cached_window(const ChainRef& boundary) const {
  bool found = false;
  if (!boundary->boundary) return false;
  each_of_windows(boundary,
                  [&](const ChainRef& link, uint32_t g) { found |= link->blocks[g] != kNoBlock && pool_.cached(link->blocks[g]); });
  return found;
}

// Gives up a boundary: its windows, and the KV that these alone made usable.
void KvCache::give_up(ChainRef boundary) {
  forget_windows(boundary);
  forget_past_boundary(std::move(boundary));
}

void KvCache::forget_windows(const ChainRef& boundary) {
  KVRT_CHECK(boundary->boundary);
  boundary->boundary = false;
  each_of_windows(boundary, [&](const ChainRef& link, uint32_t g) {
    const BlockId block = link->blocks[g];
    --link->kept[g];
    if (block == kNoBlock || !pool_.cached(block) || (link->boundary && g == first_window_)) return;
    pool_.ref(block);
    evictions_ += link->kept[g] == 0;
    drop(block);  // as what it is kept for now
  });
}

// Cached blocks of groups that keep everything, from the link back to a boundary, or to one after which others go on.
void KvCache::forget_past_boundary(ChainRef link) {
  for (; first_window_ > 0 && link && !link->boundary && !index_.has_child(*link); link = link->before) {
    for (uint32_t g = 0; g < first_window_; ++g) {
      const BlockId block = link->blocks[g];
      if (block == kNoBlock) continue;
      if (pool_.refs(block) > 0) return;
      ++evictions_;
      index_.erase(block);
      pool_.evict(block);
    }
  }
}

}  // namespace kvrt
