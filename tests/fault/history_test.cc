// The checker of histories: it accepts the answers of a store that does one thing after the other, whatever overlaps and whoever is killed,
// and nothing that is not true.
#include "tests/fault/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace kvrt::test {
namespace {

Step step(What what, uint32_t slot, int64_t begin, int64_t end, Outcome outcome) {
  Step s;
  s.what = what;
  s.slot = slot;
  s.begin_ns = begin;
  s.end_ns = end;
  s.outcome = outcome;
  return s;
}
Step save(uint32_t slot, int64_t begin, int64_t end, uint64_t id, uint64_t seen, uint32_t length, Outcome outcome, uint64_t revision = 0) {
  Step s = step(What::kSave, slot, begin, end, outcome);
  s.id = id;
  s.revision_seen = seen;
  s.length = length;
  s.got[0].revision = revision;
  s.got[0].id = id;
  return s;
}
Step load(uint32_t slot, int64_t begin, int64_t end, uint64_t id, uint64_t revision, uint32_t length) {
  Step s = step(What::kLoad, slot, begin, end, revision != 0 ? Outcome::kOk : Outcome::kNotFound);
  s.got[0] = {revision, id, 0, 0, length, 0, 1};
  return s;
}
bool holds(const std::vector<Step>& steps) { return check_history(steps).empty(); }

constexpr Outcome kOk = Outcome::kOk;

TEST(History, AStaleLoadIsSeen) {
  const Step first = save(0, 1, 2, 7, 0, 10, kOk, 1), second = save(0, 3, 9, 7, 1, 20, kOk, 2);
  EXPECT_TRUE(holds({first, second, load(1, 10, 11, 7, 2, 20)}));
  EXPECT_FALSE(holds({first, second, load(1, 10, 11, 7, 1, 10)})) << "an old revision after the new one was acknowledged";
  EXPECT_TRUE(holds({first, second, load(1, 5, 8, 7, 1, 10)})) << "while it was saved, both are right";
  EXPECT_TRUE(holds({first, second, load(1, 4, 5, 7, 2, 20)})) << "even before the acknowledgement";
  EXPECT_FALSE(holds({first, second, load(1, 4, 5, 7, 2, 20), load(1, 6, 7, 7, 1, 10)})) << "but not back";
  EXPECT_FALSE(holds({first, second, load(1, 10, 11, 7, 2, 10)})) << "tokens of one and revision of another";
  EXPECT_FALSE(holds({first, second, load(1, 10, 11, 0, 0, 0)})) << "an acknowledged session is gone";
}

TEST(History, AGenerationIsGivenOnce) {
  const Step first = save(0, 1, 2, 7, 0, 10, kOk, 1);
  EXPECT_FALSE(holds({first, save(0, 3, 5, 7, 1, 20, kOk, 2), save(1, 3, 5, 7, 1, 30, kOk, 2)}));
  EXPECT_TRUE(holds({first, save(0, 3, 5, 7, 1, 20, kOk, 2), save(1, 3, 5, 7, 1, 30, Outcome::kConflict)}));
  EXPECT_FALSE(holds({first, save(0, 3, 5, 7, 1, 20, kOk, 3)}));
}

TEST(History, AConflictNeedsSomebodyElse) {
  const Step first = save(0, 1, 2, 7, 0, 10, kOk, 1);
  EXPECT_FALSE(holds({first, save(0, 3, 4, 7, 1, 20, Outcome::kConflict)}));
  EXPECT_TRUE(holds({first, save(1, 3, 5, 7, 1, 20, Outcome::kKilled), save(0, 6, 7, 7, 1, 20, Outcome::kConflict)}));
  EXPECT_FALSE(holds({first, save(1, 8, 9, 7, 1, 20, Outcome::kKilled), save(0, 6, 7, 7, 1, 20, Outcome::kConflict)}));
}

TEST(History, AKilledSaveIsThereOrNot) {
  const Step first = save(0, 1, 2, 7, 0, 10, kOk, 1), killed = save(0, 3, 5, 7, 1, 20, Outcome::kKilled);
  EXPECT_TRUE(holds({first, killed, load(1, 6, 7, 7, 1, 10), load(1, 8, 9, 7, 1, 10)}));
  EXPECT_TRUE(holds({first, killed, load(1, 6, 7, 7, 2, 20), load(1, 8, 9, 7, 2, 20)}));
  EXPECT_FALSE(holds({first, killed, load(1, 6, 7, 7, 1, 10), load(1, 8, 9, 7, 2, 20)})) << "not there, and then there";
  EXPECT_FALSE(holds({first, killed, load(1, 6, 7, 7, 2, 10)}));
}

TEST(History, ARenameMovesAtOnce) {
  Step move = step(What::kRename, 0, 3, 9, kOk);
  move.to = 1;
  const Step first = save(0, 1, 2, 7, 0, 10, kOk, 1);
  Step there = load(1, 4, 5, 7, 2, 10), gone = load(1, 6, 7, 0, 0, 0), still = load(1, 6, 7, 7, 1, 10);
  there.name = 1;
  EXPECT_TRUE(holds({first, move, there, gone}));
  EXPECT_FALSE(holds({first, move, there, still})) << "under both names";
}

TEST(History, AnExpiredSessionIsGoneInTime) {
  Step first = save(0, 1, 2, 7, 0, 10, kOk, 1);
  first.ttl_ms = 1000;
  const auto at = [](Step s, int64_t ms) {
    s.begin_ms = s.end_ms = ms;
    return s;
  };
  EXPECT_TRUE(holds({first, at(load(0, 3, 4, 7, 1, 10), 900), at(load(0, 5, 6, 0, 0, 0), 1100)}));
  EXPECT_FALSE(holds({first, at(load(0, 3, 4, 0, 0, 0), 900)}));
  EXPECT_FALSE(holds({first, at(load(0, 3, 4, 7, 1, 10), 1100)}));
  EXPECT_FALSE(holds({first, at(load(0, 3, 4, 0, 0, 0), 1000), at(load(0, 5, 6, 7, 1, 10), 1000)})) << "it rose again";
  EXPECT_TRUE(holds({first, at(save(1, 3, 4, 8, 0, 20, kOk, 2), 1100)})) << "its name is free";
  const Step again = at(save(0, 3, 4, 7, 1, 20, kOk, 2), 500);
  EXPECT_TRUE(holds({first, again, at(load(0, 5, 6, 0, 0, 0), 1100)})) << "a save without a time keeps the one that was set";
  EXPECT_FALSE(holds({first, again, at(load(0, 5, 6, 7, 2, 20), 1100)}));
}

// A store that does one thing after the other, and says so.
class Author {
 public:
  explicit Author(uint64_t seed) : random_(seed) {}

