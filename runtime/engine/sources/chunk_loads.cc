#include "runtime/engine/sources/chunk_loads.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/this_thread.h"
#include "runtime/compute/kv_layout.h"

namespace kvrt {

namespace {

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

void ChunkLoads::add_chunk(uint32_t index, const NodeIn& node, uint32_t number, uint32_t groups) {
  Load load;
  load.index = index;
  load.number = number;
  load.node = node;
  const size_t all = memory_.groups().groups.size();
  load.targets.reserve(all);
  for (uint32_t g = 0; g < all; ++g) {
    if (groups >> g & 1) load.targets.push_back({g, kNoBlock, {}});
  }
  list_.push_back(std::move(load));
}

void ChunkLoads::add(uint32_t index, const NodeIn& node, uint32_t chunks, uint32_t groups) {
  const KvGroups& kv = memory_.groups();
  uint32_t rest = groups;
  for (uint32_t g = 0; g < kv.groups.size(); ++g) {
    const uint32_t number = chunk_number(kv, g);
    if ((rest >> g & 1) == 0 || number == kAllLayers || (chunks >> number & 1) == 0) continue;
    add_chunk(index, node, number, 1u << g);
    rest &= ~(1u << g);
  }
  if (rest != 0 && (chunks >> kAllLayers & 1) != 0 && kv.one_shape()) add_chunk(index, node, kAllLayers, rest);
}

// Takes a block for each target, as long as the supply has them. The loads that get none go.
void ChunkLoads::take_blocks(const Session& session, Supply* supply) {
  const auto take = [&](Load& load) {
    for (Target& target : load.targets) {
      target.block = supply->alloc(&session, target.group);
      if (target.block == kNoBlock) return false;
      target.units = cache_->units_of(target.block);
    }
    return true;
  };
  const auto first_without = std::ranges::find_if_not(list_, take);
  if (first_without == list_.end()) return;
  for (Target& target : first_without->targets) {
    if (target.block != kNoBlock) cache_->drop(target.block);
  }
  list_.erase(first_without, list_.end());
}

void ChunkLoads::plan(Session* session, const ChunkLookUp& found, Supply* supply) {
  cold_ = session->stored.cold;
  if (found.own()) plan_own(session, found);
  if (!found.foreign.empty()) plan_foreign(*session, found);
  take_blocks(*session, supply);
}

namespace {
// Why block `at`, the first that no window leads to, lacks KV, of which the groups `has` are there. `resumed`: the session had it when it was
// saved.
void tell_hole(KvSequence* kv, uint32_t at, bool resumed, uint32_t has) {
  const KvShape& shape = kv->shape;
  const uint32_t no_window = (1u << shape.first_window()) - 1;
  // A save keeps the windows at its end: what a cut left ends elsewhere.
  const bool whole_snapshot = kv->cut_known <= uint64_t{at} * shape.block_tokens;
  if (resumed && whole_snapshot) kv->lacks(at, shape.all(), Hole::kNotStored);
  if (has != 0 && (no_window & ~has) == 0) kv->lacks(at, shape.all(), Hole::kBehindWindow);
}

// The first block from `at` on that lacks one of these groups, of which there is one at least.
template <typename Has>
uint32_t has_until(uint32_t at, uint32_t blocks, uint32_t groups, const Has& has) {
  while (groups != 0 && at < blocks && (groups & ~has(at)) == 0) ++at;
  return at;
}

// The groups whose chunks are of use: a state that is not the last is not.
uint32_t wanted_groups(const KvSequence& kv, uint64_t most, uint32_t end, bool from_tail) {
  const bool later_state = from_tail || kv.restart(most) >= uint64_t{end} * kv.shape.block_tokens;
  return later_state ? ~kv.shape.states() : ~0u;
}

}  // namespace

// Plans full blocks without any KV, then the tail.
void ChunkLoads::plan_own(Session* session, const ChunkLookUp& found) {
  Session& s = *session;
  const KvShape& shape = s.kv.shape;
  const uint32_t T = shape.block_tokens;
  const auto tail = static_cast<uint32_t>(found.tail_begin() / T);
  const uint64_t most = s.tokens.size() - last_runs(s);
  const auto has = [&](uint32_t i) {
    const bool may = s.kv.share || uint64_t{i + 1} * T <= s.stored.own_tokens;
    return (shape.all() & ~s.kv.lacking(i)) | (may ? found.stored[i] : 0);
  };
  const auto blocks = static_cast<uint32_t>(found.blocks.size());
  const bool whole_tail = found.tail_whole && found.tail_end() <= most;
  uint32_t end = reachable(shape, blocks, 0, most, has);
  // From the tail's end a window begins later, and the tail has the state.
  const bool from_tail = whole_tail && end <= tail && reachable(shape, tail, found.tail_end() - found.tail_begin(), most, has) == tail;
  if (from_tail) end = tail;
  const uint32_t wants = wanted_groups(s.kv, most, end, from_tail);
  const uint64_t resumed = std::min<uint64_t>(s.stored.resumed_tokens / T, blocks);
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t groups = shape.keeping(i, end) & s.kv.lacking(i) & wants, stored_groups = groups & has(i);
    if (i < resumed) s.kv.lacks(i, groups & ~stored_groups, Hole::kNotStored);
    if (stored_groups != 0) add(i, found.blocks[i], found.has[i], stored_groups);
  }
  const uint32_t no_window = (1u << shape.first_window()) - 1;
  if (shape.has_windows() && end < blocks) tell_hole(&s.kv, end, end < resumed, has(end));
  const uint32_t known = has_until(end, blocks, no_window, has);
  if (known > end) cache_->boundaries().mark(&s.kv, uint64_t{known} * T);  // the next one who comes so far goes on from there
  if (found.tail_has != 0 && (end == tail || !shape.has_windows()) && planned(tail) == 0) {
    add(tail, found.branch.back(), found.tail_has, shape.all());
  }
}

// Plans chunks of the other arithmetic's snapshot, for blocks that the session's own chain had no chunk for.
void ChunkLoads::plan_foreign(const Session& session, const ChunkLookUp& found) {
  const KvShape& shape = session.kv.shape;
  const auto blocks = static_cast<uint32_t>(found.foreign.size());
  const uint32_t end = reachable(shape, blocks, 0, session.tokens.size() - last_runs(session),
                                 [&](uint32_t i) { return found.foreign_stored[i] | (shape.all() & ~session.kv.lacking(i)); });
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint32_t groups = shape.keeping(i, end) & session.kv.lacking(i) & found.foreign_stored[i] & ~planned(i);
    if (groups != 0) add(i, found.foreign[i], found.foreign_has[i], groups);
  }
}

