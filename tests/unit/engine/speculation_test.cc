// What is proposed, and how much of it: against searches of everything.
#include "runtime/engine/speculation/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "runtime/engine/speculation/leading_tokens.h"
#include "runtime/engine/step/step_parts.h"

namespace kvrt {
namespace {

// TokenLookup's rule, place by place.
class Naive {
 public:
  explicit Naive(const std::vector<int32_t>& before) : all_(before) {
    if (!before.empty()) all_.push_back(-1);
    before_ = all_.size();
  }
  void add(const std::vector<int32_t>& text) {
    all_.resize(before_);
    all_.insert(all_.end(), text.begin(), text.end());
  }
  std::pair<std::vector<int32_t>, uint32_t> find(const std::vector<int32_t>& ahead) {
    std::vector<int32_t> whole = all_;
    whole.insert(whole.end(), ahead.begin(), ahead.end());
    uint32_t longest = 0;
    size_t best = 0;
    bool near_best = false;
    for (size_t place = 0; place + 1 < all_.size(); ++place) {
      uint32_t length = 0;
      while (length < TokenLookup::kLengthMax && length <= place && length < whole.size() &&
             all_[place - length] == whole[whole.size() - 1 - length] && all_[place - length] != -1)
        ++length;
      const bool near = follows_ > 0 && place + 1 >= follows_ && place + 1 <= follows_ + 96;
      if (length < 2 || length < longest || (length == longest && near_best && !near)) continue;
      longest = length, best = place, near_best = near;
    }
    if (longest == 0) return {};
    if (ahead.empty()) follows_ = best + 1;
    const auto begin = all_.begin() + static_cast<ptrdiff_t>(best) + 1;
    return {{begin, std::find(begin, all_.end(), -1)}, longest};
  }

 private:
  std::vector<int32_t> all_;
  size_t before_ = 0, follows_ = 0;
};

TEST(TokenLookup, FindsWhatASearchOfAllPlacesFinds) {
  uint64_t found = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const size_t vocab = 10 + below(30);  // few places of a pair: TokenLookup looks at 64
    std::vector<int32_t> before(seed % 3 == 0 ? 0 : below(200)), text;
    for (int32_t& token : before) token = static_cast<int32_t>(below(vocab));
    TokenLookup lookup(before);
    Naive naive(before);
    while (text.size() < 100 * vocab / 10) {
      const auto& from = before.empty() || below(2) ? text : before;
      for (size_t i = from.empty() ? 0 : below(from.size()), n = below(40); !from.empty() && n > 0 && i < from.size(); --n) {
        const int32_t token = from[i++];
        text.push_back(token);
      }
      for (size_t n = 1 + below(4); n > 0; --n) text.push_back(static_cast<int32_t>(below(vocab)));
      lookup.add(text);
      naive.add(text);
      for (const size_t n : {size_t{0}, below(4)}) {
        std::vector<int32_t> ahead(text.end() - static_cast<ptrdiff_t>(std::min(n, text.size())), text.end());
        if (n > 1) ahead.back() = static_cast<int32_t>(below(vocab));
        const TokenLookup::Match match = lookup.find(ahead);
        const auto [next, length] = naive.find(ahead);
        ASSERT_EQ(match.length, length) << "seed " << seed << " at " << text.size();
        ASSERT_EQ(std::vector<int32_t>(match.next.begin(), match.next.end()), next) << "seed " << seed << " at " << text.size();
        found += length > 0;
      }
    }
  }
  EXPECT_GT(found, 100u);
}

TEST(TokenLookup, FindsNothingInLittle) {
  TokenLookup empty({});
  EXPECT_TRUE(empty.find().next.empty());
  empty.add(std::vector<int32_t>{7});
  EXPECT_TRUE(empty.find().next.empty());
  const std::vector<int32_t> seven = {7, 7};
  TokenLookup other(seven);
  other.add(std::vector<int32_t>{7});
  EXPECT_TRUE(other.find().next.empty()) << "the text before it is another";
}

TEST(Chances, FollowWhatCame) {
  Chances chances = Speculation::kLookedUp;
  const float other = chances.of(3);
  EXPECT_FLOAT_EQ(chances.of(2), Speculation::kLookedUp.of(2));
  std::mt19937 random(1);
  const auto learn = [&](uint32_t right, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      chances.came(2, random() % 100 < right);
      EXPECT_GE(chances.of(2), 0);
      EXPECT_LE(chances.of(2), 1);
    }
  };
  learn(90, 200);
  EXPECT_NEAR(chances.of(2), 0.9, 0.15);
  learn(10, 200);
  EXPECT_NEAR(chances.of(2), 0.1, 0.15) << "older ones fade";
  EXPECT_EQ(chances.of(3), other);
}