  // Every call has its effect at 10 * its number, and seems to last longer; each process does one at a time.
  std::vector<Step> write(size_t count) {
    std::vector<Step> steps;
    int64_t free_at[4] = {};
    for (size_t i = 1; i <= count; ++i) {
      const uint32_t slot = pick(4);
      const int64_t now = static_cast<int64_t>(i) * 10;
      Step s = call(slot);
      s.begin_ns = std::max(free_at[slot] + 1, now - static_cast<int64_t>(pick(40)));
      s.end_ns = now + pick(40);
      if (s.begin_ns > now) continue;  // this process is busy: then the call was never made
      free_at[slot] = s.end_ns;
      const uint32_t fate = pick(60);  // 0: killed before the effect, 1: after it
      if (fate > 0) answer(&s, fate > 1);
      if (fate < 2) s.outcome = Outcome::kKilled;
      steps.push_back(s);
    }
    return steps;
  }

 private:
  struct Held {
    uint64_t revision = 0, id = 0;
    uint32_t length = 0, pinned = 0;
    bool live = false, told = false;  // told: its saver knows the id
  };
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  Step call(uint32_t slot) {
    static constexpr What kKinds[] = {What::kSave, What::kSave, What::kLoad,   What::kLoad,  What::kStat,
                                      What::kList, What::kPin,  What::kRemove, What::kRename};
    Step s = step(kKinds[pick(std::size(kKinds))], slot, 0, 0, kOk);
    s.name = pick(4);
    s.to = pick(4);
    const Held& h = held_[pick(4)];
    s.id = pick(3) && h.told ? h.id : ++ids_;
    s.revision_seen = s.id == h.id ? h.revision - (pick(8) == 0 && h.revision > 1) : 0;
    s.length = pick(1000);
    s.overwrite = pick(6) == 0;
    s.pin = pick(4) == 0 ? 1 + pick(3) : 0;
    return s;
  }