// Reads a chunk, as the device has its block.
ChunkState ChunkLoads::read_block(const Load& load, ChunkSource* source, std::span<uint8_t> to, std::string* damage) const {
  const uint32_t number = load.number;
  const uint32_t layout = cold_ && cold_->rounds(number) ? source->layout_of(load.node, number) : 0;
  if (cold_ && cold_->rounds(number) && layout == 0) return ChunkState::kAbsent;  // which of the two it is cannot be told now
  if (layout != 0 && layout == cold_->layout(number)) {
    std::vector<uint8_t> payload(cold_->bytes(number));
    const ChunkState state = source->read(load.node, number, cold_->layout(number), payload, damage);
    const uint64_t position = uint64_t{load.index} * memory_.kv().block_tokens();
    if (state == ChunkState::kOk) cold_->decode(number, position, static_cast<uint32_t>(load.node.tokens.size()), payload, to);
    return state;
  }
  const KvChunk& chunk = memory_.chunk(number);
  std::vector<uint8_t> scratch(payload_scratch_bytes(chunk.geometry));
  const ChunkState state = source->read(load.node, number, chunk.layout(), to, damage);
  if (state == ChunkState::kOk) from_payload(chunk.geometry, to, scratch);
  return state;
}

// Where the chunk is one unit, it is decoded there. Else its parts go from `payload` to their units.
Status ChunkLoads::read_one(Load* load, ChunkSource* source, std::vector<uint8_t>* payload) {
  const KvChunk& chunk = memory_.chunk(load->number);
  Backend* const backend = memory_.backend();
  const uint64_t unit_bytes = memory_.kv().unit_bytes();
  const auto decode = [&](std::span<uint8_t> to) { load->state = read_block(*load, source, to, &load->damage); };
  if (load->targets.size() == 1 && load->targets[0].units.size() == 1 && chunk.parts.size() == 1 && chunk.parts[0].bytes == unit_bytes) {
    return backend->upload(memory_.unit(load->targets[0].units[0]), unit_bytes, decode);
  }
  payload->resize(chunk.geometry.block_bytes());
  decode(*payload);
  if (load->state != ChunkState::kOk) return {};
  for (const Target& target : load->targets) {
    for (const ChunkPart& part : chunk.parts) {
      if (part.group != target.group) continue;
      KVRT_TRY(backend->upload(memory_.unit(target.units[part.unit]) + part.in_unit, part.bytes, [&](std::span<uint8_t> to) {
        std::copy_n(payload->begin() + static_cast<int64_t>(part.in_chunk), to.size(), to.begin());
      }));
    }
  }
  return {};
}

bool ChunkLoads::read(const Runtime& runtime, ChunkSource* source, const Progress& progress) {
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  auto work = [&](bool report) {
    std::vector<uint8_t> payload;
    for (size_t i; !stop && (i = next.fetch_add(1)) < list_.size();) {
      Load& load = list_[i];
      load.tried = true;
      try {
        const Status uploaded = read_one(&load, source, &payload);
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

bool ChunkLoads::put_into(Session* session, Log* log) {
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
      if (!load.damage.empty()) logf(log, LogLevel::kWarn, "store: %s; its tokens will be computed again", load.damage.c_str());
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
