#include "runtime/kv/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace kvrt {

KvCache::KvCache(uint32_t units, const KvShape& shape)
    : shape_(shape), first_window_(shape.first_window()), pool_(units), boundaries_(this), domains_(units) {}

std::vector<BlockId> KvCache::units_of(BlockId block) const {
  std::vector<BlockId> units;
  for (; block != kNoBlock; block = pool_.next_unit(block)) units.push_back(block);
  return units;
}

void KvCache::extend(KvSequence* sequence, std::span<const int32_t> tokens, const ChainKeys& ahead) {
  const uint32_t T = block_tokens();
  auto& chain = sequence->chain;
  while ((chain.size() + 1) * T <= tokens.size()) {
    const size_t i = chain.size(), at = i - ahead.first;  // past all keys, if i is before the first
    const BlockKey* const key = at < ahead.keys.size() ? &ahead.keys[at] : nullptr;
    chain.push_back(index_.link(i == 0 ? nullptr : chain.back(), sequence->root, tokens.subspan(i * T, T), key));
  }
}

void KvCache::take(KvSequence* sequence, uint32_t group, uint32_t i, BlockId resident, uint32_t filled) {
  BlockTable& table = sequence->tables[group];
  pool_.ref(resident);
  if (table.block(i) != kNoBlock) drop(table.block(i));
  table.set(i, resident, filled);
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
      const Place resident = PrefixIndex::lookup(chain[i], g);
      if (resident.is_hole()) continue;
      take(sequence, g, i, resident.block(), block_tokens());
      took = true;
    }
  }
  return (first_window_ < shape_.n_groups && boundaries_.adopt(sequence, tokens.size())) || took;
}

KvCache::Resident KvCache::resident(const KvSequence& sequence) const {
  Resident found;
  if (!sequence.adopts()) return found;
  for (const ChainRef& link : sequence.chain) {
    for (uint32_t g = 0; g < first_window_; ++g) {
      const Place resident = PrefixIndex::lookup(link, g);
      if (resident.is_hole()) return found;
      found.units += shape_.groups[g].units;
      found.cached += pool_.refs(resident.block()) == 0 ? shape_.groups[g].units : 0;
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
  const Place resident = PrefixIndex::lookup(sequence->chain[i], group);
  if (resident.is_hole()) {
    if (pool_.refs(own) == 1) index_.insert(own, sequence->chain[i], group);
  } else if (sequence->adopts()) {  // another sequence sealed the same block first
    take(sequence, group, i, resident.block(), block_tokens());
  }
  const uint64_t end = uint64_t{i + 1} * block_tokens();
  if (std::ranges::binary_search(sequence->marks, end)) boundaries_.keep(sequence, end);
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

void KvCache::share(const KvSequence& copy) noexcept {
  for (const BlockTable& table : copy.tables) {
    for (uint32_t i = table.first(); i < table.size(); ++i) {
      if (!table.place(i).is_hole()) pool_.ref(table.block(i));
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
  boundaries_.trim();
}

// Releases the last block first: leaves of the prefix tree are the oldest in the LRU, so that a chain is given up from its end. Windows
// are newer than the KV that they make usable.
void KvCache::release(KvSequence* sequence, uint32_t from_block, Hole why) {
  if (first_window_ < shape_.n_groups && from_block == 0) {
    const uint64_t known = sequence->restart(uint64_t{sequence->blocks()} * block_tokens());
    if (sequence->share) boundaries_.keep(sequence, known / block_tokens() * block_tokens());  // to come back to
    sequence->roll_holes(known);
  }
  for (BlockTable& table : sequence->tables) {
    for (uint32_t i = table.size(); i-- > std::max(from_block, table.first());) {
      if (!table.place(i).is_hole()) drop(table.block(i));
    }
    table.lose_from(from_block, why);
  }
}

void KvCache::cut(KvSequence* sequence, uint64_t tokens) {
  const uint64_t T = block_tokens(), within = tokens % T;
  const auto blocks = static_cast<uint32_t>((tokens + T - 1) / T);
  const uint64_t known = shape_.has_windows() ? sequence->computed(uint64_t{sequence->blocks()} * T) : 0;
  sequence->cut_known = std::min(tokens, std::max(known, sequence->cut_known));
  sequence->chain.resize(std::min<size_t>(sequence->chain.size(), tokens / T));
  for (auto* ends : {&sequence->marks, &sequence->due, &sequence->asked}) std::erase_if(*ends, [&](uint64_t end) { return end > tokens; });
  sequence->roll_holes(known);
  release(sequence, blocks);
  for (BlockTable& table : sequence->tables) table.shrink(blocks);
  for (uint32_t g = 0; within != 0 && g < shape_.n_groups; ++g) {
    BlockTable& table = sequence->tables[g];
    if (table.size() < blocks || table.filled(blocks - 1) <= within) continue;
    if (!shape_.groups[g].state) {
      table.set_filled(blocks - 1, static_cast<uint32_t>(within));
      table.say(blocks - 1, Hole::kNeverComputed);
      continue;
    }
    drop(table.block(blocks - 1));  // the state of a token that is gone
    table.lose(blocks - 1, Hole::kBehindWindow);
  }
  boundaries_.back_to_end(sequence, tokens);
}

void KvCache::discard(KvSequence* sequence, std::span<const int32_t> tokens) {
  extend(sequence, tokens);
  for (const ChainRef& link : sequence->chain) {
    for (uint32_t g = 0; g < shape_.n_groups; ++g) {
      const Place resident = PrefixIndex::lookup(link, g);
      if (!resident.is_hole()) forget(resident.block());
    }
  }
  for (const KvSequence::End& end : sequence->ends) {
    const Place state = PrefixIndex::lookup(end.link, first_window_);
    if (!state.is_hole()) forget(state.block());
  }
  release(sequence, 0);
}

// Takes a block out of the prefix cache. Its holders keep it.
void KvCache::forget(BlockId block) {
  const PrefixIndex::Entry* entry = index_.find(block);
  if (!entry) return;
  const ChainRef link = entry->link;
  if (link->boundary) boundaries_.forget(link);  // it is one no more
  if (!index_.contains(block)) return;
  index_.erase(block);
  if (pool_.refs(block) == 0) pool_.evict(block);
}

bool KvCache::evict_oldest() {
  const BlockId block = pool_.oldest_cached();
  if (block == kNoBlock || index_.find(block)->group >= first_window_) return boundaries_.give_up_oldest();
  ++evictions_;
  forget(block);
  return true;
}

}  // namespace kvrt
