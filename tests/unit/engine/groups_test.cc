// The parts of a step and the cache with layers in groups: a device that keeps, in every unit of the pool, which tokens stand before each slot,
// so that a row that reads a wrong place or a place that was given up is seen.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/step/step_parts.h"
#include "tests/support/golden_rig.h"
#include "tests/unit/engine/probe.h"

namespace kvrt {

namespace {

constexpr uint32_t kBlock = 4, kRows = 12;
constexpr uint64_t kUnwritten = 0;

KvShape shape_of(const std::vector<KvShape::Group>& groups) {
  KvShape shape(kBlock);
  shape.n_groups = static_cast<uint32_t>(groups.size());
  std::copy(groups.begin(), groups.end(), shape.groups.begin());
  shape.step_rows = kRows;
  return shape;
}

// The KV of a position: of the tokens up to it, in a root, of a unit of a group.
uint64_t value(const Session& s, uint64_t position, uint32_t table) {
  uint64_t state = 0x9e37'79b9'7f4a'7c15ull * (table + 1) + s.kv.root.bytes[0];
  for (uint64_t p = 0; p <= position; ++p) {
    state = (state ^ static_cast<uint64_t>(s.tokens[p] + 1)) * 0xbf58'476d'1ce4'e5b9ull;
    state ^= state >> 29;
  }
  return state | 1;
}

class World {
 public:
  World(const KvShape& shape, uint32_t units, uint32_t seed)
      : shape_(shape),
        cache_(units, shape),
        step_(&cache_, {.context = 1000, .plan = {.prefill_chunk = kRows, .rows_max = 2 * kRows, .logits_max = 4, .boundary_every = 16}}),
        memory_(units + 1, std::vector<uint64_t>(kBlock, kUnwritten)),
        random_(seed) {
    auto file = GgufFile::open(test::tiny("llama_gqa_f32.gguf"));
    tokenizer_ = std::move(make_tokenizer(**file)).value();
  }
  ~World() {
    for (const auto& s : sessions_) step_.queue.remove(s.get());
    EXPECT_EQ(cache_.used_count(), 0u);
  }

  void turn() {
    Session* s = sessions_.empty() ? nullptr : sessions_[below(sessions_.size())].get();
    const uint32_t what = below(20);
    if (what == 0 && sessions_.size() < 5) {
      open();
    } else if (s && s->state == SessionState::kIdle && what < 14) {
      edit(s, what);
    } else {
      step();
    }
    check();
  }
  // Every session gets what it asked for.
  void drain() {
    for (int i = 0; i < 2000; ++i) {
      if (step_.queue.runnable_count() == 0) return;
      step();
      check();
    }
    FAIL() << "sessions that do not come to their end";
  }
  uint64_t rewinds = 0, copies = 0, boundaries = 0;
  uint64_t preemptions() const { return step_.reports.counters.preemptions; }

 private:
  uint32_t below(uint64_t n) { return static_cast<uint32_t>(random_() % n); }
  uint64_t longest() const { return std::min<uint64_t>(shape_.tokens_in(cache_.size()), 110); }

  void open() {
    auto s = std::make_unique<Session>(shape_);
    s->kv.root.bytes.fill(static_cast<uint8_t>(1 + below(2)));
    s->kv.share = below(6) > 0;
    step_.queue.add(s.get());
    sessions_.push_back(std::move(s));
    append(sessions_.back().get(), 1 + below(longest() - 1), below(2));
  }
  // Of two texts, so that sessions have prefixes in common.
  void append(Session* s, uint64_t n, uint32_t text) {
    for (n = std::min(n, longest() - s->tokens.size()); n > 0; --n) {
      s->tokens.push_back(static_cast<int32_t>(s->tokens.size() * (3 + text) % 50 + (below(60) == 0)));
    }
    if (s->tokens.empty()) return;
    if (below(2)) cache_.boundaries().mark(&s->kv, 1 + below(s->tokens.size()));
    GenerateOptions options;
    options.prefill_only = true;
    s->generation = std::make_unique<Generation>(options);
    step_.generations.start(s, 0);
  }
  void edit(Session* s, uint32_t what) {
    if (what < 7) return append(s, below(3) ? 1 : 1 + below(40), below(2));
    if (what < 9) {
      const uint64_t keep = below(s->tokens.size() + 1);
      s->tokens.resize(keep);
      cache_.cut(&s->kv, keep);
      ++rewinds;
    } else if (what < 11 && sessions_.size() < 5) {
      cache_.boundaries().mark_end(&s->kv, s->tokens);
      auto copy = std::make_unique<Session>(s->kv);
      copy->tokens = s->tokens;
      step_.queue.add(copy.get());
      cache_.share(copy->kv);
      sessions_.push_back(std::move(copy));
    } else if (what == 11) {
      cache_.release(&s->kv, 0);
    } else if (what == 12) {
      step_.queue.remove(s);
      std::erase_if(sessions_, [&](const auto& owned) { return owned.get() == s; });
    } else {
      cache_.discard(&s->kv, s->tokens);
    }
  }

