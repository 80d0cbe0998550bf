// Sessions of one model that ask for grammars at once, and for more than are kept.
#include "runtime/engine/conversation/grammar_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

// Takes `text` alone.
AnswerRules rules_of(const std::string& text) {
  AnswerRules rules;
  rules.kind = GrammarKind::kGbnf;
  rules.source = "root ::= \"" + text + "\"";
  return rules;
}

TEST(GrammarCache, SessionsAskAtOnce) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  GrammarCache cache(*tokenizer);
  std::vector<std::thread> sessions;
  for (int n = 0; n < 4; ++n) {
    sessions.emplace_back([&, n] {
      for (int i = 0; i < 60; ++i) {
        const std::string text = "grammar " + std::to_string((i + n * 3) % 24);  // most of them are also another's; 16 are kept
        auto guide = cache.guide(rules_of(text));
        ASSERT_TRUE(guide.is_ok()) << guide.status().message();
        for (const int32_t token : tokens_of(*tokenizer, text)) ASSERT_TRUE(guide.value()->accept(token)) << text;
        EXPECT_FALSE(guide.value()->accept('x')) << text;
        AnswerRules wrong = rules_of(text);
        wrong.source = "root ::= other";
        EXPECT_EQ(cache.guide(wrong).status().code(), Code::kInvalid);
      }
    });
  }
  for (std::thread& session : sessions) session.join();
}

}  // namespace
}  // namespace kvrt
