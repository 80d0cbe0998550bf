// Pace against simulated machines whose costs are known: quiet, beside burning processes, slow, of changing speed, with clocks that lie.
#include "runtime/engine/step/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/base/limits.h"

namespace kvrt {
namespace {

constexpr double kMs = 1e6;
constexpr uint64_t kContextCost = 1536;

// The true cost of a step, and the clocks' view of it.
struct Machine {
  double fixed = 3 * kMs, decode = 0.7 * kMs, row = 0.5 * kMs;
  double slower = 1;        // than that
  double slice_every = 0;   // of work; then the CPU goes to others for 0 to 10 ms; 0: there are none
  double jitter = 0;        // of work: up to so much of it, either way
  double work_seen = 1;     // of work: the share that the CPU clock sees
  uint64_t clock_tick = 1;  // of the CPU clock
  std::mt19937_64 random{1};

  double one() { return std::uniform_real_distribution<>(0, 1)(random); }
  struct Took {
    double mean, work, wall;  // mean: of the work that such a step is
  };
  Took run(uint32_t decodes, double cost) {
    const double mean = slower * (fixed + decodes * decode + cost * row), work = mean * (1 + jitter * (2 * one() - 1));
    double wall = work;
    for (double at = slice_every * one(); slice_every > 0 && at < work; at += slice_every) wall += one() * 10 * kMs;
    return {mean, work, wall};
  }
};

// CPUs of two, five processes that burn them: two sevenths of the time are left.
Machine burning(uint64_t seed) {
  Machine m;
  m.slice_every = 2 * kMs;
  m.jitter = 0.2;
  m.random.seed(seed);
  return m;
}

Machine model_8b() {
  Machine m;
  m.fixed = 150 * kMs;
  m.decode = 60 * kMs;
  m.row = 50 * kMs;
  return m;
}

struct Step {
  uint64_t rows;
  double work, wall;
};

class Rig {
 public:
  explicit Rig(const Machine& machine, uint32_t step_ms_max = 0) : m(machine), pace(step_ms_max, kContextCost) {}

  Step step(const Pace::Ask& ask, uint64_t rows_left) {
    const uint64_t rows = rows_left ? std::min<uint64_t>({rows_left, kStepRowsMax, pace.rows(ask.begin, pace.budget(ask))}) : 0;
    const double cost = pace.cost(ask.begin, ask.begin + rows);
    const Machine::Took took = m.run(ask.decodes, cost);
    const auto work = static_cast<uint64_t>(took.work * m.work_seen) / m.clock_tick * m.clock_tick;
    pace.measured(ask.decodes, cost, work, static_cast<uint64_t>(took.wall));
    return {rows, took.mean, took.wall};
  }
  std::vector<Step> prompt(uint64_t begin, uint64_t end, Pace::Ask ask) {
    std::vector<Step> steps;
    for (ask.begin = begin; ask.begin < end; ask.begin += steps.back().rows) steps.push_back(step(ask, end - ask.begin));
    return steps;
  }
  std::vector<Step> lone(uint64_t begin, uint64_t end) { return prompt(begin, end, {.alone = true}); }
  void decode(uint32_t decodes, int steps) {
    for (int i = 0; i < steps; ++i) step({.decodes = decodes}, 0);
  }

