#include "runtime/engine/sources/chunk_look_up.h"

#include <utility>

namespace kvrt {

namespace {

std::vector<NodeIn> full_blocks(const Session& s) {
  const size_t T = s.kv.shape.block_tokens;
  std::vector<NodeIn> nodes;
  nodes.reserve(s.kv.chain.size());
  for (const ChainRef& link : s.kv.chain) nodes.push_back({link->key, link->parent, std::span(s.tokens).subspan(nodes.size() * T, T)});
  return nodes;
}

// The chain that ends in the saved tail. If the tokens have grown past the tail, a full block is at its place, on another branch of the
// tree. Empty: no tail was saved.
std::vector<NodeIn> with_tail(const Session& s, std::span<const NodeIn> nodes) {
  const auto tail = static_cast<uint32_t>(s.stored.tail_begin / s.kv.shape.block_tokens);
  if (s.stored.tail_end <= s.stored.tail_begin) return {};
  std::vector<NodeIn> branch(nodes.begin(), nodes.begin() + tail);
  const auto tokens = std::span<const int32_t>(s.tokens).subspan(s.stored.tail_begin, s.stored.tail_end - s.stored.tail_begin);
  const BlockKey parent = tail ? nodes[tail - 1].key : s.kv.root;
  branch.push_back({chain_key(parent, tokens), parent, tokens});
  return branch;
}

}  // namespace

std::vector<std::vector<NodeIn>> stored_chains(const Session& s) {
  std::vector<NodeIn> nodes = full_blocks(s), branch = with_tail(s, nodes);
  const auto foreign = std::span<const int32_t>(s.tokens).first(s.stored.foreign_tokens);
  return {std::move(nodes), std::move(branch), chain_of(s.stored.foreign_root, foreign, s.kv.shape.block_tokens)};
}

ChunkLookUp::ChunkLookUp(const Session& s)
    : tail_begin_(s.stored.tail_begin),
      tail_end_(s.stored.tail_end),
      foreign_root_(s.stored.foreign_root),
      foreign_tokens_(s.stored.foreign_tokens),
      tokens_(s.tokens),
      block_tokens_(s.kv.shape.block_tokens) {
  const bool tail = wants_tail(s);
  own_ = tail || wants_blocks(s);
  if (!own_) return;
  blocks = full_blocks(s);
  if (tail) branch = with_tail(s, blocks);
}

bool ChunkLookUp::wants_blocks(const Session& s) const {
  const uint64_t T = block_tokens_, full = s.kv.chain.size(), most = s.tokens.size() - last_runs(s);
  const bool ready = s.kv.shape.has_states() ? s.kv.restart(most) == most : s.kv.ready(full * T) == full * T;
  for (uint32_t i = 0; !ready && i < full; ++i) {
    if (s.kv.lacking(i) != 0 && (s.kv.share || uint64_t{i + 1} * T <= s.stored.own_tokens)) return true;
  }
  return false;
}

bool ChunkLookUp::wants_tail(const Session& s) const {
  if (tail_end_ <= tail_begin_) return false;
  const uint64_t most = s.tokens.size() - last_runs(s);
  const bool lacks_state = s.kv.shape.has_states() && tail_end_ <= most && s.kv.restart(most) < tail_end_;
  return lacks_state || s.kv.lacking(static_cast<uint32_t>(tail_begin_ / block_tokens_)) == s.kv.shape.all();
}

void ChunkLookUp::ask(ChunkSource* source) {
  if (own_) {
    const bool one_chain = branch.size() == blocks.size() + 1;
    has = source->find(one_chain ? branch : blocks);
    tail_has = one_chain ? has.back() : branch.empty() ? 0 : source->find(branch).back();
  }
  if (foreign_tokens_ == 0) return;
  foreign = chain_of(foreign_root_, tokens_.first(foreign_tokens_), block_tokens_);
  foreign_has = source->find(foreign);
}

void ChunkLookUp::take(const Session& session, const KvGroups& groups) {
  if (!wants_tail(session)) tail_has = 0;
  own_ = own_ && (tail_has != 0 || wants_blocks(session));
  stored = groups_stored(groups, has);
  foreign_stored = groups_stored(groups, foreign_has);
  tail_whole = tail_has != 0 && groups_stored(groups, {tail_has})[0] == session.kv.shape.all();
}

}  // namespace kvrt
