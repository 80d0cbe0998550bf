// The questions of kvrt eval: who knows the answers by construction is right everywhere, who does not is at chance; and the judges.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bindings/cli/eval/cases/axes.h"
#include "bindings/cli/eval/cases/file_system.h"
#include "bindings/cli/eval/cases/judge.h"
#include "bindings/cli/eval/cases/random.h"

namespace cli::eval {
namespace {

constexpr uint32_t kTokens = 4096, kSeeds = 40;

double score(const Question& question, const std::string& answer) {
  double sum = 0;
  for (const Part& part : question.parts) sum += part.judge(answer);
  return sum / static_cast<double>(question.parts.size());
}

class Axes : public ::testing::TestWithParam<size_t> {
 protected:
  const Axis& axis() const { return axes()[GetParam()]; }
};

TEST_P(Axes, WhoKnowsIsRight) {
  for (uint32_t index = 0; index < kSeeds; ++index) {
    const Case about = axis().make(7, index, kTokens);
    ASSERT_FALSE(about.questions.empty());
    for (const Question& question : about.questions) {
      if (question.parts.empty()) continue;
      ASSERT_EQ(score(question, question.right), 1) << axis().name << " " << index << ": " << question.text;
    }
  }
}

TEST_P(Axes, WhoSeesTheQuestionAloneIsAtChance) {
  double sum = 0, squares = 0, n = 0;
  for (uint32_t index = 0; index < 10 * kSeeds; ++index) {
    for (const Question& question : axis().make(11, index, 512).questions) {
      if (question.parts.empty()) continue;
      const double s = score(question, question.blind);
      sum += s, squares += s * s, ++n;
    }
  }
  const double mean = sum / n, error = std::sqrt(std::max(squares / n - mean * mean, 1e-6) / n);
  EXPECT_NEAR(mean, axis().chance, 4 * error + 2e-3) << axis().name << " of " << n;
}

// What an answer depends on stands in the document, or in an earlier message or turn: the right answer of another case is wrong here.
TEST_P(Axes, AnotherCaseHasOtherAnswers) {
  if (std::string_view(axis().name) == "rules" || std::string_view(axis().name) == "secrets") return;  // their right answers are one
  double sum = 0, n = 0;
  for (uint32_t index = 0; index < kSeeds; ++index) {
    const Case here = axis().make(3, index, 512), there = axis().make(4, index, 512);
    for (size_t q = 0; q < std::min(here.questions.size(), there.questions.size()); ++q) {
      if (here.questions[q].parts.empty()) continue;
      sum += score(here.questions[q], there.questions[q].right), ++n;
    }
  }
  EXPECT_LT(sum / n, 0.5) << axis().name;
}

TEST_P(Axes, AreOfTheirSeedAlone) {
  const Case first = axis().make(5, 2, kTokens), again = axis().make(5, 2, kTokens), other = axis().make(6, 2, kTokens);
  EXPECT_EQ(first.document, again.document);
  ASSERT_EQ(first.questions.size(), again.questions.size());
  bool differs = first.document != other.document || first.before.size() != other.before.size();
  for (size_t q = 0; q < first.questions.size(); ++q) {
    EXPECT_EQ(first.questions[q].text, again.questions[q].text);
    EXPECT_EQ(first.questions[q].right, again.questions[q].right);
    differs = differs || first.questions[q].text != other.questions[q].text;
  }
  for (size_t i = 0; i < first.before.size(); ++i) differs = differs || first.before[i].content != other.before[i].content;
  EXPECT_TRUE(differs);
}

INSTANTIATE_TEST_SUITE_P(All, Axes, ::testing::Range<size_t>(0, axes().size()),
                         [](const auto& of) { return std::string(axes()[of.param].name); });

// The same on every machine and with every compiler.
TEST(EvalCases, AreThoseOfOtherMachines) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  };
  for (const Axis& axis : axes()) {
    for (uint32_t index = 0; index < 3; ++index) add(text_of(axis.make(1, index, 512)));
  }
  for (uint32_t index = 0; index < scenario_count(); ++index) add(text_of(scenario_case(1, index, 512)));
  EXPECT_EQ(hash, 13503283856027595977u) << "the questions are others than before: results of earlier runs do not compare";
}