  Machine m;
  Pace pace;
};

double work_of(const std::vector<Step>& steps) {
  double sum = 0;
  for (const Step& s : steps) sum += s.work;
  return sum;
}

double longest(const std::vector<Step>& steps, size_t from = 0) {
  double most = 0;
  for (size_t i = from; i < steps.size(); ++i) most = std::max(most, steps[i].wall);
  return most;
}

double mean_rows(const std::vector<Step>& steps) {
  double sum = 0;
  for (const Step& s : steps) sum += static_cast<double>(s.rows);
  return sum / static_cast<double>(steps.size());
}

// ---- quiet

TEST(Pace, FirstPromptGrowsToFullStepsAtOnce) {
  for (uint64_t length : {512, 2000, 4000}) {
    Rig rig{Machine()};
    const auto first = rig.lone(0, length), second = rig.lone(0, length);
    EXPECT_LE(first.size(), second.size() + 2) << length;
    EXPECT_LE(work_of(first), 1.03 * work_of(second)) << length;
    EXPECT_LE(longest(first), kLoneStepMs * kMs) << length;
    EXPECT_LE(longest(second), kLoneStepMs * kMs) << length;
    EXPECT_GE(second[0].rows, std::min<uint64_t>(length, 512)) << length;
  }
}

TEST(Pace, StepsKeepToTheHostsTime) {
  for (uint32_t ms : {5, 20, 50, 200}) {
    Rig rig(Machine(), ms);
    const auto first = rig.lone(0, 3000);
    for (size_t i = 1; i < first.size(); ++i) EXPECT_LE(first[i].wall, ms * kMs) << ms << ", step " << i;
    const auto second = rig.lone(0, 3000);
    for (size_t i = 0; i + 1 < second.size(); ++i) EXPECT_GE(second[i].wall, (ms > 5 ? 0.7 : 0.5) * ms * kMs) << ms << ", step " << i;
  }
}

TEST(Pace, WhoGeneratesBesideAPromptMakesItsStepsShort) {
  Rig rig{Machine()};
  rig.lone(0, 2000);
  EXPECT_LE(longest(rig.prompt(0, 2000, {.alone = false})), kStepMsDefault * kMs);
  EXPECT_LE(longest(rig.prompt(0, 2000, {.alone = true, .patience_ns = 100'000'000})), 100 * kMs);
  EXPECT_LE(longest(rig.prompt(0, 2000, {.alone = true, .patience_ns = 0})), kStepMsDefault * kMs);
  EXPECT_GE(longest(rig.prompt(0, 2000, {.alone = true})), 4 * kStepMsDefault * kMs);
}

TEST(Pace, DecodesWaitForAPromptAboutAsLongAsForThemselves) {
  Rig rig{Machine()};
  rig.lone(0, 600);
  rig.decode(8, 50);
  const auto steps = rig.prompt(0, 4000, {.decodes = 8});
  EXPECT_LE(longest(steps), kStepMsDefault * kMs);
  for (size_t i = 0; i + 1 < steps.size(); ++i) EXPECT_GE(steps[i].wall, 8 * 0.7 * kMs + 3 * kMs + 15 * kMs) << i;
  rig.decode(60, 50);  // they take the step's time alone
  const auto crowd = rig.prompt(0, 500, {.decodes = 80});
  for (size_t i = 0; i + 1 < crowd.size(); ++i) {
    EXPECT_GE(crowd[i].rows, 40u) << i;
    EXPECT_LE(crowd[i].wall, 1.7 * (80 * 0.7 + 3) * kMs) << i;
  }
}

// ---- beside five burning processes

TEST(Pace, OthersCpuTimeIsNotThePromptsCost) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(burning(seed)), whole(burning(seed + 100), 1000);
    rig.lone(0, 600), whole.lone(0, 600);
    const std::vector<std::pair<uint64_t, uint64_t>> prompts = {{0, 2000}, {0, 4000}, {5000, 5130}};
    for (auto [begin, end] : prompts) {
      const auto steps = rig.lone(begin, end), at_once = whole.lone(begin, end);
      EXPECT_GE(mean_rows(steps), 32) << "seed " << seed << ", at " << begin << " to " << end;
      EXPECT_LE(work_of(steps), 1.15 * work_of(at_once)) << "seed " << seed << ", at " << begin << " to " << end;
    }
  }
}

TEST(Pace, TheFirstPromptOfAProcessToo) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(burning(seed)), whole(burning(seed + 100), 1000);
    const auto steps = rig.lone(0, 2000), at_once = whole.lone(0, 2000);
    EXPECT_GE(mean_rows(steps), 32) << "seed " << seed;
    EXPECT_LE(work_of(steps), 1.15 * work_of(at_once)) << "seed " << seed;
  }
}

TEST(Pace, WhereNobodyDecodesAStepHas32Rows) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(burning(seed));
    rig.lone(0, 600);
    const auto steps = rig.prompt(0, 4000, {.alone = false});
    for (size_t i = 0; i + 1 < steps.size(); ++i) EXPECT_GE(steps[i].rows, 32u) << "seed " << seed << ", step " << i;
    const auto deep = rig.prompt(5000, 6000, {.alone = false});
    for (size_t i = 0; i + 1 < deep.size(); ++i) EXPECT_GE(deep[i].rows, 32u) << "seed " << seed << ", step " << i;
  }
}

// One twentieth of the time is left: no time bound can be held, and steps are not cut to nothing for that.
TEST(Pace, AnOverloadedMachine) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(burning(seed));
    rig.m.slice_every = 0.25 * kMs;
    const auto steps = rig.lone(0, 2000);
    for (size_t i = 1; i + 1 < steps.size(); ++i) EXPECT_GE(steps[i].rows, 64u) << "seed " << seed << ", step " << i;
    EXPECT_GE(mean_rows(rig.lone(0, 2000)), 60) << "seed " << seed;
  }
}

