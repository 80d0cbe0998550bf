// Engine: warm() brings back what exists of a session's KV: resident blocks first, then the store's chunks. What is absent or damaged
// stays a hole, which plan() computes. Resuming and sharing a prefix across restarts are this one loop.
#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>

#include "runtime/compute/kv_layout.h"
#include "runtime/engine/loop/engine.h"

namespace kvrt {

namespace {

std::vector<NodeIn> full_blocks(const Session& s) {
  const size_t T = s.kv.table.block_tokens();
  std::vector<NodeIn> nodes;
  for (const ChainRef& link : s.kv.chain) nodes.push_back({link->key, link->parent, std::span(s.tokens).subspan(nodes.size() * T, T)});
  return nodes;
}

}  // namespace

struct Engine::ChunkLoad {
  uint32_t index = 0;  // of the block in the table
  NodeIn node;         // its tokens are the session's, which do not change while its caller waits
  BlockId block = kNoBlock;
  ChunkState state = ChunkState::kAbsent;
  std::string damage;
  bool tried = false;
};

// Gives the blocks back that were not put into the table.
struct Engine::Loads {
  KvCache* cache;
  std::vector<ChunkLoad> list;
  explicit Loads(KvCache* c) : cache(c) {}
  Loads(const Loads&) = delete;
  Loads& operator=(const Loads&) = delete;
  ~Loads() {
    for (const ChunkLoad& load : list) {
      if (load.block != kNoBlock) cache->drop(load.block);
    }
  }
};

// The chain up to the tail that was saved, with it. Tokens that have grown past it have a full block at its place, which is on another
// branch. Empty: there is none.
std::vector<NodeIn> Engine::with_tail(const Session& s, std::span<const NodeIn> nodes) const {
  const auto tail = static_cast<uint32_t>(s.stored.tail_begin / kv_.block_tokens);
  if (s.stored.tail_end <= s.stored.tail_begin) return {};
  std::vector<NodeIn> branch(nodes.begin(), nodes.begin() + tail);
  const auto tokens = std::span<const int32_t>(s.tokens).subspan(s.stored.tail_begin, s.stored.tail_end - s.stored.tail_begin);
  const BlockKey parent = tail ? nodes[tail - 1].key : s.kv.root;
  branch.push_back({chain_key(parent, tokens), parent, tokens});
  return branch;
}

// Full blocks without any KV, then the tail; those that the store has, with a block each. Who takes no part in the prefix cache finds its own
// alone. Under mu_.
void Engine::loads_wanted(Session* session, Loads* to) {
  Session& s = *session;
  uint32_t T = kv_.block_tokens;
  const std::vector<NodeIn> nodes = full_blocks(s);  // the whole chain, as the store looks it up
  std::vector<ChunkLoad> wanted;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (s.kv.table.filled(i) == 0 && (s.kv.share || uint64_t{i + 1} * T <= s.stored.own_tokens))
      wanted.push_back({i, nodes[i], kNoBlock, ChunkState::kAbsent, {}, false});
  }
  auto tail = static_cast<uint32_t>(s.stored.tail_begin / T);
  std::vector<NodeIn> branch;
  if (s.kv.table.filled(tail) == 0) branch = with_tail(s, nodes);
  if (!branch.empty()) wanted.push_back({tail, branch.back(), kNoBlock, ChunkState::kAbsent, {}, false});
  if (wanted.empty()) return;
  const bool one_chain = branch.size() == nodes.size() + 1;
  const std::vector<bool> has = s.store->has(one_chain ? branch : nodes);
  const bool has_tail = one_chain ? has.back() : !branch.empty() && s.store->has(branch).back();
  std::vector<ChunkLoad>& loads = to->list;
  loads.reserve(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    bool full = wanted[i].node.tokens.size() == T;
    if (!(full ? has[wanted[i].index] : has_tail)) {
      s.stored.not_stored |= full && uint64_t{wanted[i].index + 1} * T <= s.stored.resumed_tokens && !s.stored.other_numerics;
      continue;
    }
    if (!full && std::any_of(loads.begin(), loads.end(), [&](const ChunkLoad& l) { return l.index == wanted[i].index; })) continue;
    if ((wanted[i].block = scheduler_->alloc(session)) == kNoBlock) break;
    loads.push_back(std::move(wanted[i]));
  }
}