TEST(EvalCases, LengthsGrowToTheMost) {
  for (const uint32_t tokens : {1024u, 4096u}) {
    const size_t letters = needle_case(1, 2, tokens).document.size();
    EXPECT_NEAR(static_cast<double>(letters), tokens * 4.5, tokens * 0.3);
    EXPECT_LT(needle_case(1, 0, tokens).document.size(), letters / 3);
  }
}

TEST(EvalCases, AxesAreAtLeastTwelve) {
  std::set<std::string> names;
  for (const Axis& axis : axes()) names.insert(axis.name);
  EXPECT_EQ(names.size(), axes().size());
  EXPECT_GE(names.size(), 12u);
}

TEST(EvalJudge, WholeWords) {
  EXPECT_EQ(says("ann")("It is Ann."), 1);
  EXPECT_EQ(says("ann")("It is Anna."), 0);
  EXPECT_EQ(says("42")("142"), 0);
  EXPECT_EQ(says("42")("(42)"), 1);
  EXPECT_EQ(says("ann")("\u201cAnn\u201d"), 1);
  EXPECT_EQ(says("ann")("Ann\u2019s"), 1);
  EXPECT_EQ(says("42")("42\u00a0\u00bb"), 1);
  EXPECT_EQ(says("ann")("Ann\u00e9"), 0);
  EXPECT_EQ(says_share_of({"1", "2", "3", "4"})("1, 3 and 44"), 0.5);
  EXPECT_EQ(chooses("b", {"a", "b", "c"})("b"), 1);
  EXPECT_EQ(chooses("b", {"a", "b", "c"})("a, b, c"), 0);
  EXPECT_EQ(chooses("b", {"a", "b", "c"})("none"), 0);
}

TEST(EvalJudge, Numbers) {
  EXPECT_EQ(numbers_in("a 1,234 b -5, 6-7, 3.14 x9"), (std::vector<int64_t>{1234, -5, 6, 7, 3, 9}));
  EXPECT_EQ(numbers_in("1,23"), (std::vector<int64_t>{1, 23}));
  EXPECT_EQ(results_in(12)("1 + 11 = 12."), 1);
  EXPECT_EQ(results_in(12)("12, or 13"), 0);
  EXPECT_EQ(results_in(12)("1 + 11 = 12. Result: 12\nStart with 300."), 1);
  EXPECT_EQ(results_in(12)("1 + 11 = 12\nStart with 300."), 1);
  EXPECT_TRUE(has_digits("It is 12 345.", "12345") && has_digits("12,345", "12345") && has_digits("1-2-3-4-5", "12345"));
  EXPECT_FALSE(has_digits("1234 and 5", "12345"));
  EXPECT_EQ(first_number_is(3)("3 of 9"), 1);
  EXPECT_EQ(first_number_is(3)(""), 0);
}

TEST(EvalFiles, CommandsChangeTheFolder) {
  FileSystem files, same;
  for (FileSystem* f : {&files, &same}) f->write("lamp", "plum");
  EXPECT_TRUE(files.run("Sure:\n`copy lamp drum`"));
  EXPECT_FALSE(files == same);
  EXPECT_TRUE(same.run("write drum plum"));
  EXPECT_TRUE(files == same);
  EXPECT_TRUE(files.run("Move drum bench."));
  EXPECT_EQ(files.text(), "bench: plum, lamp: plum");
  EXPECT_FALSE(files.run("delete drum"));
  EXPECT_FALSE(files.run("I cannot"));
  EXPECT_FALSE(files.run(""));
}

TEST(EvalRandom, EqualSharesAndParts) {
  Random random(1, "a", 0), other(1, "a", 1), third(1, "b", 0);
  EXPECT_NE(random.next(), other.next());
  EXPECT_NE(Random(1, "a", 0).next(), third.next());
  std::vector<int> counts(6);
  for (int i = 0; i < 60000; ++i) ++counts[random.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

}  // namespace
}  // namespace cli::eval
