#include "runtime/kv/prefix_index.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace kvrt {

BlockId PrefixIndex::lookup(const BlockKey& key, std::span<const int32_t> tokens) const {
  auto it = by_key_.find(key);
  if (it == by_key_.end()) return kNoBlock;
  const auto& have = entries_.at(it->second).tokens;
  return std::equal(have.begin(), have.end(), tokens.begin(), tokens.end()) ? it->second : kNoBlock;
}

bool PrefixIndex::insert(BlockId block, const BlockKey& key, const BlockKey& parent, std::span<const int32_t> tokens) {
  KVRT_CHECK(!contains(block));
  if (by_key_.count(key) != 0) return false;
  auto entry = entries_.emplace(block, Entry{key, parent, {tokens.begin(), tokens.end()}}).first;
  auto child = by_parent_.end();
  try {
    child = by_parent_.emplace(parent, block);
    by_key_.emplace(key, block);
  } catch (...) {  // no memory: all three or none
    if (child != by_parent_.end()) by_parent_.erase(child);
    entries_.erase(entry);
    throw;
  }
  return true;
}

void PrefixIndex::erase(BlockId block) {
  auto it = entries_.find(block);
  if (it == entries_.end()) return;
  by_key_.erase(it->second.key);
  auto range = by_parent_.equal_range(it->second.parent);
  for (auto p = range.first; p != range.second; ++p) {
    if (p->second == block) {
      by_parent_.erase(p);
      break;
    }
  }
  entries_.erase(it);
}

std::optional<size_t> PrefixIndex::shared_with_sibling(const BlockKey& parent, std::span<const int32_t> tokens) const {
  std::optional<size_t> best;
  auto range = by_parent_.equal_range(parent);
  for (auto p = range.first; p != range.second; ++p) {
    const auto& have = entries_.at(p->second).tokens;
    auto n = static_cast<size_t>(std::mismatch(have.begin(), have.end(), tokens.begin(), tokens.end()).first - have.begin());
    if (!best || n > *best) best = n;
  }
  return best;
}

}  // namespace kvrt
