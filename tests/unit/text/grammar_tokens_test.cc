// Grammars whose rules name tokens: refusals, masks, readings as a token and as text. Whole languages are compared in tests/golden.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

size_t count(std::span<const uint64_t> mask) {
  size_t n = 0;
  for (uint64_t word : mask) n += static_cast<size_t>(__builtin_popcountll(word));
  return n;
}

TEST(GrammarTokens, RefusesTokensByLineAndColumn) {
  const auto tokenizer = byte_tokenizer({{"<think>", 3}, {"<a", 1}, {"b>", 1}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  const std::pair<const char*, const char*> cases[] = {
      {"root ::= <think> <end>", "line 1, column 18: there is no token <end>"},
      {"root ::= \"a\"\n  (<[259]>)", "expected the name"},
      {"root ::= \"a\" (\n  <[259]>)", "line 2, column 3: there is no such token: the vocabulary has 259"},
      {"root ::= <[99999999999999999999]>", "column 10: there is no such token"},
      {"root ::= <[-1]>", "column 10: there is no such token"},
      {"root ::= <[]>", "column 10: expected a token's id"},
      {"root ::= <[1>", "column 10: expected a token's id"},
      {"root ::= <[1] >", "column 10: expected a token's id"},
      {"root ::= <[1x]>", "column 10: expected a token's id"},
      {"root ::= <think", "column 10: expected a token"},
      {"root ::= <think\n>", "column 10: expected a token"},
      {"root ::= !\"a\"", "column 11: expected a token"},
      {"root ::= <>", "there is no token <>"},
      {"root ::= <ab>", "there is no token <ab>"},
  };
  for (const auto& [source, part] : cases) {
    const auto made = Grammar::from_gbnf(source, vocab.get());
    ASSERT_FALSE(made.is_ok()) << source;
    EXPECT_EQ(made.status().code(), Code::kInvalid) << source;
    EXPECT_EQ(made.status().detail(), Detail::kGrammarError) << source;
    EXPECT_NE(made.status().message().find(part), std::string::npos) << made.status().message();
  }
  EXPECT_NE(Grammar::from_gbnf("root ::= <[1]>").status().message().find("no vocabulary"), std::string::npos);
}

// A token as a token, whatever its bytes; the same token as text beside it; control tokens where they are named alone.
TEST(GrammarTokens, MasksAndStates) {
  const auto tokenizer =
      byte_tokenizer({{"<think>", 3}, {"</think>", 3}, {"<|im_end|>", 3}, {"<call>", 4}, {"", 1}, {"<b>", 1}, {"<|pad|>", 3}});
  const int32_t think = 256, done = 257, end = 258, call = 259, empty = 260, b = 261, pad = 262;
  const auto vocab = GrammarVocab::make(*tokenizer);
  EXPECT_EQ(vocab->find("<think>"), think);
  EXPECT_EQ(vocab->find("<b>"), b);
  EXPECT_EQ(vocab->find("a"), 'a');
  EXPECT_EQ(vocab->find("<call"), -1);
  const int32_t a = vocab->find("a");
  // llama.cpp's own example, with something after it.
  const auto thinking = gbnf("root ::= <think> thinking </think> \"a\"*\nthinking ::= !</think>*", vocab.get());
  GrammarMatcher m(thinking, vocab);
  EXPECT_EQ(count(m.mask()), 1u);
  EXPECT_TRUE(has(m.mask(), think));
  EXPECT_FALSE(m.accept(a));
  EXPECT_TRUE(m.accept(think));
  EXPECT_EQ(count(m.mask()), tokenizer->vocab_size() - 2) << "all but the end of the turn and what is spelled by nothing";
  EXPECT_FALSE(has(m.mask(), end) || has(m.mask(), empty));
  EXPECT_FALSE(m.accept(end) || m.accept(empty));
  for (int32_t id : {a, call, pad, think, b}) EXPECT_TRUE(m.accept(id)) << id;
  EXPECT_FALSE(m.may_end());
  EXPECT_TRUE(m.accept(done));
  EXPECT_TRUE(m.may_end());
  EXPECT_FALSE(m.complete());
  EXPECT_EQ(count(m.mask()), 2u);  // a, the end
  EXPECT_FALSE(m.accept(done) || m.accept(think));
  EXPECT_TRUE(m.accept(a));
  // Its tokens again: the same state.
  GrammarMatcher again(thinking, vocab);
  for (int32_t id : {think, a, call, pad, think, b, done, a}) EXPECT_TRUE(again.accept(id)) << id;
  EXPECT_TRUE(std::ranges::equal(again.mask(), m.mask()));
  // A token that is text may be read both ways.
  GrammarMatcher both(gbnf("root ::= <call> \"x\" | \"<c\" [a-l]+ \">y\" | <call> <[0]>", vocab.get()), vocab);
  EXPECT_TRUE(both.accept(call));
  EXPECT_EQ(count(both.mask()), 3u);  // x, y, and token 0
  EXPECT_TRUE(has(both.mask(), vocab->find("y")) && has(both.mask(), 0));
  // An end of the turn by its name: there, and nowhere else.
  GrammarMatcher ends(gbnf("root ::= \"a\" (<|im_end|> | \"b\" | !<[1]>)", vocab.get()), vocab);
  EXPECT_FALSE(ends.accept(end));
  EXPECT_TRUE(ends.accept(a));
  EXPECT_FALSE(ends.may_end());
  EXPECT_TRUE(has(ends.mask(), end));
  EXPECT_EQ(count(ends.mask()), tokenizer->vocab_size() - 2);  // not 1, nor the empty one
  EXPECT_TRUE(ends.accept(end));
  // Two negations together take all.
  GrammarMatcher any(gbnf("root ::= !<think> | !<[261]>", vocab.get()), vocab);
  EXPECT_EQ(count(any.mask()), tokenizer->vocab_size() - 2);
  // Rules within rules, repeated and left out.
  GrammarMatcher deep(gbnf("root ::= x{2,3} y?\nx ::= <think> x? </think>\ny ::= \"a\" <|pad|>? <|pad|>", vocab.get()), vocab);
  for (int32_t id : {think, think, done, done, think}) EXPECT_TRUE(deep.accept(id));
  EXPECT_FALSE(deep.may_end());
  for (int32_t id : {done, a, pad}) EXPECT_TRUE(deep.accept(id));
  EXPECT_TRUE(deep.may_end() && !deep.complete());
  EXPECT_TRUE(deep.accept(pad) && deep.complete());
}

TEST(GrammarTokens, UnusedOnesComeByNameAlone) {
  const auto tokenizer = byte_tokenizer({{"[PAD0]", 5}, {"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  GrammarMatcher text(gbnf("root ::= [^x]*", vocab.get()), vocab), others(gbnf("root ::= !<|im_end|>*", vocab.get()), vocab),
      named(gbnf("root ::= <[256]>", vocab.get()), vocab);
  EXPECT_TRUE(has(text.mask(), 'a') && has(others.mask(), 'a'));
  EXPECT_FALSE(has(text.mask(), 256) || text.accept(256));
  EXPECT_FALSE(has(others.mask(), 256) || others.accept(256));
  EXPECT_TRUE(has(named.mask(), 256) && named.accept(256));
}

// Grammars that llama.cpp's own tests have, with texts that fit and that do not; <tN> is the token that they call N.
TEST(GrammarTokens, ThoseOfLlamaCpp) {
  std::vector<std::pair<std::string, int64_t>> more;
  for (int n = 0; n <= 21; ++n) more.emplace_back("<t" + std::to_string(n) + ">", 3);
  const auto tokenizer = byte_tokenizer(more);
  const auto vocab = GrammarVocab::make(*tokenizer);
  struct Case {
    const char* source;
    std::vector<std::string> fit, others;
  };
  const Case cases[] = {{"root ::= <[266]> content <[267]>\ncontent ::= (!<[267]>)*",
                         {"<t10>hello world<t11>", "<t10>text with <t12> other tokens <t13> mixed in<t11>", "<t10><t11>",
                          "<t10><t12><t13><t14><t15><t11>", "<t10>a<t11>"},
                         {"<t10>missing end token", "<t10>", "missing start token<t11>", "<t10><t11><t11>", "<t11>wrong order<t10>"}},
                        {"root ::= reasoning+ content tool-call*\nreasoning ::= <t10> (!<t11>)* <t11>\ncontent ::= <t20> (!<t21>)* <t21>\n"
                         "tool-call ::= <t12> name <t13> args <t14>\nname ::= (!<t13>)+\nargs ::= (!<t14>)*",
                         {"<t10>I am thinking<t11><t20>hello world!<t21><t12>search<t13>query=test<t14>",
                          "<t10>reasoning 1<t11><t10>reasoning 2<t11><t20><t21><t12>tool<t13><t14>", "<t10><t11><t20>content<t21>",
                          "<t10>think<t12> nested<t11><t20><t10>more content<t21><t12>fn<t13>x=1,y=2<t14><t12>fn2<t13><t14>",
                          "<t10>reasoning<t11><t10>more<t11><t10>even more<t11><t20>text<t21><t12>a<t13>b<t14><t12>c<t13>d<t14>"},
                         {"<t20>content only<t21>", "<t10>no closing reasoning", "<t10><t11><t20>no closing content",
                          "<t10><t11><t20><t21><t12>incomplete tool", "<t10><t11><t11><t20><t21>"}}};
  for (const Case& c : cases) {
    const auto grammar = gbnf(c.source, vocab.get());
    auto fits = [&](const std::string& text) {
      std::vector<int32_t> ids;
      EXPECT_TRUE(tokenizer->encode(text, true, &ids).is_ok());
      GrammarMatcher m(grammar, vocab);
      for (int32_t id : ids) {
        const bool may = has(m.mask(), id);
        EXPECT_EQ(m.accept(id), may) << text;
        if (!may) return false;
      }
      return m.may_end();
    };
    for (const std::string& text : c.fit) EXPECT_TRUE(fits(text)) << text;
    for (const std::string& text : c.others) EXPECT_FALSE(fits(text)) << text;
  }
}

}  // namespace
}  // namespace kvrt
