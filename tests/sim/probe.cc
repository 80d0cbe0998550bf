#include "tests/sim/probe.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <set>

#include "tests/sim/oracle.h"

namespace kvrt {

namespace {

[[gnu::format(printf, 1, 2)]] std::string say(const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

}  // namespace

Probe::Holders Probe::holders() const {
  Holders held(cache().pool_.size());
  for (const Session* s : parts().queue.sessions()) {
    for (uint32_t g = 0; g < s->kv.tables.size(); ++g) {
      const BlockTable& table = s->kv.tables[g];
      for (uint32_t i = 0; i < table.size(); ++i) {
        if (table.block(i) != kNoBlock) held[static_cast<size_t>(table.block(i))].push_back({s, g, i});
      }
    }
  }
  return held;
}

// Every reference has its holder; free, cached and used blocks are the pool.
std::string Probe::check_pool(const Holders& held) const {
  const BlockPool& pool = cache().pool_;
  std::vector<uint32_t> copies(pool.size());
  for (const BlockCopy& copy : plan().copies) ++copies[static_cast<size_t>(copy.from)];
  std::set<BlockId> units(pool.free_.begin(), pool.free_.end());
  if (units.size() != pool.free_.size()) return "a unit is free twice";
  const auto take = [&](BlockId block) {  // no unit is in two blocks, or free and in one
    for (BlockId unit = block; unit != kNoBlock; unit = pool.next_unit(unit)) {
      if (!units.insert(unit).second) return false;
    }
    return true;
  };
  for (uint32_t b = 0; b < pool.size(); ++b) {
    const auto block = static_cast<BlockId>(b);
    const size_t want = held[b].size() + copies[b];
    if (pool.refs_[b] != want) return say("block %u has %u references, %zu holders", b, pool.refs_[b], want);
    const PrefixIndex::Entry* entry = cache().index_.find(block);
    const bool cached = pool.cached(block);
    if (cached && (want || !entry)) return say("block %u is cached, has %zu holders and is%s indexed", b, want, entry ? "" : " not");
    if (!want && entry && !cached) return say("block %u is free and indexed", b);
    if ((want || cached) && !take(block)) return say("block %u has a unit that another has", b);
    const uint32_t group = entry ? entry->group : want && !held[b].empty() ? held[b][0].group : 0;
    if ((cached || !held[b].empty()) && pool.units(block) != cache().shape().groups[group].units)
      return say("block %u of group %u has %u units", b, group, pool.units(block));
    if (!cached || cache().shape().groups[group].window == 0) continue;
    if (!entry->link->boundary && entry->link->kept[group] == 0) return say("block %u of a window is kept for no boundary", b);
  }
  if (units.size() != pool.size()) return say("%zu of %u units are free or in blocks", units.size(), pool.size());
  uint32_t linked = 0;
  for (const Keep lru : {Keep::kCached, Keep::kCachedWindow}) {
    for (BlockId b = pool.oldest(lru); b != kNoBlock; b = pool.after(b), ++linked) {
      if (!pool.cached(b)) return say("block %d of an LRU is not cached", b);
    }
  }
  const auto cached = static_cast<uint32_t>(
      std::count_if(pool.kept_.begin(), pool.kept_.end(), [](Keep k) { return k == Keep::kCached || k == Keep::kCachedWindow; }));
  if (linked != cached) return say("%u blocks in the LRUs, %u cached ones that should be there", linked, cached);
  return "";
}

std::string Probe::check_index(bool deep) const {
  const PrefixIndex& index = cache().index_;
  std::set<const ChainLink*> links;
  for (const auto& [block, entry] : index.entries_) links.insert(entry.link.get());
  size_t children = 0;
  for (const auto& [parent, siblings] : index.by_parent_) {
    for (size_t i = 0; i < siblings.size(); ++i, ++children) {
      if (!links.contains(siblings[i]) || siblings[i]->sibling != i || siblings[i]->parent != parent) return "the index's maps differ";
    }
  }
  if (children != links.size()) return say("%zu links with a block, %zu under their parents", links.size(), children);
  for (const auto& [block, entry] : index.entries_) {
    const ChainRef& link = entry.link;
    if (link->places[entry.group] != block) return say("block %d is not under its link", block);
    const bool within = cache().shape().groups[entry.group].state && link->tokens.size() < cache().block_tokens();
    if (within && link->boundary != (link->kept[entry.group] == 1)) return say("a state within block %d is no boundary", block);
    if (!within && link->tokens.size() != cache().block_tokens())
      return say("block %d is indexed with %zu tokens", block, link->tokens.size());
    if (deep && chain_key(link->parent, link->tokens, link->items) != link->key) return say("block %d is indexed under another key", block);
  }
  return "";
}

std::string Probe::check_session(const Session& s, bool deep) const {
  const uint32_t T = cache().block_tokens();
  if (s.kv.chain.size() * T > s.tokens.size()) return say("%zu keys for %zu tokens", s.kv.chain.size(), s.tokens.size());
  for (uint32_t i = 0; deep && i < s.kv.chain.size(); ++i) {
    const ChainLink& link = *s.kv.chain[i];
    if (link.before != (i ? s.kv.chain[i - 1] : nullptr) || link.parent != (i ? s.kv.chain[i - 1]->key : s.kv.root))
      return say("link %u is not of its chain", i);
    if (chain_key(link.parent, std::span(s.tokens).subspan(i * T, T)) != link.key) return say("key %u is not its tokens'", i);
  }
  for (uint32_t g = 0; g < s.kv.tables.size(); ++g) {
    const BlockTable& table = s.kv.tables[g];
    for (uint32_t i = 0; i < table.size(); ++i) {
      BlockId block = table.block(i);
      if (block != kNoBlock && uint64_t{i} * T >= s.tokens.size() && !s.use.in_step())
        return say("block %u is past token %zu", i, s.tokens.size());
      uint32_t filled = table.filled(i);
      if (filled > T || (block == kNoBlock && filled)) return say("block %u of the table has %u filled", i, filled);
      if (filled && uint64_t{i} * T + filled > s.tokens.size()) return say("KV past token %zu", s.tokens.size());
      const PrefixIndex::Entry* entry = block == kNoBlock ? nullptr : cache().index_.find(block);
      if (!entry) continue;
      if (!s.kv.share) return say("block %d of a session that shares nothing is indexed", block);
      if (entry->group != g) return say("block %d of group %u is in a table of group %u", block, entry->group, g);
      if (!std::equal(entry->link->tokens.begin(), entry->link->tokens.begin() + filled, s.tokens.begin() + i * T)) {
        return say("block %d is indexed with other tokens than its holder's at %u", block, i * T);
      }
      if (entry->link->before != (i ? s.kv.chain.at(i - 1) : nullptr) || (i == 0 && entry->link->parent != s.kv.root))
        return say("block %d is indexed under another parent", block);
    }
    // After a step a window has what it needs, and no more than two and the rows of one.
    const uint64_t window = s.kv.shape.groups[g].window;
    if (window > 0 && table.blocks_held() > (3 * window + s.kv.shape.step_rows) / T + 4)
      return say("%u blocks of a window of %llu", table.blocks_held(), static_cast<unsigned long long>(window));
  }
  for (const auto* ends : {&s.kv.marks, &s.kv.due, &s.kv.asked}) {
    if (!ends->empty() && ends->back() > s.tokens.size()) return "a mark past the tokens";
  }
  if (s.mailbox.size() > 68) return say("%zu unread events", s.mailbox.size());
  if (s.use.pinned()) return "pinned between calls";
  return deep ? check_kv(s) : "";
}

// A block's holders agree on its content.
std::string Probe::check_shared(const Holders& held) const {
  const uint32_t T = cache().block_tokens();
  for (const auto& holders : held) {
    for (size_t h = 1; h < holders.size(); ++h) {
      const Holder &a = holders[0], &b = holders[h];
      if (a.index != b.index || a.group != b.group) return say("a block is at %u and at %u", a.index, b.index);
      uint32_t n = std::min(a.session->kv.tables[a.group].filled(a.index), b.session->kv.tables[b.group].filled(b.index));
      auto end = static_cast<ptrdiff_t>(a.index * T + n);
      if (a.session->domain != b.session->domain) return "a block is shared between domains";
      if (!std::equal(a.session->tokens.begin(), a.session->tokens.begin() + end, b.session->tokens.begin())) {
        return say("a block at %u is shared by sessions whose tokens differ", a.index);
      }
    }
  }
  return "";
}

std::string Probe::check_kv(const Session& s) const {
  const uint32_t T = cache().block_tokens();
  const std::vector<uint32_t> windows = test::toy_windows(kv_groups());
  test::ToyState state(windows);
  for (uint64_t p = 0; p < s.tokens.size(); ++p) {
    const std::vector<uint64_t> want = test::oracle_kv(&state, windows.size(), s.tokens[p], p);
    const auto i = static_cast<uint32_t>(p / T);
    for (uint32_t g = 0; g < windows.size(); ++g) {
      if (p % T >= s.kv.tables[g].filled(i)) continue;
      if (s.kv.shape.groups[g].state) {
        uint64_t have = 0;
        if (p % T + 1 < s.kv.tables[g].filled(i)) continue;  // it is the state after the last of its tokens
        const std::vector<BlockId> units = cache().units_of(s.kv.tables[g].block(i));
        const bool whole = test::toy_read_state(kv_groups().states, engine->memory_->pool()->data(), units.data(), &have);
        if (!whole || have != (state.folded(g) ^ salt(s)))
          return say("the state at position %llu is another's", static_cast<unsigned long long>(p));
        continue;
      }
      uint32_t index = 0;
      for (BlockId unit = s.kv.tables[g].block(i); unit != kNoBlock; unit = cache().next_unit(unit), ++index) {
        uint64_t have = 0;
        const bool whole =
            test::toy_read_slot(kv_groups().groups[g], engine->memory_->unit(unit), index, static_cast<uint32_t>(p % T), &have);
        if (!whole || have != (want[g] ^ salt(s)))
          return say("the KV of position %llu in group %u is another's", static_cast<unsigned long long>(p), g);
      }
    }
  }
  return "";
}

uint64_t Probe::salt(const Session& s) const { return salted ? std::hash<std::string>()(s.domain) : 0; }

std::vector<uint64_t> Probe::salts() const {
  std::vector<uint64_t> all;
  for (const PlannedSeq& seq : plan().seqs) all.push_back(salt(*seq.session));
  return all;
}

size_t Probe::hash_of(BlockId unit) const {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(engine->memory_->unit(unit)), kv_groups().unit_bytes()});
}

