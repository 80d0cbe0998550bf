#include "runtime/kv/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace kvrt {

KvCache::KvCache(uint32_t blocks, uint32_t block_tokens) : pool_(blocks), block_tokens_(block_tokens), domains_(blocks) {}

void KvCache::extend(KvSequence* sequence, std::span<const int32_t> tokens) {
  auto& chain = sequence->chain;
  while ((chain.size() + 1) * block_tokens_ <= tokens.size()) {
    const auto block = tokens.subspan(chain.size() * block_tokens_, block_tokens_);
    chain.push_back(index_.link(chain.empty() ? nullptr : chain.back(), sequence->root, block));
  }
}

void KvCache::adopt(KvSequence* sequence, std::span<const int32_t> tokens) {
  extend(sequence, tokens);
  if (!sequence->adopts()) return;
  const auto& chain = sequence->chain;
  sequence->table.grow(static_cast<uint32_t>(chain.size()));
  for (uint32_t i = 0; i < chain.size(); ++i) {
    if (sequence->table.filled(i) == block_tokens_) continue;
    const BlockId resident = index_.lookup(chain[i]);
    if (resident == kNoBlock) continue;
    pool_.ref(resident);
    if (sequence->table.block(i) != kNoBlock) drop(sequence->table.block(i));
    sequence->table.set(i, resident, block_tokens_);
  }
}

KvCache::Resident KvCache::resident(const KvSequence& sequence) const {
  Resident found;
  if (!sequence.adopts()) return found;
  for (const ChainRef& link : sequence.chain) {
    const BlockId block = index_.lookup(link);
    if (block == kNoBlock) break;
    ++found.blocks;
    found.cached += pool_.refs(block) == 0;
  }
  return found;
}

std::optional<size_t> KvCache::shared_with_sibling(const KvSequence& sequence, std::span<const int32_t> tokens, uint64_t at) const {
  const uint64_t i = at / block_tokens_;
  if (!sequence.share || at % block_tokens_ != 0 || i > sequence.chain.size()) return std::nullopt;
  const auto rest = tokens.subspan(at, std::min<size_t>(block_tokens_, tokens.size() - at));
  return index_.shared_with_sibling(i ? sequence.chain[i - 1] : nullptr, sequence.root, rest);
}

void KvCache::seal(KvSequence* sequence, std::span<const int32_t> tokens, uint32_t i) {
  const BlockId own = sequence->table.block(i);
  if (!sequence->share || index_.contains(own)) return;
  extend(sequence, tokens);
  const BlockId resident = index_.lookup(sequence->chain[i]);
  if (resident == kNoBlock) {
    if (pool_.refs(own) == 1) index_.insert(own, sequence->chain[i]);
  } else if (sequence->adopts()) {  // another sequence sealed the same block first
    pool_.ref(resident);
    drop(own);
    sequence->table.set(i, resident, block_tokens_);
  }
}

uint64_t KvCache::domain_of(const KvSequence& sequence) {
  uint64_t bits;
  std::memcpy(&bits, sequence.root.bytes.data(), sizeof bits);
  return bits > kForeign ? bits : kForeign + 1;
}

BlockId KvCache::alloc(const KvSequence& for_sequence) {
  BlockId block = pool_.alloc();
  if (block == kNoBlock) {
    const BlockId oldest = pool_.oldest_cached();
    if (oldest == kNoBlock) return kNoBlock;
    index_.erase(oldest);
    pool_.evict(oldest);
    ++evictions_;
    block = pool_.alloc();
  }
  const uint64_t domain = domain_of(for_sequence);
  uint64_t& has = domains_[static_cast<size_t>(block)];
  has = has == 0 || has == domain ? domain : kForeign;
  return block;
}

bool KvCache::unshare(BlockId block) {
  if (pool_.refs(block) != 1) return false;
  index_.erase(block);
  return true;
}

void KvCache::replace(KvSequence* sequence, uint32_t i, BlockId block, uint32_t filled) {
  sequence->table.grow(i + 1);
  if (sequence->table.block(i) != kNoBlock) drop(sequence->table.block(i));
  sequence->table.set(i, block, filled);
  overwritten(block, *sequence);
}

void KvCache::share(const KvSequence& from, KvSequence* to) noexcept {
  for (uint32_t i = 0; i < from.table.size(); ++i) {
    const BlockId block = from.table.block(i);
    if (block == kNoBlock) continue;
    pool_.ref(block);
    to->table.set(i, block, from.table.filled(i));
  }
}

// Releases the last block first: leaves of the prefix tree are the oldest in the LRU, so that a chain is given up from its end.
void KvCache::release(KvSequence* sequence, uint32_t from_block) {
  BlockTable& table = sequence->table;
  for (uint32_t i = table.size(); i-- > from_block;) {
    if (table.block(i) != kNoBlock) drop(table.block(i));
  }
  table.shrink(from_block);
}

void KvCache::cut(KvSequence* sequence, uint64_t tokens) {
  const uint64_t within = tokens % block_tokens_;
  const auto blocks = static_cast<uint32_t>((tokens + block_tokens_ - 1) / block_tokens_);
  sequence->chain.resize(std::min<size_t>(sequence->chain.size(), tokens / block_tokens_));
  release(sequence, blocks);
  if (within && sequence->table.size() == blocks) {
    sequence->table.set_filled(blocks - 1, std::min(sequence->table.filled(blocks - 1), static_cast<uint32_t>(within)));
  }
}

void KvCache::discard(KvSequence* sequence, std::span<const int32_t> tokens) {
  extend(sequence, tokens);
  for (const ChainRef& link : sequence->chain) {
    const BlockId block = index_.lookup(link);
    if (block == kNoBlock) continue;
    index_.erase(block);
    if (pool_.refs(block) == 0) pool_.evict(block);
  }
  release(sequence, 0);
}

}  // namespace kvrt
