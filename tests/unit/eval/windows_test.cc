// Windows score each token of a text once; words, characters and white space are what Python takes for them.
#include "bindings/cli/eval/windows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace cli::eval {
namespace {

TEST(EvalWindows, EachTokenIsScoredOnce) {
  for (const size_t most : {2u, 3u, 5u, 64u}) {
    for (const size_t count : {0u, 1u, 2u, 4u, 5u, 9u, 63u, 64u, 65u, 200u}) {
      std::vector<int32_t> text(count), scored;
      std::iota(text.begin(), text.end(), 100);
      for (const Window& window : windows_of(text, 7, most)) {
        const bool first = scored.empty();
        ASSERT_LT(window.context, window.tokens.size());
        ASSERT_GE(window.context, 1u);
        EXPECT_EQ(window.tokens[0] == 7, first);
        EXPECT_TRUE(first ? window.context == 1 : window.tokens.size() == most) << "the last one has as much context as fits";
        EXPECT_LE(window.tokens.size(), most);
        const auto begin = window.tokens.begin() + static_cast<ptrdiff_t>(window.context);
        for (size_t i = 1; i < window.tokens.size(); ++i) {  // it goes on where its context ends
          EXPECT_TRUE((first && i == 1) || window.tokens[i] == window.tokens[i - 1] + 1);
        }
        scored.insert(scored.end(), begin, window.tokens.end());
      }
      EXPECT_EQ(scored, text) << most << " " << count;
    }
  }
}

TEST(EvalWindows, Words) {
  const std::pair<const char*, uint64_t> cases[] = {{"", 1},
                                                    {"a", 1},
                                                    {" ", 2},
                                                    {"a b", 2},
                                                    {"a \n\t b", 2},
                                                    {" a b\n", 4},
                                                    {"a\u2003b", 2},
                                                    {"a\u00a0b\u0085c", 3},
                                                    {"\u3000", 2},
                                                    {"a\u200bb", 1},
                                                    {"\u00e9 \u20ac", 2},
                                                    {"a\x1c\x1f"
                                                     "b",
                                                     2},
                                                    {"\u1680\u2028", 2},
                                                    {"a\u205f\u202f\u2029z", 2},
                                                    {"a\x0e"
                                                     "b",
                                                     1}};
  for (const auto& [text, words] : cases) EXPECT_EQ(words_in(text), words) << text;
}

TEST(EvalWindows, Characters) {
  EXPECT_EQ(characters_in(""), 0u);
  EXPECT_EQ(characters_in("abc"), 3u);
  EXPECT_EQ(characters_in("\u00dcb\u20ac\U0001f600"), 4u);
}

TEST(EvalWindows, WhiteSpaceAtTheEnd) {
  const std::pair<const char*, size_t> cases[] = {{"", 0},          {"a", 0},      {" a", 0},      {"a ", 1},       {" \n", 2},
                                                  {"a \u2003 ", 5}, {"\u00e9", 0}, {"a\u00a0", 2}, {"\u20ac\t", 1}, {"a\u200b", 0}};
  for (const auto& [text, bytes] : cases) EXPECT_EQ(white_space_at_end(text), bytes) << text;
}

TEST(EvalWindows, TheFirstOfTheBest) {
  EXPECT_EQ(best_of(std::vector<double>{-3, -1, -1, -2}), 1u);
  EXPECT_EQ(best_of(std::vector<double>{-1}), 0u);
}

}  // namespace
}  // namespace cli::eval