  void step() {
    while (Session* s = step_.queue.next_cold()) {
      cache_.adopt(&s->kv, s->tokens);
      step_.reports.count_reuse(s);
      s->generation->warmed = true;
    }
    StepPlan plan;
    step_.planner.plan(step_.queue.order(), 0, 0, &plan);
    if (below(30) == 0) {
      step_.committer.abandon(&plan);
    } else if (!plan.seqs.empty()) {
      compute(plan);
      step_.committer.commit(&plan, nullptr, *tokenizer_, 1);
    }
    for (const auto& s : sessions_) {
      if (!s->generation || !s->generation->finished) continue;
      ASSERT_EQ(s->generation->report.reason, Reason::kPrefilled) << s->failure.message();
      ASSERT_TRUE(s->kv.ready(s->tokens.size()) == s->tokens.size() || s->kv.why(0, s->tokens.size()) == Hole::kEvicted);
      s->generation.reset();
      s->mailbox.clear();
      s->state = SessionState::kIdle;
    }
    for (const auto& s : sessions_) s->mailbox.clear();
  }

  std::vector<uint64_t>& unit(int32_t id) { return memory_[static_cast<size_t>(id)]; }

  void compute(const StepPlan& plan) {
    for (const BlockId id : plan.clears) std::ranges::fill(unit(id), kUnwritten);
    for (const UnitCopy& copy : plan.unit_copies) unit(copy.to) = unit(copy.from);
    copies += plan.unit_copies.size();
    ASSERT_EQ(plan.step.n_tables, shape_.tables());
    for (size_t i = 0; i < plan.seqs.size(); ++i) {
      const Session& s = *plan.seqs[i].session;
      const StepSeq& seq = plan.step.seqs[i];
      for (uint32_t r = 0; r < seq.n_rows; ++r) row(s, seq, static_cast<uint64_t>(seq.first_position) + r);
      states(s, seq);
    }
  }
  // The state before the rows is that of the token before them, and becomes that of the last.
  void states(const Session& s, const StepSeq& seq) {
    ASSERT_EQ(seq.state_to != nullptr, shape_.has_states());
    if (!shape_.has_states()) return;
    const auto begin = static_cast<uint64_t>(seq.first_position), end = begin + seq.n_rows;
    const uint32_t g = shape_.n_groups - 1;
    ASSERT_TRUE(seq.stores >> g & 1);
    ASSERT_EQ(seq.state_from == nullptr, begin == 0);
    for (uint32_t u = 0; u < shape_.groups[g].units; ++u) {
      ASSERT_NE(seq.state_to[u], static_cast<int32_t>(cache_.size()));
      if (begin == 0) continue;
      ASSERT_EQ(unit(seq.state_from[u])[0], value(s, begin - 1, 100 + u)) << "the state before row " << begin;
    }
    for (uint32_t u = 0; u < shape_.groups[g].units; ++u) std::ranges::fill(unit(seq.state_to[u]), value(s, end - 1, 100 + u));
  }
  void row(const Session& s, const StepSeq& seq, uint64_t p) {
    uint32_t table = 0;
    for (uint32_t g = 0; g < shape_.n_groups; ++g) {
      if (shape_.groups[g].state) continue;
      const uint64_t window = shape_.groups[g].window, first = window > 0 && p >= window ? p - window + 1 : 0;
      for (const uint32_t end = table + shape_.groups[g].units; table < end; ++table) {
        const auto slot = [&](uint64_t at) -> uint64_t& { return unit(seq.table(table)[at / kBlock])[at % kBlock]; };
        if (seq.stores >> g & 1) {
          ASSERT_NE(seq.table(table)[p / kBlock], static_cast<int32_t>(cache_.size())) << "the unit of zeros is written";
          slot(p) = value(s, p, table);
        }
        for (uint64_t at = first; at <= p; ++at)
          ASSERT_EQ(slot(at), value(s, at, table)) << "row " << p << " reads " << at << " of group " << g;
      }
    }
  }

