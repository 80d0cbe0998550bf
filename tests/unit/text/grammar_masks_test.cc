// What the sessions of one grammar share: states and masks, on several threads, and within their size.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "runtime/text/grammar/json_schema.h"
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

std::shared_ptr<const Grammar> arguments(std::string_view parameters) {
  GrammarBuilder builder("tools");
  const uint32_t root = builder.add_rule("root");
  const auto rule = add_arguments_schema(parameters, {}, &builder);
  EXPECT_TRUE(rule.is_ok()) << rule.status().message();
  builder.define(root, builder.call(rule.value()));
  auto automaton = builder.build();
  EXPECT_TRUE(automaton.is_ok()) << automaton.status().message();
  return std::make_shared<const Grammar>(std::move(automaton).value());
}

// Which members have come outlives the states: they are taken over into those that are begun anew, and a replay comes to the same.
TEST(GrammarMasks, MembersThatCameAreTakenOver) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  std::string properties;
  for (char name = 'a'; name <= 'z'; ++name)
    properties += (properties.empty() ? "\"" : ",\"") + std::string(1, name) + R"(":{"type":"string","maxLength":8000})";
  const std::string tool = R"({"type":"object","properties":{"o":{"type":"object","properties":{)" + properties + "}}}}";
  const auto masks = GrammarMasks::make(arguments(tool), vocab);
  GrammarMatcher waits(masks), fills(masks);
  const auto begun = tokens_of(*tokenizer, R"({"o": {"y": "1", "c": "xyz)");
  for (int32_t id : begun) ASSERT_TRUE(waits.accept(id) && fills.accept(id));
  size_t last = 0, begun_anew = 0;
  for (char name : std::string("qazwsxed")) {
    const std::string text = std::string("\", \"") + name + "\":\"" + std::string(8'000, 'x');
    for (int32_t id : tokens_of(*tokenizer, text)) {
      fills.mask();
      ASSERT_TRUE(fills.accept(id)) << name;
    }
    begun_anew += masks->bytes() < last;
    last = masks->bytes();
  }
  EXPECT_GT(begun_anew, 0u);
  GrammarMatcher replay(arguments(tool), vocab);
  for (int32_t id : begun) ASSERT_TRUE(replay.accept(id));
  for (GrammarMatcher* m : {&waits, &replay}) {
    for (int32_t id : tokens_of(*tokenizer, "\",\"")) ASSERT_TRUE(m->accept(id));
    for (char name = 'a'; name <= 'z'; ++name) EXPECT_EQ(has(m->mask(), name), name != 'y' && name != 'c') << name;
  }
  EXPECT_TRUE(std::ranges::equal(waits.mask(), replay.mask()));
  for (int32_t id : tokens_of(*tokenizer, "\",\"")) ASSERT_TRUE(fills.accept(id));
  for (char name : std::string("qazwsxedyc")) EXPECT_FALSE(has(fills.mask(), name)) << name;
  for (char name : std::string("bfgnop")) EXPECT_TRUE(has(fills.mask(), name)) << name;
}

// What random orders of many members leave is bounded, and no order is lost on the way.
TEST(GrammarMasks, ManyMembersInRandomOrders) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  std::string properties;
  std::vector<std::string> members;
  for (int i = 0; i < 64; ++i) {
    members.push_back("\"name" + std::to_string(i) + "\":");
    properties += (i ? "," : "") + members.back() + R"({"type":"integer"})";
  }
  const auto masks = GrammarMasks::make(arguments(R"({"type":"object","properties":{)" + properties + "}}"), vocab);
  std::mt19937_64 random(3);
  size_t largest = 0;
  for (int round = 0; round < 30; ++round) {
    std::ranges::shuffle(members, random);
    std::string text;
    for (const std::string& member : members) text += (text.empty() ? "{" : ",") + member + std::to_string(random() % 1000);
    GrammarMatcher m(masks);
    for (int32_t id : tokens_of(*tokenizer, text)) {
      ASSERT_TRUE(has(m.mask(), id)) << text;
      ASSERT_TRUE(m.accept(id)) << text;
    }
    EXPECT_FALSE(has(m.mask(), ',')) << text;
    ASSERT_TRUE(m.accept('}'));
    EXPECT_TRUE(m.complete() && m.status().is_ok());
    largest = std::max(largest, masks->bytes());
  }
  EXPECT_LE(largest, size_t{20} << 20);
}

// A walk over tries takes steps that it knows and whole parts at once; accept goes a byte at a time. Random grammars.
TEST(GrammarMasks, EachBitIsWhatAcceptSays) {
  std::mt19937_64 random(11);
  auto one_of = [&](std::initializer_list<const char*> texts) { return std::string(texts.begin()[random() % texts.size()]); };
  std::vector<std::pair<std::string, int64_t>> more{{"<|im_end|>", 3}};
  std::set<std::string> texts;
  while (texts.size() < 900) {
    std::string text;
    for (uint64_t size = 2 + random() % 6; size > 0; --size)
      text += one_of({"a", "b", "c", "Z", "0", "7", " ", "\"", "-", "é", "日", "\xE6\x97"});
    texts.insert(text);
  }
  for (const std::string& text : texts) {
    more.emplace_back("", 1);
    for (char c : text) append_code_point(byte_to_symbol(static_cast<uint8_t>(c)), &more.back().first);
  }
  const auto tokenizer = byte_tokenizer(more);
  const auto vocab = GrammarVocab::make(*tokenizer);
  const auto tokens = static_cast<int32_t>(tokenizer->vocab_size());
  for (int round = 0; round < 70; ++round) {
    std::string source = "root ::=";
    for (uint64_t parts = 1 + random() % 3; parts > 0; --parts) {
      source += " " + one_of({"[a-c]", "[^ ]", "[^\"]", "[a-z0-9]", "[é日a]", "\"ab\"", "(\"a\" | [b-z]+ \"-\")", "[^\\x00-\\x1f]"});
      source += one_of({"", "*", "+", "{1,3}", "{0,40}", "?"});
    }
    const bool members = round >= 60;  // in any order: texts that begin names lead where the set of those that came says
    if (members)
      source =
          R"({"properties":{"a":{"enum":["a","Z"]},"ab":{"type":"integer"},"abc":{"const":"é"},"07":{"type":"null"}},"required":["ab"]})";
    const auto masks = GrammarMasks::make(members ? arguments(source) : gbnf(source), vocab);
    std::string came = members ? "{" : "";
    for (const char* member : {R"("ab":7,)", R"("a":"a",)", R"("07":null,)"})
      if (members && random() % 2) came += member;
    std::vector<int32_t> before(came.begin(), came.end());
    for (int step = 0; step < 4; ++step) {
      GrammarMatcher at(masks);
      for (int32_t id : before) ASSERT_TRUE(at.accept(id));
      const std::vector<uint64_t> mask(at.mask().begin(), at.mask().end());
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokens; ++id) {
        GrammarMatcher again(masks);
        for (int32_t first : before) (void)again.accept(first);
        ASSERT_EQ(has(mask, id), again.accept(id)) << source << ": " << tokenizer->piece(id, true);
        if (has(mask, id) && !tokenizer->is_end(id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      before.push_back(allowed[random() % allowed.size()]);
    }
  }
}

}  // namespace
}  // namespace kvrt