// Also where no step computes: a resume fills units from the store.
void Probe::note_roots(const Holders& held) {
  for (size_t b = 0; b < held.size(); ++b) {
    for (const Holder& h : held[b]) {
      if (h.session->kv.tables[h.group].filled(h.index) == 0 && !h.session->use.in_step()) continue;
      for (BlockId unit = static_cast<BlockId>(b); unit != kNoBlock; unit = cache().next_unit(unit))
        left_[unit] = {h.session->kv.root, hash_of(unit)};
    }
  }
}

std::string Probe::check(bool deep) {
  Holders held = holders();
  if (!engine->parts_->driver.leader_) note_roots(held);
  const uint32_t windows = cache().pool_.window_count(), most = static_cast<uint32_t>(cache().boundaries_.units_max_);
  std::string wrong = windows <= most ? check_pool(held) : say("windows at boundaries alone have %u units, %u are allowed", windows, most);
  if (wrong.empty()) wrong = check_index(deep);
  if (wrong.empty()) wrong = check_shared(held);
  for (const Session* s : parts().queue.sessions()) {
    if (!wrong.empty()) return wrong;
    wrong = check_session(*s, deep);
  }
  return wrong;
}

// A unit that comes from another domain has nothing of it when its first rows are written.
std::string Probe::check_domains(const Step& step) {
  const uint32_t T = cache().block_tokens();
  const KvGroups& kv = kv_groups();
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const StepSeq& seq = step.seqs[q];
    const Session& s = *plan().seqs[q].session;
    const auto begin = static_cast<uint64_t>(seq.first_position);
    for (uint32_t t = 0; t < kv.tables(); ++t) {
      uint32_t g = 0;
      while (t >= kv.groups[g].first_table + kv.groups[g].tables) ++g;
      for (uint64_t i = begin / T; (seq.stores >> g & 1) && i * T < begin + seq.n_rows && i < seq.n_blocks; ++i) {
        const int32_t unit = seq.table(t)[i];
        const auto last = left_.find(unit);
        if (last == left_.end() || last->second.root == s.kv.root || s.kv.tables[g].filled(static_cast<uint32_t>(i)) > 0) continue;
        if (hash_of(unit) != last->second.bytes) continue;  // written or loaded since: salts differ, so no two domains have equal KV
        const auto& copies = plan().unit_copies;            // a copy has written all of the unit, with KV of this domain
        if (std::any_of(copies.begin(), copies.end(), [&](const UnitCopy& c) { return c.to == unit; })) continue;
        const uint8_t* bytes = engine->memory_->unit(unit);
        if (std::any_of(bytes, bytes + kv.unit_bytes(), [](uint8_t b) { return b != 0; })) {
          return say("unit %d still has what another domain left", unit);
        }
      }
    }
  }
  note_roots(holders());
  return "";
}