  void check() {
    const BlockPool& pool = Probe::pool(cache_);
    ASSERT_TRUE(std::ranges::all_of(memory_.back(), [](uint64_t v) { return v == kUnwritten; }));
    std::map<BlockId, uint32_t> holders;
    for (const auto& s : sessions_) {
      for (uint32_t g = 0; g < shape_.n_groups; ++g) {
        const BlockTable& table = s->kv.tables[g];
        ASSERT_LE(table.blocks_held(), shape_.blocks_for(g, longest()) + (shape_.groups[g].window > 0 ? kRows / kBlock + 2 : 0));
        for (uint32_t i = 0; i < table.size(); ++i) {
          if (table.block(i) == kNoBlock) continue;
          ++holders[table.block(i)];
          ASSERT_EQ(pool.units(table.block(i)), shape_.groups[g].units);
        }
      }
    }
    uint32_t used = 0, cached = 0;
    for (const auto& [block, n] : holders) {
      ASSERT_EQ(pool.refs(block), n);
      used += pool.units(block);
    }
    for (const auto& [block, entry] : Probe::entries(cache_)) {
      const ChainLink& link = *entry.link;
      ASSERT_EQ(link.places[entry.group], block);
      if (!pool.cached(block)) continue;
      ASSERT_EQ(holders.count(block), 0u);
      cached += pool.units(block);
      const bool window = shape_.groups[entry.group].window > 0;
      ASSERT_TRUE(!window || link.boundary || link.kept[entry.group] > 0) << "a window that no boundary keeps";
    }
    ASSERT_EQ(pool.cached_count(), cached);
    ASSERT_EQ(pool.free_count() + cached + used, pool.size());
    for (const auto& [block, entry] : Probe::entries(cache_)) {
      if (!entry.link->boundary || entry.group != 0) continue;
      ++boundaries;
      const ChainLink* link = entry.link.get();
      for (uint32_t g = 0; g < shape_.n_groups; ++g) {
        if (shape_.groups[g].window == 0) continue;
        const ChainLink* at = link;
        for (uint64_t n = 0; at && n < (shape_.groups[g].window + kBlock - 1) / kBlock; ++n, at = at->before.get()) {
          ASSERT_GT(at->kept[g], 0u);
        }
      }
    }
  }

  const KvShape shape_;
  KvCache cache_;
  StepParts step_;
  std::vector<std::vector<uint64_t>> memory_;  // by unit; the last is the unit of zeros
  std::mt19937 random_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

TEST(Groups, EveryRowReadsItsOwnKv) {
  const std::vector<std::vector<KvShape::Group>> shapes = {
      {{0, 1}, {10, 2}},
      {{0, 1}, {4, 1}, {17, 3}},
      {{9, 1}},
      {{0, 2}},
      {{5, 1}, {30, 2}},
      {{0, 1}, {200, 2}},
      {{0, 1}, {1, 3, true}},
      {{0, 2}, {6, 1}, {1, 2, true}},
      {{9, 1}, {1, 1, true}},
      {{1, 2, true}},
  };
  uint64_t rewinds = 0, copies = 0, boundaries = 0, preemptions = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const KvShape shape = shape_of(shapes[seed % shapes.size()]);
    const auto units = static_cast<uint32_t>(shape.units_for(60) * (seed % 5 == 0 ? 1 : 1 + seed % 3) + 3);
    World world(shape, units, seed);
    for (int turn = 0; turn < 300; ++turn) {
      world.turn();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", turn " << turn;
    }
    world.drain();
    if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
    rewinds += world.rewinds, copies += world.copies, boundaries += world.boundaries, preemptions += world.preemptions();
  }
  EXPECT_GT(rewinds, 100u);
  EXPECT_GT(copies, 100u);
  EXPECT_GT(boundaries, 100u);
  EXPECT_GT(preemptions, 20u);
}

}  // namespace
}  // namespace kvrt
