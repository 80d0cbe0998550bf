#include "runtime/engine/sources/chunk_loads.h"

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

// 1 where the last row has to run, and goes on from the state before it.
uint64_t last_runs(const Session& s) { return s.kv.shape.has_states() && s.generation && !s.tokens.empty(); }

// Groups whose block i has no KV, as bits.
uint32_t lacking(const KvSequence& kv, uint32_t i) {
  uint32_t groups = 0;
  for (uint32_t g = 0; g < kv.shape.n_groups; ++g) groups |= kv.tables[g].filled(i) == 0 ? 1u << g : 0;
  return groups;
}

// The count of leading blocks from whose end computing could go on with all KV that memory and store have: `has(i)` gives the groups that
// have block i, as bits. `tail`: so many tokens more are there behind all blocks, so that a window there may begin later. Not past `most`.
template <typename Has>
uint32_t reachable(const KvShape& shape, uint32_t blocks, uint64_t tail, uint64_t most, Has has) {
  auto end = static_cast<uint32_t>(std::min<uint64_t>(blocks, most / shape.block_tokens));
  for (uint32_t i = 0; i < end; ++i) {
    for (uint32_t g = 0; g < shape.n_groups; ++g) {
      if (shape.groups[g].window == 0 && (has(i) >> g & 1) == 0) end = i;
    }
  }
  for (; end > 0; --end) {
    bool whole = true;
    const uint64_t position = uint64_t{end} * shape.block_tokens + (end == blocks ? tail : 0);
    for (uint32_t g = 0; g < shape.n_groups; ++g) {
      const uint64_t window = shape.groups[g].window;
      if (window == 0) continue;
      for (uint64_t i = position > window ? (position - window) / shape.block_tokens : 0; i < end; ++i) whole &= has(i) >> g & 1;
    }
    if (whole) break;
  }
  return end;
}

}  // namespace

std::vector<std::vector<NodeIn>> stored_chains(const Session& s) {
  std::vector<NodeIn> nodes = full_blocks(s), branch = with_tail(s, nodes);
  return {std::move(nodes), std::move(branch), foreign_chain(s)};
}

ChunkLoads::~ChunkLoads() {
  for (const Load& load : list_) {
    for (const Target& target : load.targets) {
      if (target.block != kNoBlock) cache_->drop(target.block);
    }
  }
}

uint32_t ChunkLoads::planned(uint32_t index) const {
  uint32_t groups = 0;
  for (const Load& load : list_) {
    for (const Target& target : load.targets) groups |= load.index == index ? 1u << target.group : 0;
  }
  return groups;
}

bool ChunkLoads::add_chunk(uint32_t index, const NodeIn& node, uint32_t number, uint32_t groups, const Session& session, Supply* supply) {
  list_.reserve(list_.size() + 1);  // before a block is taken: it needs memory
  Load load;
  load.index = index;
  load.number = number;
  load.node = node;
  load.targets.reserve(kv_.groups.size());
  for (uint32_t g = 0; g < kv_.groups.size(); ++g) {
    if (groups >> g & 1) load.targets.push_back({g, kNoBlock, {}});
  }
  list_.push_back(std::move(load));
  for (Target& target : list_.back().targets) {
    target.block = supply->alloc(&session, target.group);
    if (target.block == kNoBlock) return false;
    target.units = cache_->units_of(target.block);
  }
  return true;
}

bool ChunkLoads::add(uint32_t index, const NodeIn& node, uint32_t chunks, uint32_t groups, const Session& session, Supply* supply) {
  uint32_t rest = groups;
  for (uint32_t g = 0; g < kv_.groups.size(); ++g) {
    const uint32_t number = chunk_number(kv_, g);
    if ((rest >> g & 1) == 0 || number == kAllLayers || (chunks >> number & 1) == 0) continue;
    if (!add_chunk(index, node, number, 1u << g, session, supply)) return false;
    rest &= ~(1u << g);
  }
  return rest == 0 || (chunks >> kAllLayers & 1) == 0 || !one_shape(kv_) || add_chunk(index, node, kAllLayers, rest, session, supply);
}