std::string Probe::check_step(const Step& step) {
  const uint32_t T = cache().block_tokens();
  std::string wrong = check(false);
  if (wrong.empty()) wrong = check_rows(step);
  if (wrong.empty()) wrong = check_domains(step);
  if (!wrong.empty()) return wrong;
  std::set<BlockId> written;
  for (const BlockCopy& copy : plan().copies) {
    if (cache().pool_.refs(copy.to) != 1 || !written.insert(copy.to).second) return say("block %d is copied to and shared", copy.to);
  }
  written.clear();
  std::set<std::pair<const ChainLink*, uint32_t>> computing;
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const StepSeq& seq = step.seqs[q];
    const Session& s = *plan().seqs[q].session;
    auto begin = static_cast<uint64_t>(seq.first_position), end = begin + seq.n_rows;
    // A state that is written over is there no more.
    const uint64_t ready = seq.state_to ? s.kv.without_window(begin) : s.kv.restart(begin);
    if (ready < begin && seq.stores) return say("rows from %llu on, and KV is missing before", static_cast<unsigned long long>(begin));
    bool again = s.generation->progress.recompute_all;
    for (uint32_t g = 0; g < s.kv.tables.size(); ++g) {
      const BlockTable& table = s.kv.tables[g];
      const bool stores = seq.stores >> g & 1;
      const bool state = s.kv.shape.groups[g].state;
      for (uint64_t p = begin; !again && !state && p < end; ++p) {
        if ((p % T < table.filled(static_cast<uint32_t>(p / T))) != stores) continue;
        return say("position %llu has its KV and is stored again, or has none and is not stored", static_cast<unsigned long long>(p));
      }
      const uint64_t own = begin / T;  // the block that it goes on with is nobody else's to compute
      if (s.kv.share && stores && !again && !s.kv.own_only && own < s.kv.chain.size() &&
          !computing.insert({s.kv.chain[own].get(), g}).second) {
        return say("the block at %llu is computed twice in a step", static_cast<unsigned long long>(own * T));
      }
      for (uint64_t i = (state ? end - 1 : begin) / T; stores && i * T < end; ++i) {
        const BlockId block = table.block(static_cast<uint32_t>(i));
        if (block == kNoBlock || (!state && i >= seq.n_blocks)) return "rows without a block";
        if (cache().pool_.refs(block) != 1) return say("block %d is written and has %u holders", block, cache().pool_.refs(block));
        if (cache().index_.contains(block)) return say("block %d is written and indexed", block);
        if (!written.insert(block).second) return say("block %d is written by two sessions", block);
      }
    }
  }
  return "";
}