// Those who decode wait as long as on a quiet machine, in the mean: single steps are longer by the time that others take in them.
TEST(Pace, DecodesWaitNoLongerOnASharedMachine) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rig rig(burning(seed));
    rig.lone(0, 600);
    rig.decode(4, 100);
    const auto steps = rig.prompt(0, 3000, {.decodes = 4});
    double wall = 0;
    for (const Step& s : steps) wall += s.wall / static_cast<double>(steps.size());
    EXPECT_LE(wall, kStepMsDefault * kMs) << "seed " << seed;
    EXPECT_GE(mean_rows(steps), 4) << "seed " << seed;
  }
}

// ---- slow

TEST(Pace, ASlowModelsPromptIsCutIntoHalfSeconds) {
  Rig rig(model_8b());
  const auto first = rig.lone(0, 300), second = rig.lone(0, 300);
  EXPECT_LE(longest(first, 1), kLoneStepMs * kMs);
  EXPECT_LE(longest(second), kLoneStepMs * kMs);
  for (size_t i = 0; i + 1 < second.size(); ++i) EXPECT_GE(second[i].wall, 0.75 * kLoneStepMs * kMs) << i;
  // Others do not wait longer for it; and if a step without a prompt is longer than its time, rows still get about half of that.
  EXPECT_LE(longest(rig.prompt(0, 300, {.alone = false})), kLoneStepMs * kMs);
  rig.decode(2, 30);
  const auto beside = rig.prompt(0, 100, {.decodes = 2});
  EXPECT_LE(longest(beside), 1.9 * (150 + 2 * 60) * kMs);
  EXPECT_GE(mean_rows(beside), 2);
  Rig wish(model_8b(), 20);
  wish.lone(0, 30);
  EXPECT_LE(longest(wish.lone(0, 30)), 2.1 * 150 * kMs);
}

// ---- changes

TEST(Pace, ASpeedThatChangesByTwoIsFollowed) {
  for (const bool slower : {true, false}) {
    for (const uint32_t decodes : {0, 8}) {
      Rig rig{Machine()};
      rig.m.slower = slower ? 1 : 2;
      rig.lone(0, 600);
      if (decodes) rig.decode(decodes, 50);
      const Pace::Ask ask{.decodes = decodes, .alone = false};
      rig.prompt(0, 1000, ask);
      rig.m.slower = slower ? 2 : 1;
      std::vector<Step> steps;
      for (int i = 0; i < 20; ++i) steps.push_back(rig.step(ask, 4000));
      EXPECT_LE(longest(steps), 2 * kStepMsDefault * kMs);
      EXPECT_LE(longest(steps, 3), 1.1 * kStepMsDefault * kMs);
      const double settled = steps.back().wall;
      for (size_t i = 8; i < steps.size(); ++i) EXPECT_NEAR(steps[i].wall, settled, 0.1 * settled) << slower << decodes << i;
      EXPECT_GE(settled, (decodes ? 0.4 : 0.8) * kStepMsDefault * kMs);
    }
  }
}

// Burners come and go: the wall's time follows.
TEST(Pace, SharesThatChangeAreFollowed) {
  Rig rig(burning(3));
  rig.m.slice_every = 0;
  rig.prompt(0, 4000, {});
  rig.m.slice_every = 1 * kMs;  // five sixths of the time are others'
  std::vector<Step> steps;
  for (int i = 0; i < 60; ++i) steps.push_back(rig.step({.decodes = 1}, 4000));
  double wall = 0;
  for (size_t i = 20; i < steps.size(); ++i) wall += steps[i].wall / static_cast<double>(steps.size() - 20);
  EXPECT_LE(wall, 1.1 * kStepMsDefault * kMs);
  rig.m.slice_every = 0;
  for (int i = 0; i < 60; ++i) rig.step({}, 4000);
  EXPECT_GE(rig.step({}, 4000).wall, 0.75 * kStepMsDefault * kMs);
}

// ---- readings that are wrong

