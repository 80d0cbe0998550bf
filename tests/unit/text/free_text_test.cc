// Free text and its marks, matcherst a search in the text.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/text/grammar/free_text.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

using Exit = FreeText::Exit;

// root: free text until one of `marks`, then "!"; `end`: or its end anywhere. Marks from `never` on may not come.
std::shared_ptr<const Grammar> free_text(const GrammarVocab& vocab, const std::vector<std::string>& marks, size_t never, bool end) {
  GrammarBuilder builder("test");
  builder.add_rule("root");
  const uint32_t out = builder.join();
  const GrammarBuilder::Part behind = builder.literal("!");
  builder.link(behind.out, out);
  std::vector<Exit> exits;
  for (size_t i = 0; i < marks.size(); ++i) exits.push_back({marks[i], i < never ? behind.in : FreeText::kNone});
  const uint32_t in = FreeText(vocab, &builder).until(exits, end ? out : FreeText::kNone);
  builder.define(0, {in, in, out});
  auto built = builder.build();
  EXPECT_TRUE(built.is_ok() || !end) << built.status().message();  // a mark that may not come may be within all others
  return built.is_ok() ? std::make_shared<const Grammar>(std::move(built).value()) : nullptr;
}

// How many bytes of the text are taken, as a search finds it.
size_t wanted(std::string_view text, const std::vector<std::string>& marks, size_t never) {
  for (size_t at = 1; at <= text.size(); ++at) {
    size_t longest = 0, which = marks.size();
    for (size_t i = 0; i < marks.size(); ++i)
      if (text.substr(0, at).ends_with(marks[i]) && marks[i].size() > longest) longest = marks[i].size(), which = i;
    if (which == marks.size()) continue;
    if (which >= never) return at - 1;
    return at + (at < text.size() && text[at] == '!' ? 1 : 0);
  }
  return text.size();
}

TEST(FreeText, EndsAtTheFirstMark) {
  std::mt19937_64 random(3);
  const auto tokenizer = byte_tokenizer({{"<|end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  int made = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> marks;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      std::string& mark = marks.emplace_back();
      for (uint64_t size = 1 + random() % 4; size > 0; --size) mark.push_back("ab"[random() % 2]);
    }
    std::sort(marks.begin(), marks.end());
    marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    const size_t never = random() % (marks.size() + 1);
    const bool end = random() % 2 || never == 0;
    const auto grammar = free_text(*vocab, marks, never, end);
    if (grammar == nullptr) continue;
    ++made;
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (uint64_t size = random() % 12; size > 0; --size) text.push_back("aab!"[random() % 4]);
      size_t taken = 0;
      GrammarMatcher matcher(grammar, vocab);
      for (char c : text) {
        if (!matcher.accept(tokens_of(*tokenizer, std::string(1, c))[0])) break;
        ++taken;
      }
      EXPECT_EQ(taken, wanted(text, marks, never)) << text;
    }
  }
  EXPECT_GT(made, 300);
}

// Masks take whole parts of a vocabulary at once: each bit is what accept says of its token.
TEST(FreeText, EachBitOfAMaskIsTrue) {
  std::mt19937_64 random(5);
  std::set<std::string> texts;
  while (texts.size() < 1200) {
    std::string text;
    for (uint64_t size = 2 + random() % 5; size > 0; --size) text.push_back("abcdef<>/ |A0"[random() % 13]);
    texts.insert(text);
  }
  std::vector<std::pair<std::string, int64_t>> more{{"<|img|>", 3}, {"<|im_end|>", 3}};
  for (const std::string& text : texts) more.emplace_back(text, 4);
  const auto tokenizer = byte_tokenizer(more);
  const auto vocab = GrammarVocab::make(*tokenizer);
  for (const std::vector<std::string>& marks : std::vector<std::vector<std::string>>{{"</a>"}, {"<a", "<b"}, {"abc", "A|"}, {"<|img|>"}}) {
    for (bool end : {false, true}) {
      const auto grammar = free_text(*vocab, marks, 1, end);
      ASSERT_NE(grammar, nullptr);
      for (const char* before : {"", "x<", "</", "ab", "A"}) {
        const auto ids = tokens_of(*tokenizer, before);
        GrammarMatcher matcher(grammar, vocab);
        bool took = true;
        for (int32_t id : ids) took = took && matcher.accept(id);
        if (!took) continue;
        const std::vector<uint64_t> mask(matcher.mask().begin(), matcher.mask().end());
        const auto masks = GrammarMasks::make(grammar, vocab);
        for (int32_t id = 0; id < static_cast<int32_t>(tokenizer->vocab_size()); ++id) {
          GrammarMatcher again(masks);
          for (int32_t first : ids) (void)again.accept(first);
          EXPECT_EQ(has(mask, id), again.accept(id)) << tokenizer->piece(id, true) << " after " << before;
        }
      }
    }
  }
}

TEST(FreeText, MarksAreTokensWhereThereAreSome) {
  const auto tokenizer = byte_tokenizer({{"</think>", 3}, {"<img>", 3}, {"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  const int32_t mark = vocab->find("</think>"), other = vocab->find("<img>"), last = vocab->find("<|im_end|>");
  const auto grammar = free_text(*vocab, {"</think>"}, 1, false);
  GrammarMatcher matcher(grammar, vocab);
  for (char c : std::string("</think>")) EXPECT_TRUE(matcher.accept(tokens_of(*tokenizer, std::string(1, c))[0]));
  EXPECT_TRUE(has(matcher.mask(), other) && has(matcher.mask(), mark) && !has(matcher.mask(), last)) << "its bytes are no mark";
  EXPECT_TRUE(matcher.accept(other));
  EXPECT_TRUE(matcher.accept(mark));
  EXPECT_FALSE(has(matcher.mask(), other) || has(matcher.mask(), 'a'));
  EXPECT_TRUE(matcher.accept(tokens_of(*tokenizer, "!")[0]) && matcher.complete());
}

}  // namespace
}  // namespace kvrt