std::vector<NodeIn> Engine::foreign_chain(const Session& s) const {
  const uint64_t T = kv_.block_tokens;
  std::vector<NodeIn> nodes;
  BlockKey parent = s.stored.foreign_root;
  for (uint64_t at = 0; at < s.stored.foreign_tokens; at += T) {
    const auto tokens = std::span<const int32_t>(s.tokens).subspan(at, std::min(T, s.stored.foreign_tokens - at));
    nodes.push_back({chain_key(parent, tokens), parent, tokens});
    parent = nodes.back().key;
  }
  return nodes;
}

// Full blocks and the tail of the snapshot that another arithmetic made, where the session's own chain had nothing.
void Engine::foreign_loads(Session* session, Loads* to) {
  Session& s = *session;
  const std::vector<NodeIn> nodes = foreign_chain(s);
  const std::vector<bool> has = s.store->has(nodes);
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const bool loads = std::any_of(to->list.begin(), to->list.end(), [&](const ChunkLoad& l) { return l.index == i; });
    if (!has[i] || s.kv.table.filled(i) > 0 || loads) continue;
    to->list.reserve(to->list.size() + 1);
    const BlockId block = scheduler_->alloc(session);
    if (block == kNoBlock) break;
    to->list.push_back({i, nodes[i], block, ChunkState::kAbsent, {}, false});
  }
}

// Reads on several threads, of which some wait for the disk while the others decode; the caller's reports progress. False when that
// stopped it.
bool Engine::read_chunks(Store* store, std::vector<ChunkLoad>& loads, const Progress& progress) {
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  auto work = [&](bool report) {
    for (size_t i; !stop && (i = next.fetch_add(1)) < loads.size();) {
      ChunkLoad& load = loads[i];
      load.tried = true;
      try {
        const Status uploaded = runtime_->backend()->upload(block_data(load.block), kv_.block_bytes(), [&](std::span<uint8_t> block) {
          load.state = store->read(load.node, block_layout(kv_.format), block, &load.damage);
          if (load.state == ChunkState::kOk) from_payload(kv_, block);
        });
        if (!uploaded.is_ok()) {
          logf(runtime_->log(), LogLevel::kWarn, "a block of KV did not reach the device: %s", uploaded.message().c_str());
          load.state = ChunkState::kAbsent;
        }
      } catch (const std::bad_alloc&) {
        load.state = ChunkState::kAbsent;  // a hole; an exception must not leave a thread
      }
      size_t n = done.fetch_add(1) + 1;
      if (report && progress && !progress(n, loads.size())) stop = true;
    }
  };
  size_t threads = std::max<size_t>(1, std::min<size_t>({2 * runtime_->threads(), loads.size() / 4, 8}));
  {
    std::vector<std::jthread> helpers;
    helpers.reserve(threads);
    try {
      for (size_t t = 1; t < threads; ++t) helpers.emplace_back(work, false);
    } catch (const std::system_error&) {  // no more threads to be had: fewer do it
    }
    work(true);
  }
  if (!stop && progress && !loads.empty() && !progress(loads.size(), loads.size())) stop = true;
  return !stop;
}

Engine::Loaded Engine::load_stored(Session* session, std::unique_lock<std::mutex>& lock, const Progress& progress) {
  Session& s = *session;
  if (!s.store) return Loaded::kNothing;
  Loads loads(cache_.get());
  loads_wanted(session, &loads);
  if (s.stored.foreign_tokens > 0) foreign_loads(session, &loads);
  if (loads.list.empty()) return Loaded::kNothing;
  const uint64_t had = s.kv.table.covered(s.tokens.size());
  bool complete = false, nearer = false;
  {
    Unlocked unlocked(lock);
    complete = read_chunks(s.store.get(), loads.list, progress);
  }
  for (ChunkLoad& load : loads.list) {
    nearer |= load.state == ChunkState::kDamaged;  // the store forgets it
    if (load.state != ChunkState::kOk) {
      s.stored.damaged |= load.tried;
      if (!load.damage.empty()) logf(runtime_->log(), LogLevel::kWarn, "store: %s; its tokens will be computed again", load.damage.c_str());
      continue;
    }
    cache_->replace(&s.kv, load.index, std::exchange(load.block, kNoBlock), static_cast<uint32_t>(load.node.tokens.size()));
    s.stored.disk_tokens += load.node.tokens.size();
    if (load.node.tokens.size() == kv_.block_tokens) cache_->seal(&s.kv, s.tokens, load.index);
  }
  nearer |= s.kv.table.covered(s.tokens.size()) != had;
  return complete ? Loaded::kAll : nearer ? Loaded::kStoppedNearer : Loaded::kStoppedInPlace;
}

