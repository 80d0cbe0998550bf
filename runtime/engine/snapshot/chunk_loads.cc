#include "runtime/engine/snapshot/chunk_loads.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/threads.h"
#include "runtime/compute/kv_layout.h"

namespace kvrt {

namespace {

std::vector<NodeIn> full_blocks(const Session& s) {
  const size_t T = s.kv.shape.block_tokens;
  std::vector<NodeIn> nodes;
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

// The full blocks and the tail of the snapshot that another arithmetic made.
std::vector<NodeIn> foreign_chain(const Session& s) {
  const uint64_t T = s.kv.shape.block_tokens;
  std::vector<NodeIn> nodes;
  BlockKey parent = s.stored.foreign_root;
  for (uint64_t at = 0; at < s.stored.foreign_tokens; at += T) {
    const auto tokens = std::span<const int32_t>(s.tokens).subspan(at, std::min(T, s.stored.foreign_tokens - at));
    nodes.push_back({chain_key(parent, tokens), parent, tokens});
    parent = nodes.back().key;
  }
  return nodes;
}

}  // namespace

std::vector<std::vector<NodeIn>> stored_chains(const Session& s) {
  std::vector<NodeIn> nodes = full_blocks(s), branch = with_tail(s, nodes);
  return {std::move(nodes), std::move(branch), foreign_chain(s)};
}

ChunkLoads::~ChunkLoads() {
  for (const Load& load : list_) {
    if (load.block != kNoBlock) cache_->drop(load.block);
  }
}

bool ChunkLoads::has(uint32_t index) const {
  return std::any_of(list_.begin(), list_.end(), [&](const Load& load) { return load.index == index; });
}

bool ChunkLoads::add(uint32_t index, const NodeIn& node, const Session& session, Scheduler* scheduler) {
  list_.reserve(list_.size() + 1);  // before the block is taken: it needs memory
  const BlockId block = scheduler->alloc(&session);
  if (block == kNoBlock) return false;
  list_.push_back({index, node, block, ChunkState::kAbsent, {}, false});
  return true;
}

void ChunkLoads::plan(Session* session, Scheduler* scheduler) {
  plan_own(session, scheduler);
  if (session->stored.foreign_tokens > 0) plan_foreign(session, scheduler);
}

// Plans full blocks without any KV, then the tail.
void ChunkLoads::plan_own(Session* session, Scheduler* scheduler) {
  Session& s = *session;
  const uint32_t T = s.kv.shape.block_tokens;
  const std::vector<NodeIn> nodes = full_blocks(s);  // the whole chain, as the store looks it up
  std::vector<uint32_t> wanted;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (s.kv.tables[0].filled(i) == 0 && (s.kv.share || uint64_t{i + 1} * T <= s.stored.own_tokens)) wanted.push_back(i);
  }
  const auto tail = static_cast<uint32_t>(s.stored.tail_begin / T);
  std::vector<NodeIn> branch;
  if (s.kv.tables[0].filled(tail) == 0) branch = with_tail(s, nodes);
  if (wanted.empty() && branch.empty()) return;
  const bool one_chain = branch.size() == nodes.size() + 1;
  const std::vector<uint32_t> stored = s.store->has(one_chain ? branch : nodes);
  const bool tail_stored = has_group(one_chain ? stored.back() : branch.empty() ? 0 : s.store->has(branch).back(), 0);
  list_.reserve(wanted.size() + 1);
  for (uint32_t i : wanted) {
    if (!has_group(stored[i], 0)) {
      s.stored.not_stored |= uint64_t{i + 1} * T <= s.stored.resumed_tokens && !s.stored.other_numerics;
    } else if (!add(i, nodes[i], s, scheduler)) {
      return;
    }
  }
  if (tail_stored && !has(tail)) add(tail, branch.back(), s, scheduler);
}

// Plans chunks of the other arithmetic's snapshot, for blocks that the session's own chain had no chunk for.
void ChunkLoads::plan_foreign(Session* session, Scheduler* scheduler) {
  const std::vector<NodeIn> nodes = foreign_chain(*session);
  const std::vector<uint32_t> stored = session->store->has(nodes);
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (!has_group(stored[i], 0) || session->kv.tables[0].filled(i) > 0 || has(i)) continue;
    if (!add(i, nodes[i], *session, scheduler)) return;
  }
}

bool ChunkLoads::read(const Runtime& runtime, const KvGeometry& kv, uint8_t* pool, Store* store, const Progress& progress) {
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  auto work = [&](bool report) {
    for (size_t i; !stop && (i = next.fetch_add(1)) < list_.size();) {
      Load& load = list_[i];
      load.tried = true;
      try {
        uint8_t* to = pool + static_cast<uint64_t>(load.block) * kv.block_bytes();
        const Status uploaded = runtime.backend()->upload(to, kv.block_bytes(), [&](std::span<uint8_t> block) {
          load.state = store->read(load.node, 0, block_layout(kv.format), block, &load.damage);
          if (load.state == ChunkState::kOk) from_payload(kv, block);
        });
        if (!uploaded.is_ok()) {
          logf(runtime.log(), LogLevel::kWarn, "a block of KV did not reach the device: %s", uploaded.message().c_str());
          load.state = ChunkState::kAbsent;
          load.tried = false;  // the store's chunk is sound
        }
      } catch (const std::bad_alloc&) {  // an exception must not leave a thread
        load.state = ChunkState::kAbsent;
        load.tried = false;
      }
      const size_t n = done.fetch_add(1) + 1;
      if (report && progress && !progress(n, list_.size())) stop = true;
    }
  };
  const size_t threads = std::max<size_t>(1, std::min<size_t>({2 * runtime.threads(), list_.size() / 4, 8}));
  {
    std::vector<std::jthread> helpers;
    helpers.reserve(threads);
    try {
      const SignalsBlocked blocked;
      for (size_t t = 1; t < threads; ++t) helpers.emplace_back(work, false);
    } catch (const std::exception&) {  // the system gives no more threads, or no memory for one: fewer do it
    }
    work(true);
  }
  if (!stop && progress && !list_.empty() && !progress(list_.size(), list_.size())) stop = true;
  return !stop;
}

bool ChunkLoads::put_into(Session* session, const Runtime& runtime) {
  Session& s = *session;
  bool forgot = false;
  for (Load& load : list_) {
    forgot |= load.state == ChunkState::kDamaged;
    if (load.state != ChunkState::kOk) {
      s.stored.damaged |= load.tried;
      if (!load.damage.empty()) logf(runtime.log(), LogLevel::kWarn, "store: %s; its tokens will be computed again", load.damage.c_str());
      continue;
    }
    const auto filled = static_cast<uint32_t>(load.node.tokens.size());
    cache_->replace(&s.kv, 0, load.index, load.block, filled);
    load.block = kNoBlock;  // only now: replace needs memory for the table
    s.stored.disk_tokens += filled;
    if (filled == s.kv.shape.block_tokens) cache_->seal(&s.kv, s.tokens, 0, load.index);
  }
  return forgot;
}

}  // namespace kvrt