void ChunkLoads::plan(Session* session, Supply* supply) {
  plan_own(session, supply);
  if (session->stored.foreign_tokens > 0) plan_foreign(session, supply);
  std::erase_if(list_, [&](const Load& load) {  // the last one, if the blocks ran out
    const bool whole = std::ranges::none_of(load.targets, [](const Target& target) { return target.block == kNoBlock; });
    for (const Target& target : load.targets) {
      if (!whole && target.block != kNoBlock) cache_->drop(target.block);
    }
    return !whole;
  });
}

// Plans full blocks without any KV, then the tail.
void ChunkLoads::plan_own(Session* session, Supply* supply) {
  Session& s = *session;
  const KvShape& shape = s.kv.shape;
  const uint32_t T = shape.block_tokens;
  const std::vector<NodeIn> nodes = full_blocks(s);  // the whole chain, as the store looks it up
  const auto tail = static_cast<uint32_t>(s.stored.tail_begin / T);
  bool wanted = false;
  const uint64_t most = s.tokens.size() - last_runs(s);
  for (uint32_t i = 0; i < nodes.size(); ++i) wanted |= lacking(s.kv, i) != 0 && (s.kv.share || uint64_t{i + 1} * T <= s.stored.own_tokens);
  std::vector<NodeIn> branch;
  const bool lacks_state = shape.has_states() && s.stored.tail_end <= most && s.kv.restart(most) < s.stored.tail_end;
  if (lacking(s.kv, tail) == shape.all() || lacks_state) branch = with_tail(s, nodes);
  const bool ready = shape.has_states() ? s.kv.restart(most) == most : s.kv.ready(nodes.size() * T) == nodes.size() * T;
  if ((!wanted || ready) && branch.empty()) return;
  const bool one_chain = branch.size() == nodes.size() + 1;
  const std::vector<uint32_t> chunks = s.store->find(one_chain ? branch : nodes), stored = groups_stored(kv_, chunks);
  const uint32_t tail_chunks = one_chain ? chunks.back() : branch.empty() ? 0 : s.store->find(branch).back();
  const auto has = [&](uint32_t i) {
    const bool may = s.kv.share || uint64_t{i + 1} * T <= s.stored.own_tokens;
    return (shape.all() & ~lacking(s.kv, i)) | (may ? stored[i] : 0);
  };
  const auto blocks = static_cast<uint32_t>(nodes.size());
  const bool whole_tail = tail_chunks != 0 && groups_stored(kv_, {tail_chunks})[0] == shape.all() && s.stored.tail_end <= most;
  uint32_t end = reachable(shape, blocks, 0, most, has);
  // From the tail's end a window begins later, and the tail has the state.
  const bool from_tail = whole_tail && end <= tail && reachable(shape, tail, s.stored.tail_end - s.stored.tail_begin, most, has) == tail;
  if (from_tail) end = tail;
  const bool later_state = from_tail || s.kv.restart(most) >= uint64_t{end} * T;
  const uint32_t wants = later_state ? ~shape.states() : ~0u;
  const uint64_t resumed = std::min<uint64_t>(s.stored.resumed_tokens / T, blocks);
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t groups = shape.keeping(i, end) & lacking(s.kv, i) & wants, stored_groups = groups & has(i);
    if (i < resumed) s.kv.lacks(i, groups & ~stored_groups, Hole::kNotStored);
    if (stored_groups != 0 && !add(i, nodes[i], chunks[i], stored_groups, s, supply)) return;
  }
  const uint32_t no_window = (1u << shape.first_window()) - 1;
  if (shape.has_windows() && end < blocks) {
    // A save keeps the windows at its end: what a cut left ends elsewhere.
    const bool whole_snapshot = s.kv.cut_known <= uint64_t{end} * T;
    const bool stored_behind = has(end) != 0 && (no_window & ~has(end)) == 0;
    if (end < resumed && whole_snapshot) s.kv.lacks(end, shape.all(), Hole::kNotStored);
    if (stored_behind) s.kv.lacks(end, shape.all(), Hole::kBehindWindow);
  }
  uint32_t known = end;
  while (no_window != 0 && known < blocks && (no_window & ~has(known)) == 0) ++known;
  if (known > end) cache_->boundaries().mark(&s.kv, uint64_t{known} * T);  // the next one who comes so far goes on from there
  if (tail_chunks != 0 && (end == tail || !shape.has_windows()) && planned(tail) == 0)
    add(tail, branch.back(), tail_chunks, shape.all(), s, supply);
}

