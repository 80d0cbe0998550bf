// The count of reasoning tokens, and the grammar that takes over at its end.
#include "runtime/engine/conversation/answer_guide.h"

#include <gtest/gtest.h>

#include "runtime/text/answer/answer_grammar.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

ReplyStyle thinking() { return {ReplyFormat::kHermes, "<think>", "</think>"}; }

TEST(ReasoningCount, CountsWhatIsBetweenTheMarks) {
  ReasoningCount count(thinking(), AnswerPlace::kBegin);
  for (const char* token : {"x", "<th", "ink>", "a", "b</", "think", ">c", "d"}) count.add(token);
  EXPECT_EQ(count.tokens(), 3u);  // the marks' pieces that do not end or begin it are of it
  EXPECT_FALSE(count.inside());
  count.add("<think>");
  EXPECT_TRUE(count.inside());
}

TEST(ReasoningCount, OfGptOssIsTheAnalysis) {
  ReasoningCount count({ReplyFormat::kHarmony, "", ""}, AnswerPlace::kBegin);
  for (const char* token : {"<|channel|>", "analysis", "<|message|>", "a", "b", "<|end|>", "<|start|>", "assistant", "<|channel|>", "final",
                            "<|message|>", "c", "d"})
    count.add(token);
  EXPECT_EQ(count.tokens(), 2u);
  ReasoningCount within({ReplyFormat::kHarmony, "", ""}, AnswerPlace::kReasoning);
  within.add("a");
  EXPECT_TRUE(within.inside());
  EXPECT_EQ(within.tokens(), 1u);
}

// The limit ends no call that began within reasoning.
TEST(ReasoningCount, ACallIsNone) {
  ReplyStyle style = thinking();
  style.tools = read_reply_tools(R"([{"name":"f"}])");
  ReasoningCount count(style, AnswerPlace::kReasoning);
  for (const char* token : {"I use", "<tool_call>", " or", " <tool_call>", "\n{\"name\": \"f"}) count.add(token);
  EXPECT_TRUE(count.inside()) << "it is mentioned, as yet";
  EXPECT_EQ(count.tokens(), 5u);
  for (const char* token : {"\", \"arguments\"", ": {}}", "\n</tool_call>", "\n"}) {
    count.add(token);
    EXPECT_FALSE(count.inside()) << token;
  }
  EXPECT_EQ(count.tokens(), 5u);
}

TEST(AnswerGuide, EndsReasoningThatIsTooLong) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  AnswerRules rules;
  rules.style = thinking();
  rules.place = AnswerPlace::kReasoning;
  rules.kind = GrammarKind::kGbnf;
  rules.source = "root ::= \"yes\"";
  auto matcher = [&] {
    auto grammar = answer_grammar(rules, *vocab);
    EXPECT_TRUE(grammar.is_ok()) << grammar.status().message();
    return std::make_unique<GrammarMatcher>(std::move(grammar).value(), vocab);
  };
  auto first = matcher();
  rules.reasoning_over = true;
  AnswerGuide guide(*tokenizer, std::move(first), ReasoningCount(rules.style, rules.place), 4, matcher());
  for (char c : std::string("ab</")) EXPECT_TRUE(guide.accept(tokens_of(*tokenizer, std::string(1, c))[0]));
  for (char c : std::string("</think>\n\nyes")) {
    const int32_t token = tokens_of(*tokenizer, std::string(1, c))[0];
    EXPECT_TRUE(has(guide.mask(), token)) << c;
    EXPECT_FALSE(has(guide.mask(), tokens_of(*tokenizer, "q")[0])) << c;
    EXPECT_TRUE(guide.accept(token)) << c;
  }
  EXPECT_TRUE(has(guide.mask(), vocab->find("<|im_end|>")));
}

// Speculation asks a copy what a proposed token would leave. Wherever it is made, it goes on as one that had taken the tokens itself, and the
// original stays as it was.
TEST(AnswerGuide, GoesOnInACopy) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  AnswerRules rules;
  rules.style = thinking();
  rules.place = AnswerPlace::kReasoning;
  rules.kind = GrammarKind::kGbnf;
  rules.source = R"(root ::= "yes" ("," [a-z]+)* | "no")";
  const auto matcher = [&](bool over) {
    rules.reasoning_over = over;
    return std::make_unique<GrammarMatcher>(std::move(answer_grammar(rules, *vocab)).value(), vocab);
  };
  const auto fresh = [&] {
    auto first = matcher(false);
    return AnswerGuide(*tokenizer, std::move(first), ReasoningCount(rules.style, rules.place), 4, matcher(true));
  };
  const auto bits = [](AnswerGuide& guide) { return std::vector<uint64_t>(guide.mask().begin(), guide.mask().end()); };
  const auto take = [&](AnswerGuide* guide, std::string_view text) {
    for (const char c : text) EXPECT_TRUE(guide->accept(tokens_of(*tokenizer, std::string(1, c))[0])) << c << " of " << text;
  };
  const std::string text = "ab</</think>\n\nyes,abc,d", other = "ab</</think>\n\nno";
  for (size_t at = 0; at <= text.size(); ++at) {
    AnswerGuide original = fresh();
    take(&original, text.substr(0, at));
    const auto before = bits(original);
    AnswerGuide copy(original), second(copy);
    EXPECT_EQ(bits(copy), before) << at;
    take(&copy, text.substr(at));
    if (at <= other.size() && other.substr(0, at) == text.substr(0, at)) take(&second, other.substr(at));
    EXPECT_EQ(bits(original), before) << "after " << at << " tokens";
    AnswerGuide whole = fresh();
    take(&whole, text);
    EXPECT_EQ(bits(copy), bits(whole)) << at;
    take(&original, text.substr(at));
    EXPECT_EQ(bits(original), bits(whole)) << at;
    EXPECT_FALSE(original.accept(tokens_of(*tokenizer, "Q")[0]));
    EXPECT_EQ(bits(original), bits(whole)) << "a token that is not allowed changes nothing";
  }
}

}  // namespace
}  // namespace kvrt