  Sight sight(const Held& h) const { return {h.revision, h.id, 0, 0, h.length, h.pinned, h.live}; }

  void answer(Step* s, bool told) {
    Held& h = held_[s->name];
    if (s->what == What::kList) {
      for (uint32_t i = 0; i < 4; ++i) s->got[i] = sight(held_[i]);
    } else if (s->what == What::kSave) {
      answer_save(s, &h, told);
    } else if (!h.live) {
      s->outcome = Outcome::kNotFound;
    } else if (s->what == What::kRename) {
      if (held_[s->to].live) {
        s->outcome = Outcome::kConflict;
      } else {
        const uint64_t revision = std::max(h.revision, held_[s->to].revision) + 1;
        held_[s->to] = h;
        held_[s->to].revision = revision;
        h = {h.revision, 0, 0, 0, false, false};
      }
    } else if (s->what == What::kRemove) {
      h = {h.revision, 0, 0, 0, false, false};
    } else if (s->what == What::kPin) {
      h.pinned = s->pin;
    } else {
      s->got[0] = sight(h);
    }
  }

  void answer_save(Step* s, Held* h, bool told) {
    if (h->live && !s->overwrite && (h->id != s->id || h->revision != s->revision_seen)) {
      s->outcome = Outcome::kConflict;
      return;
    }
    bool taken = false;
    for (const Held& other : held_) taken = taken || (other.live && other.id == s->id && s->revision_seen != 0 && &other != h);
    const uint64_t id = taken && !(h->live && h->id == s->id) ? ++ids_ : s->id;
    *h = {h->revision + 1, id, s->length, s->pin != 0 ? s->pin : h->live ? h->pinned : 0, true, told};
    s->got[0].revision = h->revision;
    s->got[0].id = id;
  }

  std::mt19937_64 random_;
  uint64_t ids_ = 100;
  Held held_[4];
};

TEST(History, WhatIsTrueIsAccepted) {
  for (uint64_t seed = 1; seed <= 100; ++seed) ASSERT_EQ(check_history(Author(seed).write(2000)), "") << "seed " << seed;
}

// One answer of a true history changed: such that nothing explains it.
TEST(History, EveryLieIsSeen) {
  std::mt19937_64 random(5);
  std::map<std::string, int> lies;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::vector<Step> steps = Author(seed).write(400);
    Step& s = steps[random() % steps.size()];
    std::string lie;
    if (s.outcome == kOk && (s.what == What::kLoad || s.what == What::kStat)) {
      lie = random() % 2 ? "revision" : "tokens";
      s.got[0].revision += lie == "revision" ? 1000 : 0;
      s.got[0].length += lie == "tokens" ? 1000 : 0;
    } else if (s.outcome == kOk && s.what == What::kSave) {
      lie = "acknowledged revision";
      s.got[0].revision--;
    } else if (s.outcome == kOk && s.what == What::kList) {
      lie = "list";
      s.got[6] = {1, 1, 0, 0, 1, 0, 1};
    } else {
      continue;
    }
    lies[lie]++;
    EXPECT_NE(check_history(steps), "") << "seed " << seed << ", " << lie << ": " << describe(s);
  }
  EXPECT_EQ(lies.size(), 4u);
}

}  // namespace
}  // namespace kvrt::test
