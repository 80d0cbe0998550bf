#include "runtime/kv/prefix_index.h"

#include <algorithm>
#include <utility>

#include "runtime/base/block_items.h"
#include "runtime/base/check.h"

namespace kvrt {

namespace {
bool link_has_no_block(const ChainLink& link) { return std::ranges::all_of(link.places, &Place::is_hole); }
}  // namespace

// Not by recursion: a chain may be longer than a stack is deep.
ChainLink::~ChainLink() {
  while (before.use_count() == 1) before = std::exchange(before->before, nullptr);
}

ChainRef PrefixIndex::link(const ChainRef& before, const BlockKey& root, std::span<const int32_t> tokens, const BlockKey* hashed,
                           std::span<const uint8_t> items) {
  const BlockKey& parent = before ? before->key : root;
  const BlockKey key = hashed ? *hashed : chain_key(parent, tokens, items);
  auto range = links_.equal_range(key);
  for (auto at = range.first; at != range.second; ++at) {
    ChainRef known = at->second.lock();
    if (!known || known->before != before || known->parent != parent) continue;
    if (std::ranges::equal(known->tokens, tokens) && std::ranges::equal(known->items, items)) return known;
  }
  if (links_.size() >= 2 * links_after_forgetting_ + 64) forget_dead_links();
  auto made = std::make_shared<ChainLink>();
  made->before = before;
  made->parent = parent;
  made->key = key;
  made->tokens.assign(tokens.begin(), tokens.end());
  made->items.assign(items.begin(), items.end());
  links_.emplace(key, made);
  return made;
}

void PrefixIndex::forget_dead_links() {
  std::erase_if(links_, [](const auto& entry) { return entry.second.expired(); });
  links_after_forgetting_ = links_.size();
}

const PrefixIndex::Entry* PrefixIndex::find(BlockId block) const {
  const auto it = entries_.find(block);
  return it == entries_.end() ? nullptr : &it->second;
}

bool PrefixIndex::has_child(const ChainLink& link) const {
  const auto children = by_parent_.find(link.key);
  if (children == by_parent_.end()) return false;
  return std::ranges::any_of(children->second,
                             [&](const ChainLink* child) { return child->before.get() == &link && !child->places[0].is_hole(); });
}

bool PrefixIndex::insert(BlockId block, ChainRef link, uint32_t group) {
  KVRT_CHECK(!contains(block));
  if (!link->places[group].is_hole()) return false;
  const bool first = link_has_no_block(*link);
  const auto entry = entries_.emplace(block, Entry{link, group}).first;
  try {
    if (first) {
      auto& siblings = by_parent_[link->parent];  // one that stays empty does no harm
      link->sibling = siblings.size();
      siblings.push_back(link.get());
    }
  } catch (...) {  // no memory: all or none
    entries_.erase(entry);
    throw;
  }
  link->places[group] = block;
  return true;
}

void PrefixIndex::erase(BlockId block) {
  const auto it = entries_.find(block);
  if (it == entries_.end()) return;
  ChainLink& link = *it->second.link;
  link.places[it->second.group] = Place();
  if (link_has_no_block(link)) {
    const auto siblings = by_parent_.find(link.parent);
    ChainLink* const last = siblings->second.back();
    siblings->second[last->sibling = link.sibling] = last;
    siblings->second.pop_back();
    if (siblings->second.empty()) by_parent_.erase(siblings);
  }
  entries_.erase(it);
}

std::optional<size_t> PrefixIndex::shared_with_sibling(const ChainRef& before, const BlockKey& root, std::span<const int32_t> tokens,
                                                       std::span<const uint8_t> items) const {
  constexpr size_t kLookMax = 1000;
  std::optional<size_t> best;
  const auto siblings = by_parent_.find(before ? before->key : root);
  if (siblings == by_parent_.end()) return best;
  for (const ChainLink* const sibling : std::span(siblings->second).first(std::min(siblings->second.size(), kLookMax))) {
    const ChainLink& link = *sibling;
    if (link.before != before) continue;
    auto n = static_cast<size_t>(std::ranges::mismatch(link.tokens, tokens).in1 - link.tokens.begin());
    n = std::min(n, rows_alike(link.items, items));
    if (n == link.tokens.size() && n < tokens.size()) continue;  // a state within the block: it tells no token that differs
    if (!best || n > *best) best = n;
  }
  return best;
}

}  // namespace kvrt
