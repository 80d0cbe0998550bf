#include "runtime/engine/snapshot/save_plan.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/engine/conversation/edit.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

namespace {

// A checkpoint writes the tail's KV once the tail has so many tokens more than in the store, and at least a quarter of a block more.
constexpr uint64_t kTailStep = 8;

// The conversation that a cancel at this moment would leave. *kept: the count of its first tokens that are also the session's.
Conversation as_cancelled(const LoadedModel& model, const Session& s, uint64_t* kept) {
  *kept = s.tokens.size();
  const Generation* g = s.generation.get();
  const Reason reason = g ? g->report.reason : Reason::kNone;
  const bool whole = g && g->finished && reason != Reason::kCancelled && reason != Reason::kFailed;
  if (g && g->before && !whole) {
    const auto& before = g->before->tokens;
    *kept = static_cast<uint64_t>(std::mismatch(s.tokens.begin(), s.tokens.end(), before.begin(), before.end()).first - s.tokens.begin());
    return *g->before;
  }
  Conversation said(s);
  if (!g) return said;
  add_answer(model, *g, &said);
  return said;
}

// The blocks, of the first `blocks`, at whose end the store is to have a boundary's state: those that the application marked, the first, and
// those without which the next one, or the session's end, were too far from the one before: a state may be larger than the KV of all tokens
// between them.
std::vector<uint32_t> states_to_keep(const KvSequence& kv, uint64_t blocks, uint64_t end) {
  std::vector<uint32_t> boundaries, chosen;
  const uint64_t T = kv.shape.block_tokens;
  for (uint32_t i = 0; kv.shape.has_states() && i < blocks; ++i) {
    if (Boundaries::kept_window(*kv.chain[i], kv.shape.n_groups - 1) != kNoBlock) boundaries.push_back(i);
  }
  for (size_t b = 0; b < boundaries.size(); ++b) {
    const uint64_t next = b + 1 < boundaries.size() ? (boundaries[b + 1] + 1) * T : end;
    const bool asked = std::ranges::binary_search(kv.asked, (boundaries[b] + 1) * T);
    if (asked || chosen.empty() || next > (chosen.back() + 1) * T + kStateEvery) chosen.push_back(boundaries[b]);
  }
  return chosen;
}

// The bits of the groups of which a resume needs the KV of node i, of `block_tokens` a node: of windows what the end sees.
uint32_t needed_groups(const KvShape& shape, uint64_t block_tokens, uint64_t i, uint64_t end) {
  uint32_t needs = 0;
  for (uint32_t g = 0; g < shape.n_groups; ++g) {
    if (shape.groups[g].window == 0 || (i + 1) * block_tokens + shape.groups[g].window > end) needs |= 1u << g;
  }
  return needs;
}

// The node of the tail, and the chunks of it that are to be copied.
void add_tail(const KvShape& shape, std::span<const int32_t> tokens, const BlockKey& parent, uint64_t begin, SavePlan* plan) {
  const NodeIn node{chain_key(parent, tokens), parent, tokens};
  for (uint32_t g = 0; g < plan->tail_blocks.size(); ++g) {
    plan->chunks.push_back({plan->nodes.size(), g, kNoBlock, {}});
  }
  plan->needs.push_back(shape.all());
  plan->nodes.push_back(node);
  plan->tail_begin = begin;
  plan->tail_end = begin + tokens.size();
}

// The tokens of block i whose KV of a group is there, of the first `kept` of the session.
uint64_t filled_of(const KvSequence& kv, uint32_t group, uint32_t i, uint64_t kept) {
  const uint64_t has = kv.tables[group].filled(i), most = kept - std::min(kept, uint64_t{i} * kv.shape.block_tokens);
  return has <= most ? has : kv.shape.groups[group].state ? 0 : most;
}

// Where a save ends: after so many full blocks, and tokens of the next one. `there`: memory has these, and the state after them.
struct SaveEnd {
  uint32_t full;
  uint64_t tail;
  bool there;
};

// Of a session's `n` tokens, of which the first `kept` have the KV that the session has.
SaveEnd find_end(const Session& s, uint64_t n, uint64_t kept, SaveTail which) {
  const KvShape& shape = s.kv.shape;
  const uint64_t T = shape.block_tokens;
  const auto last = static_cast<uint32_t>((n - 1) / T);
  uint64_t in_memory = T;
  for (uint32_t g = 0; g < shape.n_groups; ++g) in_memory = std::min(in_memory, filled_of(s.kv, g, last, kept));
  if (shape.has_states() && filled_of(s.kv, shape.n_groups - 1, last, kept) != in_memory) in_memory = 0;  // the state is of other tokens
  uint64_t stored = 0;
  if (s.stored.tail_begin == last * T && s.stored.tail_end > s.stored.tail_begin && s.stored.tail_end <= kept)
    stored = s.stored.tail_end - s.stored.tail_begin;
  if (n - last * T == T && (in_memory == T || (in_memory == 0 && stored == 0))) return {last + 1, 0, false};
  const bool first_state = shape.has_states() && stored == 0;  // without it a resume goes on from the last boundary
  const bool grown = in_memory >= stored + (first_state ? 1 : std::max(kTailStep, T / 4));
  const bool enough = which == SaveTail::kWhole || (which == SaveTail::kGrown && grown);
  const uint64_t tail = enough ? std::max(in_memory, stored) : stored;
  return {last, tail, shape.has_states() ? tail == in_memory : tail <= in_memory};
}

// A full block's node, with the chunks of the groups whose KV is in memory. `needs`: those that a resume needs; `keeps_state`: its state is
// one of those that the store gets.
void add_full(const KvSequence& kv, const KvCache& cache, uint32_t i, const NodeIn& node, uint32_t needs, bool keeps_state, uint64_t kept,
              SavePlan* plan) {
  const KvShape& shape = kv.shape;
  const uint64_t T = shape.block_tokens;
  uint32_t has = 0;
  for (uint32_t g = 0; g < shape.n_groups; ++g) {
    BlockId block = kNoBlock;
    if (filled_of(kv, g, i, kept) == T) {
      block = kv.tables[g].block(i);
    } else if ((i + 1) * T <= kept) {
      block = Boundaries::kept_window(*kv.chain[i], g);  // behind the windows: a boundary may keep one
    }
    if (block == kNoBlock || (shape.groups[g].state && (needs >> g & 1) == 0 && !keeps_state)) continue;
    has |= 1u << g;
    plan->chunks.push_back({plan->nodes.size(), g, block, cache.units_of(block)});
  }
  plan->blocks += (needs & ~has) == 0;
  plan->needs.push_back(needs);
  plan->nodes.push_back(node);
}

// The nodes of the snapshot that the session was resumed from, as far as it still has their tokens. The rest is saved without KV.
void keep_other(const Session& s, uint64_t kept, SavePlan* plan) {
  const StoredKv::Other& other = *s.stored.other;
  const uint64_t T = other.block_tokens, end = s.stored.other_tokens <= kept ? s.stored.other_tokens : kept / T * T;
  plan->root = other.root;
  plan->block_tokens = other.block_tokens;
  plan->chunks.clear();
  plan->tail_blocks.clear();
  plan->nodes = chain_of(other.root, std::span<const int32_t>(plan->said.tokens).first(end), T);
  plan->needs.clear();
  for (uint64_t i = 0; i < plan->nodes.size(); ++i) plan->needs.push_back(needed_groups(s.kv.shape, T, i, end));
  plan->tail_begin = plan->tail_end = plan->blocks = 0;
  plan->pending_begin = end;
}

}  // namespace

