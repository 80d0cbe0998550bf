// What a manifest says of the last answer, in its own version and in that of 0.1.
#include "runtime/engine/snapshot/manifest.h"

#include <gtest/gtest.h>

#include <cstring>

namespace kvrt {
namespace {

Manifest of_answer() {
  Manifest m;
  m.pending = {1, 2, 3};
  m.grammar.kind = GrammarKind::kGbnf;
  m.grammar.source = "root ::= \"a\"";
  m.grammar.begin = 2;
  m.grammar.bound = true;
  m.grammar.place = AnswerPlace::kReasoning;
  m.grammar.reply = ReplyKind::kMistral;
  m.grammar.choice = ToolChoice::kNamed;
  m.grammar.tool_name = "get_weather";
  m.grammar.calls_max = 7;
  m.grammar.reasoning_tokens_max = 900;
  return m;
}

TEST(Manifest, KeepsWhatBindsTheAnswer) {
  const Manifest m = of_answer();
  auto read = decode_manifest(encode_manifest(m), 0, 100);
  ASSERT_TRUE(read.is_ok()) << read.status().message();
  const AnswerGrammar& g = read->grammar;
  EXPECT_EQ(std::tie(g.kind, g.source, g.begin, g.bound, g.place, g.reply),
            std::make_tuple(m.grammar.kind, m.grammar.source, 2u, true, m.grammar.place, m.grammar.reply));
  EXPECT_EQ(std::tie(g.choice, g.tool_name, g.calls_max, g.reasoning_tokens_max),
            std::make_tuple(ToolChoice::kNamed, std::string("get_weather"), 7u, 900u));
}

// Version 3 ends with the grammar's source, which binds all of the answer.
TEST(Manifest, OfVersion3IsRead) {
  const Manifest m = of_answer();
  std::vector<uint8_t> bytes = encode_manifest(m);
  const size_t more = 5 * sizeof(uint32_t) + m.grammar.tool_name.size() + 2 * sizeof(uint32_t);
  bytes.resize(bytes.size() - more);
  const uint32_t version = 3;
  std::memcpy(bytes.data(), &version, sizeof version);
  auto read = decode_manifest(bytes, 0, 100);
  ASSERT_TRUE(read.is_ok()) << read.status().message();
  EXPECT_EQ(read->grammar.source, m.grammar.source);
  EXPECT_TRUE(read->grammar.bound);
  EXPECT_EQ(read->grammar.place, AnswerPlace::kContent);
  EXPECT_EQ(read->grammar.choice, ToolChoice::kDefault);
  bytes.push_back(0);
  EXPECT_EQ(decode_manifest(bytes, 0, 100).status().code(), Code::kCorrupt);
}

// Each of the numbers that say how the answer is bound has a last value.
TEST(Manifest, UnknownWaysToBindAreDamage) {
  const Manifest m = of_answer();
  const std::vector<uint8_t> whole = encode_manifest(m);
  const size_t place = whole.size() - (2 * sizeof(uint32_t) + m.grammar.tool_name.size() + 4 * sizeof(uint32_t));
  for (size_t field = 0; field < 3; ++field) {
    std::vector<uint8_t> bytes = whole;
    bytes[place + field * sizeof(uint32_t)] = 99;
    EXPECT_EQ(decode_manifest(bytes, 0, 100).status().code(), Code::kCorrupt) << field;
  }
}

}  // namespace
}  // namespace kvrt