// The first steps of a process: read ten times too fast, a step may be too long, but not by far; too slow, and it recovers.
TEST(Pace, AWrongFirstReading) {
  for (const double wrong : {0.1, 0.3, 3.0, 10.0}) {
    for (const bool alone : {true, false}) {
      Rig rig{Machine()};
      const double cost = rig.pace.cost(0, 16);
      const auto told = static_cast<uint64_t>(rig.m.run(0, cost).work * wrong);
      rig.pace.measured(0, cost, told, told);
      const auto steps = rig.prompt(16, 3000, {.alone = alone});
      EXPECT_LE(longest(steps), alone ? kLoneStepMs * kMs : 1.5 * kStepMsDefault * kMs) << wrong;
      const size_t end = steps.size() - 1;  // the last has the rest of the prompt
      EXPECT_GE(steps[std::min<size_t>(end - 1, 12)].wall, 0.8 * (alone ? 256 : kStepMsDefault) * kMs) << wrong << alone;
    }
  }
}

TEST(Pace, OneWildReading) {
  for (const double wild : {0.0, 0.1, 10.0, 10'000.0}) {
    Rig rig{Machine()};
    rig.prompt(0, 2000, {});
    const double cost = rig.pace.cost(0, 80);
    const auto told = static_cast<uint64_t>(rig.m.run(0, cost).work * wild);
    rig.pace.measured(0, cost, told, told);
    std::vector<Step> steps;
    for (int i = 0; i < 12; ++i) steps.push_back(rig.step({}, 4000));
    EXPECT_LE(longest(steps), 2 * kStepMsDefault * kMs) << wild;
    for (const Step& s : steps) EXPECT_GE(s.rows, 32u) << wild;
    EXPECT_NEAR(steps.back().wall, 0.9 * kStepMsDefault * kMs, 5 * kMs) << wild;
  }
}

// The machine slept for ten minutes within a step.
TEST(Pace, AMachineThatSlept) {
  Rig rig{Machine()};
  rig.prompt(0, 2000, {});
  const double cost = rig.pace.cost(0, 80);
  rig.pace.measured(0, cost, static_cast<uint64_t>(rig.m.run(0, cost).work), 600'000'000'000);
  std::vector<Step> steps;
  for (int i = 0; i < 40; ++i) steps.push_back(rig.step({}, 4000));
  EXPECT_LE(longest(steps), kStepMsDefault * kMs);
  for (const Step& s : steps) EXPECT_GE(s.rows, 32u);
  EXPECT_GE(steps.back().wall, 0.75 * kStepMsDefault * kMs);
}

// A CPU clock that stands still, and one of 10 ms.
TEST(Pace, ACoarseCpuClock) {
  for (const bool still : {true, false}) {
    Rig rig{Machine()};
    rig.m.work_seen = still ? 0 : 1;
    rig.m.clock_tick = still ? 1 : 10'000'000;
    const auto first = rig.lone(0, 4000), second = rig.lone(0, 4000), shared = rig.prompt(0, 4000, {});
    EXPECT_LE(longest(first), 1.2 * kLoneStepMs * kMs);
    EXPECT_GE(mean_rows(second), 256) << still;
    EXPECT_LE(longest(shared), 1.5 * kStepMsDefault * kMs) << still;
    EXPECT_GE(mean_rows(shared), 32) << still;
  }
}

TEST(Pace, WhateverIsMeasuredABudgetIsWithinBounds) {
  std::mt19937_64 random(7);
  const auto any = [&] { return random() >> random() % 64; };
  for (int round = 0; round < 200; ++round) {
    Pace pace(round % 3 == 0 ? 50 : 0, kContextCost);
    double most = 16;
    for (int i = 0; i < 200; ++i) {
      const auto cost = static_cast<double>(any() % 4096);
      pace.measured(static_cast<uint32_t>(any() % 512), cost, any(), any());
      most = std::max(most, 8 * cost);
      const double budget = pace.budget({static_cast<uint32_t>(any() % 512), any() % 100'000, random() % 2 == 0, any()});
      ASSERT_TRUE(std::isfinite(budget));
      ASSERT_GE(budget, 1);
      ASSERT_LE(budget, most);
      ASSERT_GE(pace.rows(any() % 1'000'000, budget), 1u);
    }
  }
}

TEST(Pace, RowsAreWhatCostSays) {
  const Pace pace(0, kContextCost);
  for (uint64_t begin : {0, 1, 777, 5000, 100'000}) {
    for (uint64_t n : {1, 2, 16, 31, 32, 100, 512, 3000}) EXPECT_EQ(pace.rows(begin, pace.cost(begin, begin + n)), n) << begin;
  }
}

}  // namespace
}  // namespace kvrt