void SavePlan::leave_tail(const KvShape& shape) {
  std::erase_if(chunks, [](const Chunk& chunk) { return chunk.block == kNoBlock; });
  nodes.pop_back();
  needs.pop_back();
  pending_begin = tail_begin;
  tail_begin = tail_end = 0;
  for (size_t i = 0; i < needs.size(); ++i) needs[i] = needed_groups(shape, block_tokens, i, pending_begin);
  tail_blocks.clear();
  tails.clear();
}

SavePlan plan_save(const LoadedModel& model, KvCache* cache, Session* session, SaveTail which) {
  SavePlan plan;
  Session& s = *session;
  uint64_t kept = 0, T = plan.block_tokens = cache->block_tokens();
  plan.root = s.kv.root;
  plan.said = as_cancelled(model, s, &kept);
  const auto tokens = std::span<const int32_t>(plan.said.tokens);
  const uint64_t n = tokens.size();
  plan.mark = {s.kv.root, n, s.autosave ? hash_rest(plan.said, s.arguments) : Hash256()};
  if (n == 0) return plan;
  const auto last = static_cast<uint32_t>((n - 1) / T);
  const auto [full, tail, there] = find_end(s, n, kept, which);
  // The tail is copied even if the store had it: the store may have lost it. Not for kStored: a step may be writing to that block.
  for (uint32_t g = 0; tail && there && which != SaveTail::kStored && g < s.kv.shape.n_groups; ++g) {
    const BlockId block = s.kv.tables[g].block(last);
    plan.tail_blocks.push_back({block, cache->units_of(block)});
  }
  cache->extend(&s.kv, s.tokens);
  for (uint64_t i = 0; i < std::min<uint64_t>(full, kept / T); ++i) plan.keys.push_back(s.kv.chain[i]->key);
  const std::vector<uint32_t> states = states_to_keep(s.kv, std::min<uint64_t>(full, kept / T), kept);
  for (uint32_t i = 0; i < full; ++i) {
    NodeIn node{{}, i ? plan.keys[i - 1] : s.kv.root, tokens.subspan(i * T, T)};
    if (i == plan.keys.size()) plan.keys.push_back(chain_key(node.parent, node.tokens));
    node.key = plan.keys[i];
    add_full(s.kv, *cache, i, node, needed_groups(s.kv.shape, T, i, full * T + tail), std::ranges::binary_search(states, i), kept, &plan);
  }
  if (tail) add_tail(s.kv.shape, tokens.subspan(full * T, tail), full ? plan.keys[full - 1] : s.kv.root, full * T, &plan);
  plan.pending_begin = full * T + tail;
  if (full) plan.mark.head = plan.keys[full - 1];
  if (full * T < n) plan.mark.head = chain_key(plan.mark.head, tokens.subspan(full * T));
  // A session that computes goes on in its own format: the other's KV is kept for one that only looks, or does not fit the pool.
  const uint64_t own = std::min<uint64_t>(s.kv.computed(std::min(n, kept)), full * T + tail);
  if (own < std::min<uint64_t>(T, s.stored.other_tokens)) keep_other(s, kept, &plan);
  return plan;
}

}  // namespace kvrt