TEST(StepCosts, AreThoseMeasuredAndOnALineBetween) {
  StepCosts costs;
  EXPECT_EQ(costs.of(1), 0);
  costs.measured(0, 5);
  costs.measured(StepCosts::kRowsMax + 1, 5);
  EXPECT_EQ(costs.of(1), 0);
  costs.measured(1, 1000);
  EXPECT_DOUBLE_EQ(costs.of(1), 1000);
  double last = costs.of(1);
  for (uint32_t rows = 2; rows <= StepCosts::kRowsMax; ++rows) {
    EXPECT_GT(costs.of(rows), last) << rows;
    EXPECT_LT(costs.of(rows), 1000.0 * rows) << "a row more is thought to be cheap, so that it is tried";
    last = costs.of(rows);
  }
  for (int i = 0; i < 200; ++i) costs.measured(i % 2 == 0 ? 1 : 9, i % 2 == 0 ? 1000 : 3000);
  EXPECT_NEAR(costs.of(9), 3000, 100);
  EXPECT_NEAR(costs.of(1), 1000, 30);
  EXPECT_NEAR(costs.of(5), (costs.of(1) + costs.of(9)) / 2, 1e-6);
  EXPECT_EQ(costs.of(StepCosts::kRowsMax + 9), costs.of(StepCosts::kRowsMax));
  EXPECT_EQ(costs.of(0), costs.of(1));
}

TEST(StepCosts, FollowTheMachine) {
  StepCosts costs;
  costs.measured(4, 1000);
  costs.measured(4, 1'000'000);  // something else ran
  EXPECT_LT(costs.of(4), 2000);
  for (int i = 0; i < 100; ++i) costs.measured(4, 5000);
  EXPECT_NEAR(costs.of(4), 5000, 500);
  EXPECT_GT(costs.of(8), costs.of(4));
}

TEST(StepCosts, OfOtherStepsMoveWithTheMachine) {
  StepCosts costs;
  for (int i = 0; i < 400; ++i) costs.measured(1 + i % 4, 1000 + 200 * (i % 4));
  const double ratio = costs.of(4) / costs.of(1);
  EXPECT_NEAR(ratio, 1.6, 0.05);
  for (int i = 0; i < 40; ++i) costs.measured(1, 2000);
  EXPECT_NEAR(costs.of(1), 2000, 50);
  EXPECT_NEAR(costs.of(4) / costs.of(1), ratio, 0.05) << "a slow machine is slow for all";
}

TEST(StepCosts, OfMoreRowsAreNoLess) {
  StepCosts costs;
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    costs.measured(1 + static_cast<uint32_t>(random() % 20), 500 + random() % 4000);
    for (uint32_t rows = 2; rows <= StepCosts::kRowsMax; ++rows)
      ASSERT_GE(costs.of(rows), costs.of(rows - 1) * (1 - 1e-9)) << i << ": " << rows;
  }
}

// Steps whose cost grows by `share` of one row's with each row more.
StepCosts steps_of(double share) {
  StepCosts steps;
  for (int i = 0; i < 4000; ++i) {
    const auto rows = static_cast<uint32_t>(1 + i % 20);
    steps.measured(rows, static_cast<uint64_t>(1e6 * (1 + share * (rows - 1))));
  }
  return steps;
}

TEST(DraftCosts, NothingPaysBeforeAStepWasMeasured) {
  DraftCosts costs;
  EXPECT_EQ(costs.rows_worth(2, 100), 0u);
  costs.expect(1, 4);
  costs.measured({}, 1e9, 40, 2, 2);
  EXPECT_EQ(costs.token(), 0.25) << "there is no measure";
  EXPECT_EQ(costs.gain({}, 1, 16, {}), 1);
  EXPECT_EQ(costs.rows_worth(1, 100), 0u);
}

