#include "tests/sim/probe.h"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <set>

#include "tests/sim/toy.h"

namespace kvrt {

namespace {

using test::toy_kv;
using test::toy_next;

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
  for (const Session* s : scheduler().sessions_) {
    const BlockTable& table = s->kv.tables[0];
    for (uint32_t i = 0; i < table.size(); ++i) {
      if (table.block(i) != kNoBlock) held[static_cast<size_t>(table.block(i))].push_back({s, i});
    }
  }
  return held;
}

// Every reference has its holder; free, cached and used blocks are the pool.
std::string Probe::check_pool(const Holders& held) const {
  const BlockPool& pool = cache().pool_;
  std::vector<uint32_t> copies(pool.size());
  for (const BlockCopy& copy : plan().copies) ++copies[static_cast<size_t>(copy.from)];
  uint32_t used = 0;
  for (uint32_t b = 0; b < pool.size(); ++b) {
    size_t want = held[b].size() + copies[b];
    if (pool.refs_[b] != want) return say("block %u has %u references, %zu holders", b, pool.refs_[b], want);
    used += want > 0;
    bool indexed = cache().index_.contains(static_cast<BlockId>(b));
    const bool cached = pool.cached(static_cast<BlockId>(b));
    if (cached && (want || !indexed)) return say("block %u is cached, has %zu holders and is%s indexed", b, want, indexed ? "" : " not");
    if (!want && indexed && !cached) return say("block %u is free and indexed", b);
  }
  std::set<BlockId> unused(pool.free_.begin(), pool.free_.end());
  if (unused.size() != pool.free_.size()) return "a block is free twice";
  for (BlockId b = pool.oldest(Keep::kCached); b != kNoBlock; b = pool.after(b)) {
    if (!pool.cached(b) || !unused.insert(b).second) return say("block %d of the LRU is not cached, or free", b);
  }
  for (BlockId b : unused) {
    if (pool.refs(b) != 0) return say("block %d is unused and has references", b);
  }
  if (unused.size() + used != pool.size()) return say("%zu unused and %u used blocks of %u", unused.size(), used, pool.size());
  return "";
}

std::string Probe::check_index(bool deep) const {
  const PrefixIndex& index = cache().index_;
  if (index.by_parent_.size() != index.entries_.size()) return "the index's maps differ";
  for (const auto& [block, entry] : index.entries_) {
    const ChainRef& link = entry.link;
    if (link->blocks[entry.group] != block) return say("block %d is not under its link", block);
    if (link->tokens.size() != cache().block_tokens()) return say("block %d is indexed with %zu tokens", block, link->tokens.size());
    if (deep && chain_key(link->parent, link->tokens) != link->key) return say("block %d is indexed under another key", block);
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
  for (uint32_t i = 0; i < s.kv.tables[0].size(); ++i) {
    BlockId block = s.kv.tables[0].block(i);
    uint32_t filled = s.kv.tables[0].filled(i);
    if (filled > T || (block == kNoBlock && filled)) return say("block %u of the table has %u filled", i, filled);
    if (uint64_t{i} * T + filled > s.tokens.size()) return say("KV past token %zu", s.tokens.size());
    const PrefixIndex::Entry* entry = cache().index_.find(block);
    if (block == kNoBlock || !entry) continue;
    if (!s.kv.share) return say("block %d of a session that shares nothing is indexed", block);
    if (!std::equal(entry->link->tokens.begin(), entry->link->tokens.begin() + filled, s.tokens.begin() + i * T)) {
      return say("block %d is indexed with other tokens than its holder's at %u", block, i * T);
    }
    if (entry->link->before != (i ? s.kv.chain.at(i - 1) : nullptr) || (i == 0 && entry->link->parent != s.kv.root))
      return say("block %d is indexed under another parent", block);
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
      if (a.index != b.index) return say("a block is at %u and at %u", a.index, b.index);
      uint32_t n = std::min(a.session->kv.tables[0].filled(a.index), b.session->kv.tables[0].filled(b.index));
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
  uint64_t state = test::kToyStart;
  for (uint64_t p = 0; p < s.tokens.size(); ++p) {
    uint64_t want = toy_kv(state, s.tokens[p], p), have = 0;
    state = toy_next(state, want);
    auto i = static_cast<uint32_t>(p / T);
    if (p % T >= s.kv.tables[0].filled(i)) continue;
    bool whole = test::toy_read_slot(engine->kv_, engine->block_data(s.kv.tables[0].block(i)), static_cast<uint32_t>(p % T), &have);
    if (!whole || have != want) return say("the KV of position %llu is another's", static_cast<unsigned long long>(p));
  }
  return "";
}

std::string Probe::check(bool deep) {
  Holders held = holders();
  std::string wrong = check_pool(held);
  if (wrong.empty()) wrong = check_index(deep);
  if (wrong.empty()) wrong = check_shared(held);
  for (const Session* s : scheduler().sessions_) {
    if (!wrong.empty()) return wrong;
    wrong = check_session(*s, deep);
  }
  return wrong;
}

// A block that comes from another domain has nothing of it when its first rows are written.
std::string Probe::check_domains(const Step& step) {
  const uint32_t T = cache().block_tokens();
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const StepSeq& seq = step.seqs[q];
    const Session& s = *plan().seqs[q].session;
    const auto begin = static_cast<uint64_t>(seq.first_position);
    for (uint64_t i = begin / T; seq.stores && i * T < begin + seq.n_rows && i < seq.n_blocks; ++i) {
      auto last = last_root_.find(seq.blocks[i]);
      if (last == last_root_.end() || last->second == s.kv.root || s.kv.tables[0].filled(static_cast<uint32_t>(i)) > 0) continue;
      const auto& copies = plan().copies;  // a copy has written all of the block, with KV of this domain
      if (std::any_of(copies.begin(), copies.end(), [&](const BlockCopy& c) { return c.to == seq.blocks[i]; })) continue;
      const uint8_t* bytes = engine->block_data(seq.blocks[i]);
      if (std::any_of(bytes, bytes + engine->kv_.block_bytes(), [](uint8_t b) { return b != 0; })) {
        return say("block %d still has what another domain left", seq.blocks[i]);
      }
    }
  }
  const Holders held = holders();
  for (size_t b = 0; b < held.size(); ++b) {
    for (const Holder& h : held[b]) last_root_[static_cast<BlockId>(b)] = h.session->kv.root;
  }
  return "";
}

std::string Probe::check_step(const Step& step) {
  const uint32_t T = cache().block_tokens();
  std::string wrong = check(false);
  if (wrong.empty()) wrong = check_domains(step);
  if (!wrong.empty()) return wrong;
  std::set<BlockId> written;
  for (const BlockCopy& copy : plan().copies) {
    if (cache().pool_.refs(copy.to) != 1 || !written.insert(copy.to).second) return say("block %d is copied to and shared", copy.to);
  }
  written.clear();
  std::set<const ChainLink*> computing;
  for (size_t q = 0; q < step.seqs.size(); ++q) {
    const StepSeq& seq = step.seqs[q];
    const Session& s = *plan().seqs[q].session;
    auto begin = static_cast<uint64_t>(seq.first_position), end = begin + seq.n_rows;
    if (!s.use.in_step() || end > s.tokens.size()) return "a session that is not in the step";
    if (!std::equal(step.tokens.begin() + seq.first_row, step.tokens.begin() + seq.first_row + seq.n_rows,
                    s.tokens.begin() + static_cast<ptrdiff_t>(begin))) {
      return "rows of other tokens";
    }
    if (s.kv.ready(begin) < begin && seq.stores)
      return say("rows from %llu on, and KV is missing before", static_cast<unsigned long long>(begin));
    bool again = s.generation->recompute_all;
    for (uint64_t p = begin; seq.stores && !again && p < end; p = (p / T + 1) * T) {
      if (p % T >= s.kv.tables[0].filled(static_cast<uint32_t>(p / T))) continue;
      return say("position %llu has its KV and is stored again", static_cast<unsigned long long>(p));
    }
    uint64_t own = begin / T;  // the block that it goes on with is nobody else's to compute
    if (s.kv.share && seq.stores && !again && !s.kv.own_only && own < s.kv.chain.size() &&
        !computing.insert(s.kv.chain[own].get()).second) {
      return say("the block at %llu is computed twice in a step", static_cast<unsigned long long>(own * T));
    }
    for (uint64_t i = begin / T; seq.stores && i * T < end; ++i) {
      BlockId block = i < seq.n_blocks ? seq.blocks[i] : kNoBlock;
      if (block == kNoBlock) return "rows without a block";
      if (cache().pool_.refs(block) != 1) return say("block %d is written and has %u holders", block, cache().pool_.refs(block));
      if (cache().index_.contains(block)) return say("block %d is written and indexed", block);
      if (!written.insert(block).second) return say("block %d is written by two sessions", block);
    }
  }
  return "";
}

void Probe::poison() {
  const KvGeometry& kv = engine->kv_;
  Holders held = holders();
  for (uint32_t b = 0; b < held.size(); ++b) {
    auto block = static_cast<BlockId>(b);
    if (cache().index_.contains(block)) continue;
    uint32_t filled = 0;
    for (const Holder& h : held[b]) filled = std::max(filled, h.session->kv.tables[0].filled(h.index));
    if (filled == 0) std::memset(engine->block_data(block), 0xee, kv.block_bytes());
    for (uint32_t slot = filled; filled && slot < kv.block_tokens; ++slot) {
      test::toy_write_slot(kv, engine->block_data(block), slot, 0xeeee'eeee'eeee'eeeeull);
    }
  }
}

bool Probe::evict(uint64_t random) {
  KvCache& s = *engine->cache_;
  BlockId block = s.pool_.oldest_cached();
  if (block == kNoBlock) return false;
  for (uint64_t n = random % s.pool_.cached_count(); n > 0; --n) block = s.pool_.after(block);
  s.forget(block);
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
  for (const Session* s : scheduler().sessions_) {
    if (scheduler().runnable(*s) && (!oldest || s->generation->order < oldest->generation->order)) oldest = s;
  }
  return oldest;
}

bool Probe::waits_for_other(const Session& s) const {
  if (!scheduler().runnable(s) || !s.generation->warmed || s.use.in_step() || !s.kv.share || s.kv.own_only) return false;
  auto i = s.kv.ready(s.tokens.size()) / cache().block_tokens();
  if (i >= s.kv.chain.size()) return false;
  auto claim = scheduler().claimed_.find(s.kv.chain[i].get());
  return claim != scheduler().claimed_.end() && claim->second[0] && claim->second[0] != &s;
}

std::string Probe::describe() const {
  const BlockPool& pool = cache().pool_;
  std::string line = say("%u blocks, %u free, %u cached:", pool.size(), pool.free_count(), pool.cached_count());
  for (const Session* s : scheduler().sessions_) {
    line += say(" [%zu tokens, KV %zu, %u blocks", s->tokens.size(), size_t{s->kv.ready(s->tokens.size())}, s->kv.blocks_held());
    if (const Generation* g = s->generation.get(); g && !g->finished) {
      line += say(", #%zu%s%s%s%s", size_t{g->order}, scheduler().runnable(*s) ? " runnable" : " waits", g->admitted ? " admitted" : "",
                  g->warmed ? " warmed" : "", s->use.in_step() ? " in step" : "");
    }
    line += s->failure.is_ok() ? "]" : ", failed]";
  }
  for (const PlannedSeq& seq : plan().seqs)
    line += say(" %zu..%zu%s", size_t{seq.run.begin}, size_t{seq.run.end}, seq.run.stores ? "" : " query");
  return line + "\n";
}

}  // namespace kvrt
