// What the sessions of one grammar share: states and masks, on several threads, and within their size.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt {
namespace {

std::shared_ptr<const Grammar> schema(std::string_view source) {
  auto grammar = Grammar::from_json_schema(source);
  EXPECT_TRUE(grammar.is_ok()) << grammar.status().message();
  return grammar.is_ok() ? grammar.value() : nullptr;
}

TEST(GrammarMasks, SessionsLeaveThemToEachOther) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  const auto grammar = schema(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":2000},"n":{"type":"integer"}},"required":["name","n"]})");
  const auto ids = tokens_of(*tokenizer, R"({"name": ")" + std::string(1000, 'x') + R"(", "n": 12345})");
  std::vector<std::vector<uint64_t>> alone;
  GrammarMatcher first(grammar, vocab);
  for (int32_t id : ids) {
    const auto mask = first.mask();
    alone.emplace_back(mask.begin(), mask.end());
    ASSERT_TRUE(first.accept(id));
  }
  const auto masks = GrammarMasks::make(grammar, vocab);
  std::atomic<uint32_t> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      GrammarMatcher m(masks);
      for (size_t i = 0; i < ids.size(); ++i) wrong += !std::ranges::equal(m.mask(), alone[i]) || !m.accept(ids[i]);
      wrong += !m.complete();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  const size_t bytes = masks->bytes();
  GrammarMatcher a(masks), b(masks);
  EXPECT_EQ(a.mask().data(), b.mask().data());
  EXPECT_EQ(masks->bytes(), bytes);
}

// One session fills what all share; the others stand where they stood.
TEST(GrammarMasks, OnesThatAreForgottenAreMadeAgain) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  std::string properties, required;
  for (char name = 'a'; name <= 'z'; ++name) {
    properties += (properties.empty() ? "\"" : ",\"") + std::string(1, name) + R"(":{"type":"string","maxLength":8000})";
    required += (required.empty() ? "\"" : ",\"") + std::string(1, name) + "\"";
  }
  const auto masks = GrammarMasks::make(schema(R"({"type":"object","properties":{)" + properties + R"(},"required":[)" + required + "]}"),
                                        GrammarVocab::make(*tokenizer));
  GrammarMatcher waits(masks), fills(masks);
  for (int32_t id : tokens_of(*tokenizer, R"({"a":"xyz)")) ASSERT_TRUE(waits.accept(id));
  const auto mask = waits.mask();
  const std::vector<uint64_t> before(mask.begin(), mask.end());
  size_t largest = 0, last = 0, begun_anew = 0;
  for (char name = 'a'; name <= 'z'; ++name) {
    const std::string text = (name == 'a' ? "{\"" : ",\"") + std::string(1, name) + "\":\"" + std::string(8'000, 'x') + "\"";
    for (int32_t id : tokens_of(*tokenizer, text)) {
      fills.mask();
      ASSERT_TRUE(fills.accept(id)) << name;
    }
    begun_anew += masks->bytes() < last;
    largest = std::max(largest, last = masks->bytes());
  }
  EXPECT_GT(begun_anew, 0u);
  EXPECT_LE(largest, size_t{64} << 20);
  EXPECT_TRUE(std::ranges::equal(waits.mask(), before));
  for (int32_t id : tokens_of(*tokenizer, R"(!","b":")")) ASSERT_TRUE(waits.accept(id));
  EXPECT_TRUE(waits.status().is_ok());
}

// A bounded string has a state per character: they are begun anew on the way, and masks stay the same.
TEST(GrammarMasks, TheirSizeIsBoundedAndHarmless) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  const auto grammar =
      Grammar::from_json_schema(R"({"type":"array","items":{"type":"array","items":{"type":"string","maxLength":16000}}})");
  ASSERT_TRUE(grammar.is_ok());
  GrammarMatcher m(grammar.value(), vocab);
  std::vector<int32_t> ids;
  std::string text = "[[\"" + std::string(16'000, 'x') + "\",\"";
  ASSERT_TRUE(tokenizer->encode(text, false, &ids).is_ok());
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(has(m.mask(), ids[i])) << i;
    ASSERT_TRUE(m.accept(ids[i])) << i;
  }
  GrammarMatcher replay(grammar.value(), vocab);
  for (int32_t id : ids) ASSERT_TRUE(replay.accept(id));
  EXPECT_TRUE(std::ranges::equal(m.mask(), replay.mask()));
  EXPECT_TRUE(m.status().is_ok());
}

}  // namespace
}  // namespace kvrt