TEST(DraftCosts, GainIsThatOfTheBestCount) {
  const StepCosts steps = steps_of(0.1);
  DraftCosts costs;
  costs.expect(1, 4);
  EXPECT_EQ(costs.gain(steps, 0, 16, {}), 1) << "it is always wrong";
  // k tokens give (1 - 0.8^(k + 1)) / 0.2 of them in 1 + 0.1 k + 0.25 k steps' time.
  double best = 1;
  for (int k = 1; k <= 16; ++k) best = std::max(best, (1 - std::pow(0.8, k + 1)) / 0.2 / (1 + 0.35 * k));
  EXPECT_NEAR(costs.gain(steps, 0.8, 16, {}), best, 0.03);
  EXPECT_NEAR(costs.gain(steps, 0.8, 1, {}), 1.8 / 1.35, 0.03);
  EXPECT_LT(costs.gain(steps, 0.8, 16, {8, 0}), best) << "eight sessions' rows cost more";
  EXPECT_LT(costs.gain(steps, 0.8, 16, {1, 7}), costs.gain(steps, 0.8, 16, {8, 0})) << "seven wait for a draft that is one's";
}

TEST(DraftCosts, FollowWhatWasMeasured) {
  const StepCosts steps = steps_of(0.1);
  DraftCosts costs;
  costs.expect(1, 4);
  for (int i = 0; i < 100; ++i) costs.measured(steps, 0.5e6 * 3, 3, 3, 3);
  EXPECT_NEAR(costs.token(), 0.5, 0.02);
  for (int i = 0; i < 100; ++i) costs.measured(steps, 0.5e6 * 3 + 0.01e6 * 100, 103, 3, 3);
  EXPECT_NEAR(costs.token(), 0.5, 0.02);
  EXPECT_NEAR(static_cast<double>(costs.rows_worth(2, 100)), 100 / 2.0 / 2 / 0.01, 150) << "half of what it saves";
}

TEST(DraftCosts, OneSlowDraftIsForgotten) {
  const StepCosts steps = steps_of(0.1);
  DraftCosts costs;
  costs.expect(1, 4);
  const uint64_t worth = costs.rows_worth(2, 100);
  costs.measured(steps, 1e12, 3, 3, 3);  // it waited for something
  costs.measured(steps, 1e12, 103, 3, 3);
  EXPECT_GT(costs.token(), 0.25);
  EXPECT_LT(costs.token(), 0.5);
  EXPECT_LT(costs.rows_worth(2, 100), worth);
  EXPECT_GT(costs.rows_worth(2, 100), worth / 3);
  for (int i = 0; i < 4000; ++i) costs.forget();  // nobody asks for drafts meanwhile
  EXPECT_NEAR(costs.token(), 0.25, 0.01);
  EXPECT_NEAR(static_cast<double>(costs.rows_worth(2, 100)), static_cast<double>(worth), 0.05 * static_cast<double>(worth));
  for (int i = 0; i < 100; ++i) costs.measured(steps, 0.1e6, 1, 1, 1);
  const double cheap = costs.token();
  for (int i = 0; i < 4000; ++i) costs.forget();
  EXPECT_EQ(costs.token(), cheap) << "what is cheaper than was expected stays so";
}

TEST(LeadingTokens, AreAllUntilTextsWereSeen) {
  LeadingTokens tokens(3200);
  EXPECT_EQ(tokens.enough(), 3200u);
  for (int i = 0; i < 63; ++i) tokens.add(1);
  EXPECT_EQ(tokens.enough(), 3200u);
  tokens.add(1);
  EXPECT_EQ(tokens.enough(), 100u) << "the first of 32 parts";
}

TEST(LeadingTokens, AreNearlyAllOfTheLastTexts) {
  LeadingTokens tokens(3200);
  for (int i = 0; i < 1000; ++i) tokens.add(i % 100 < 98 ? i % 800 : 3199);
  EXPECT_EQ(tokens.enough(), 800u);
  for (int i = 0; i < 1000; ++i) tokens.add(1500);
  EXPECT_EQ(tokens.enough(), 1600u);
  for (int i = 0; i < 1 << 20; ++i) tokens.add(300);
  EXPECT_EQ(tokens.enough(), 400u) << "older ones fade";
  LeadingTokens odd(33);
  for (int i = 0; i < 100; ++i) odd.add(32);
  EXPECT_EQ(odd.enough(), 33u);
}

// One session's part in a choice, and all ways to take some.
class Choice : public testing::Test {
 protected:
  using Offers = std::vector<Speculator::Offer>;