// Plans chunks of the other arithmetic's snapshot, for blocks that the session's own chain had no chunk for.
void ChunkLoads::plan_foreign(Session* session, Supply* supply) {
  const std::vector<NodeIn> nodes = foreign_chain(*session);
  const std::vector<uint32_t> chunks = session->store->find(nodes), stored = groups_stored(kv_, chunks);
  const KvShape& shape = session->kv.shape;
  const auto blocks = static_cast<uint32_t>(nodes.size());
  const uint32_t end = reachable(shape, blocks, 0, session->tokens.size() - last_runs(*session),
                                 [&](uint32_t i) { return stored[i] | (shape.all() & ~lacking(session->kv, i)); });
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t groups = shape.keeping(i, end) & lacking(session->kv, i) & stored[i] & ~planned(i);
    if (groups != 0 && !add(i, nodes[i], chunks[i], groups, *session, supply)) return;
  }
}

// Where the chunk is one unit, it is decoded there. Else its parts go from `payload` to their units.
Status ChunkLoads::read_one(Load* load, Backend* backend, uint8_t* pool, Store* store, std::vector<uint8_t>* payload) {
  const KvChunk& chunk = chunks_[load->number];
  const uint64_t unit_bytes = kv_.unit_bytes();
  std::vector<uint8_t> scratch(payload_scratch_bytes(chunk.geometry));
  const auto decode = [&](std::span<uint8_t> to) {
    load->state = store->read(load->node, load->number, chunk.layout(), to, &load->damage);
    if (load->state == ChunkState::kOk) from_payload(chunk.geometry, to, scratch);
  };
  const auto unit_data = [&](BlockId unit) { return pool + static_cast<uint64_t>(unit) * unit_bytes; };
  if (load->targets.size() == 1 && load->targets[0].units.size() == 1 && chunk.parts.size() == 1 && chunk.parts[0].bytes == unit_bytes) {
    return backend->upload(unit_data(load->targets[0].units[0]), unit_bytes, decode);
  }
  payload->resize(chunk.geometry.block_bytes());
  decode(*payload);
  if (load->state != ChunkState::kOk) return {};
  for (const Target& target : load->targets) {
    for (const ChunkPart& part : chunk.parts) {
      if (part.group != target.group) continue;
      KVRT_TRY(backend->upload(unit_data(target.units[part.unit]) + part.in_unit, part.bytes, [&](std::span<uint8_t> to) {
        std::copy_n(payload->begin() + static_cast<int64_t>(part.in_chunk), to.size(), to.begin());
      }));
    }
  }
  return {};
}

bool ChunkLoads::read(const Runtime& runtime, uint8_t* pool, Store* store, const Progress& progress) {
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  auto work = [&](bool report) {
    std::vector<uint8_t> payload;
    for (size_t i; !stop && (i = next.fetch_add(1)) < list_.size();) {
      Load& load = list_[i];
      load.tried = true;
      try {
        const Status uploaded = read_one(&load, runtime.backend(), pool, store, &payload);
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
  const auto known = [&] {
    const uint64_t n = s.tokens.size();
    return s.kv.shape.has_states() ? s.kv.restart(n - last_runs(s)) : s.kv.reusable(n);
  };
  const uint64_t had = known();
  for (Load& load : list_) {
    forgot |= load.state == ChunkState::kDamaged;
    if (load.state != ChunkState::kOk) {
      for (const Target& target : load.targets) {
        if (load.tried) s.kv.lacks(load.index, 1u << target.group, Hole::kDamaged);
      }
      if (!load.damage.empty()) logf(runtime.log(), LogLevel::kWarn, "store: %s; its tokens will be computed again", load.damage.c_str());
      continue;
    }
    const auto filled = static_cast<uint32_t>(load.node.tokens.size());
    for (Target& target : load.targets) {
      cache_->replace(&s.kv, target.group, load.index, target.block, filled);
      target.block = kNoBlock;  // only now: replace needs memory for the table
      if (filled == s.kv.shape.block_tokens) cache_->seal(&s.kv, s.tokens, target.group, load.index);
      const bool last = uint64_t{load.index} * s.kv.shape.block_tokens + filled == s.tokens.size();
      if (last) s.kv.tables[target.group].say(load.index, Hole::kNeverComputed);  // it lacks nothing
    }
  }
  s.stored.disk_tokens += std::max(known(), had) - had;
  return forgot;
}

}  // namespace kvrt