// Its chunks, checksums and all, made logits that are not finite: nobody is to load them again. What the session computes now is saved in
// their place.
void Engine::tell_store(Session* session, std::unique_lock<std::mutex>& lock) {
  Session& s = *session;
  s.stored.suspect = false;
  const std::vector<NodeIn> nodes = full_blocks(s);
  const std::vector<std::vector<NodeIn>> chains{nodes, with_tail(s, nodes), foreign_chain(s)};
  s.stored.tail_begin = s.stored.tail_end = s.stored.foreign_tokens = s.saved.blocks = 0;
  s.saved.mark = {};
  Unlocked unlocked(lock);
  uint64_t dropped = 0;
  for (const auto& chain : chains) dropped += s.store->discard(chain, "KV from it made logits that are not finite");
  logf(runtime_->log(), LogLevel::kWarn,
       "session \"%s\": KV that was reused made logits that are not finite: all of it is computed again; %llu chunks of it are forgotten",
       s.saved.name.c_str(), static_cast<unsigned long long>(dropped));
}

// Brings back what exists of a generation's KV, until the deadline; the rest next time. What then is not there is computed. False: it read
// nothing from the store.
bool Engine::warm(Session* session, std::unique_lock<std::mutex>& lock, uint64_t deadline_ns) {
  Session& s = *session;
  bool again = !s.generation->accounted.empty();
  if (s.stored.suspect) tell_store(session, lock);
  if (s.kv.own_only) {
    cache_->extend(&s.kv, s.tokens);
    s.generation->warmed = true;
    return false;
  }
  Loaded loaded = Loaded::kNothing;
  if (s.generation->recompute_all && !again) {
    cache_->release(&s.kv, 0);
    cache_->extend(&s.kv, s.tokens);
  } else {
    cache_->adopt(&s.kv, s.tokens);
    loaded = load_stored(session, lock, [&](uint64_t, uint64_t) { return runtime_->env()->now_ns() < deadline_ns; });
  }
  if (loaded == Loaded::kStoppedNearer) return true;
  if (s.generation->recompute_all && again) {
    s.stored.disk_tokens = 0;  // it reuses nothing: these were its own
  } else {
    scheduler_->count_reuse(session);
  }
  s.generation->warmed = true;
  return loaded != Loaded::kNothing;
}

// Warms who is not, in a quarter of a step's time. False: it read nothing from the store. Who only adopted resident blocks may have to give
// them up in the plan at once; if that counted as done, the step could go round for ever and lend its lock to nobody.
bool Engine::warm_cold(std::unique_lock<std::mutex>& lock) {
  uint64_t deadline_ns = runtime_->env()->now_ns() + uint64_t{step_ms_max_} * 250'000;
  bool any = false;
  while (Session* s = scheduler_->next_cold()) {
    {
      struct InStep {  // also when memory runs out half-way
        Session* session;
        explicit InStep(Session* s) : session(s) { s->use.enter_step(); }
        ~InStep() { session->use.leave_step(); }
      } in_step(s);
      any |= warm(s, lock, deadline_ns);  // without the lock for a while: sessions come and go
    }
    if (s->generation->cancel) scheduler_->finish(s, Reason::kCancelled, runtime_->env()->now_ns());
    if (runtime_->env()->now_ns() >= deadline_ns) break;
  }
  return any;
}

}  // namespace kvrt