  void measure(uint32_t rows, uint64_t ns) {
    step_.speculator.measured(rows, false, ns);
    costs_.measured(rows, ns);
  }
  // The best rate of those that take at least what was asked for, and at most `room`.
  double best(const Offers& offers, uint32_t rows, uint32_t room) const {
    double found = 0;
    std::function<void(size_t, uint32_t, double)> each = [&](size_t i, uint32_t taken, double tokens) {
      if (taken > room) return;
      if (i == offers.size()) {
        found = std::max(found, tokens / costs_.of(rows + taken));
        return;
      }
      double chance = 1;
      for (uint32_t k = 0; k <= offers[i].tokens.size(); ++k) {
        if (k >= std::min<size_t>(offers[i].least, offers[i].tokens.size())) each(i + 1, taken + k, tokens);
        if (k == offers[i].tokens.size()) break;
        chance *= static_cast<double>(offers[i].tokens[k].chance);
        tokens += k < offers[i].least ? 1 : chance;
      }
    };
    each(0, 0, rows);
    return found;
  }
  double rate(const Offers& offers, uint32_t rows) const {
    double tokens = rows;
    uint32_t taken = 0;
    for (const auto& offer : offers) {
      double chance = 1;
      for (uint32_t k = 0; k < offer.take; ++k) {
        chance *= static_cast<double>(offer.tokens[k].chance);
        tokens += k < offer.least ? 1 : chance;
      }
      taken += offer.take;
    }
    return tokens / costs_.of(rows + taken);
  }

  KvCache cache_{8, 16};
  StepParts step_{&cache_, {.context = 64, .plan = {.prefill_chunk = 16, .rows_max = 16, .logits_max = 16}}};
  StepCosts costs_;
};

TEST_F(Choice, IsTheBestOfAll) {
  uint32_t some = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    measure(1 + below(12), 1000 + below(2000));
    std::vector<std::vector<Speculation::Token>> tokens(1 + below(3));
    Offers offers;
    uint32_t least = 0;
    for (auto& offered : tokens) {
      offered.resize(below(6));
      for (auto& token : offered) token.chance = below(8) == 0 ? 1 : static_cast<float>(below(1000)) / 1000;
      offers.push_back({offered, seed % 3 == 0 ? below(4) : 0});
      least += std::min(offers.back().least, static_cast<uint32_t>(offered.size()));
    }
    const uint32_t rows = static_cast<uint32_t>(tokens.size()) + below(3), room = least + below(12);
    Offers asked = offers;
    for (auto& offer : asked) offer.take = std::min(offer.least, static_cast<uint32_t>(offer.tokens.size()));
    double expected = best(offers, rows, room);
    if (expected < rate(asked, rows) * 1.03) expected = rate(asked, rows);  // too little to be worth it
    step_.speculator.choose(offers, rows, room, false);
    uint32_t taken = 0;
    for (const auto& offer : offers) {
      EXPECT_GE(offer.take, std::min<size_t>(offer.least, offer.tokens.size())) << "seed " << seed;
      EXPECT_LE(offer.take, offer.tokens.size());
      taken += offer.take;
    }
    EXPECT_LE(taken, room);
    EXPECT_NEAR(rate(offers, rows), expected, 1e-9 * expected) << "seed " << seed;
    some += taken > least;
  }
  EXPECT_GT(some, 50u);
}

TEST_F(Choice, BesideAPromptIsWhatWasAskedFor) {
  measure(1, 1000);
  std::vector<Speculation::Token> tokens(6);
  for (auto& token : tokens) token.chance = 1;
  Offers offers = {{tokens, 0}, {tokens, 4}, {std::span(tokens).first(2), 9}};
  step_.speculator.choose(offers, 3, 60, true);
  EXPECT_EQ(offers[0].take, 0u);
  EXPECT_EQ(offers[1].take, 4u);
  EXPECT_EQ(offers[2].take, 2u);
}

TEST_F(Choice, IsNothingBeforeAnythingWasMeasured) {
  std::vector<Speculation::Token> tokens(6);
  for (auto& token : tokens) token.chance = 1;
  Offers offers = {{tokens, 0}, {tokens, 4}};
  step_.speculator.choose(offers, 2, 3, false);
  EXPECT_EQ(offers[0].take, 0u);
  EXPECT_EQ(offers[1].take, 3u) << "the room";
}

}  // namespace
}  // namespace kvrt