void Probe::poison() {
  const uint64_t bytes = kv_groups().unit_bytes();
  for (const BlockId unit : cache().pool_.free_) std::memset(engine->memory_->unit(unit), 0xee, bytes);
  Holders held = holders();
  for (uint32_t b = 0; b < held.size(); ++b) {
    const auto block = static_cast<BlockId>(b);
    if (held[b].empty() || cache().index_.contains(block)) continue;
    uint32_t filled = 0, index = 0;
    const KvGroup& group = kv_groups().groups[held[b][0].group];
    for (const Holder& h : held[b]) filled = std::max(filled, h.session->kv.tables[h.group].filled(h.index));
    for (BlockId unit = block; unit != kNoBlock; unit = cache().next_unit(unit), ++index) {
      if (filled == 0) std::memset(engine->memory_->unit(unit), 0xee, bytes);
      for (uint32_t slot = filled; filled && !group.state && slot < group.unit.block_tokens; ++slot) {
        test::toy_write_slot(group, engine->memory_->unit(unit), index, slot, 0xeeee'eeee'eeee'eeeeull);
      }
    }
  }
}

bool Probe::evict(uint64_t random) {
  KvCache& s = engine->parts_->cache;
  std::vector<BlockId> cached;
  for (uint32_t b = 0; b < s.pool_.size(); ++b) {
    if (s.pool_.cached(static_cast<BlockId>(b))) cached.push_back(static_cast<BlockId>(b));
  }
  if (cached.empty()) return false;
  s.forget(cached[random % cached.size()]);
  return true;
}

uint32_t Probe::holes() const {
  uint32_t count = 0;
  for (const PlannedSeq& seq : plan().seqs) {
    const Session& s = *seq.session;
    count += seq.run.stores && s.kv.reusable(s.tokens.size()) > s.kv.ready(s.tokens.size());
  }
  return count;
}

const Session* Probe::oldest_runnable() const {
  const Session* oldest = nullptr;
  for (const Session* s : parts().queue.sessions()) {
    if (s->runnable() && (!oldest || s->generation->order < oldest->generation->order)) oldest = s;
  }
  return oldest;
}

bool Probe::waits_for_other(const Session& s) const {
  if (!s.runnable() || !s.generation->warmed || s.use.in_step() || !s.kv.share || s.kv.own_only) return false;
  auto i = s.kv.ready(s.tokens.size()) / cache().block_tokens();
  if (i >= s.kv.chain.size()) return false;
  const auto claim = parts().planner.claimed_.find(s.kv.chain[i].get());
  const uint32_t stores = s.kv.next_run(s.tokens.size()).stores;
  for (uint32_t g = 0; claim != parts().planner.claimed_.end() && g < kKvGroupsMax; ++g) {
    if ((stores >> g & 1) && claim->second[g] && claim->second[g] != &s) return true;
  }
  return false;
}

std::string Probe::describe() const {
  const BlockPool& pool = cache().pool_;
  std::string line = say("%u blocks, %u free, %u cached:", pool.size(), pool.free_count(), pool.cached_count());
  for (const Session* s : parts().queue.sessions()) {
    line += say(" [%zu tokens, KV %zu, %u blocks", s->tokens.size(), size_t{s->kv.ready(s->tokens.size())}, s->kv.blocks_held());
    if (const Generation* g = s->generation.get(); g && !g->finished) {
      line += say(", #%zu%s%s%s%s", size_t{g->order}, s->runnable() ? " runnable" : " waits", g->admitted ? " admitted" : "",
                  g->warmed ? " warmed" : "", s->use.in_step() ? " in step" : "");
    }
    line += s->failure.is_ok() ? "]" : ", failed]";
  }
  for (const PlannedSeq& seq : plan().seqs)
    line += say(" %zu..%zu%s", size_t{seq.run.begin}, size_t{seq.run.end}, seq.run.stores ? "" : " query");
  return line + "\n";
}

}  // namespace kvrt
