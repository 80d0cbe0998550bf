// Conversations whose text has bytes that the vocabulary lacks: the tokens of each message, and what was sampled, stay in their places. And
// the tokens that go when a span is erased.
#include "runtime/engine/conversation/edit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "runtime/engine/conversation/answer.h"
#include "runtime/text/tokenizer/byte_alphabet.h"

namespace kvrt {
namespace {

struct Lines final : Log {
  void write(LogLevel level, std::string_view message) override { said.emplace_back(level == LogLevel::kWarn ? message : "not a warning"); }
  std::vector<std::string> said;
};

constexpr char kChatMl[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Bytes but for '!' and 0xF1, "ok" merged, and <|im_start|>, <|im_end|>.
std::unique_ptr<LoadedModel> make_model(Log* log, std::string chat_template = kChatMl, const char* pre = "gpt-2") {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) {
    if (b == '!' || b == 0xF1) continue;
    append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &tokens.emplace_back());
  }
  tokens.insert(tokens.end(), {"ok", "<|im_start|>", "<|im_end|>"});
  VocabSource source;
  source.model = "gpt2";
  source.pre = pre;
  source.tokens.assign(tokens.begin(), tokens.end());
  source.types.assign(tokens.size() - 2, 1);
  source.types.insert(source.types.end(), 2, 3);
  source.merges = {"o k"};
  ModelParts parts;
  parts.name = "toy";
  parts.tokenizer = std::move(Tokenizer::create(source)).value();
  parts.chat_template = std::move(chat_template);
  return std::make_unique<LoadedModel>(std::move(parts), log);
}

std::string text_of(const LoadedModel& model, const Conversation& said, size_t message) {
  const Message& m = said.messages[message];
  return model.tokenizer().decode(std::span(said.tokens).subspan(m.begin, m.end - m.begin), true);
}

TEST(Edit, BytesThatTheVocabularyLacks) {
  Lines log;
  const auto model = make_model(&log);
  const TemplateArguments arguments;
  Conversation said;
  ASSERT_TRUE(add_message(*model, arguments, R"({"role":"user","content":"a!b \uD8C0\uDC00!"})", &said).is_ok());
  EXPECT_EQ(said.dropped, 3u);
  ASSERT_TRUE(open_turn(*model, arguments, &said).is_ok());
  // An answer as no tokenizer spells it: the letters of "ok".
  const uint64_t begin = said.tokens.size();
  for (std::string_view letter : {"o", "k"}) ASSERT_TRUE(model->tokenizer().encode(letter, false, &said.tokens).is_ok());
  said.messages.push_back({R"({"role":"assistant","content":"ok"})", begin, said.tokens.size(), true});
  ASSERT_EQ(said.messages[1].end - begin, 2u);
  said.dropped = 0;
  ASSERT_TRUE(add_message(*model, arguments, R"({"role":"user","content":"ok! c"})", &said).is_ok());
  EXPECT_EQ(said.dropped, 1u) << "what was left out before is no news";
  ASSERT_TRUE(add_message(*model, arguments, R"({"role":"user","content":"!d"})", &said).is_ok());
  EXPECT_EQ(model->tokenizer().decode(said.tokens, true),
            "<|im_start|>user\nab \x80\x80\x80<|im_end|>\n<|im_start|>assistant\nok<|im_end|>\n<|im_start|>user\nok c<|im_end|>\n"
            "<|im_start|>user\nd<|im_end|>\n");
  EXPECT_EQ(text_of(*model, said, 1), "ok");
  EXPECT_EQ(said.messages[1].end - said.messages[1].begin, 2u) << "the sampled tokens stay";
  EXPECT_EQ(text_of(*model, said, 3), "<|im_start|>user\nd<|im_end|>\n");
  const Message gone = said.messages[2];
  ASSERT_TRUE(erase(*model, arguments, gone.begin, gone.end, &said).is_ok());
  EXPECT_EQ(text_of(*model, said, 2), "<|im_start|>user\nd<|im_end|>\n");
  // A whole list anew: its spans are found by the texts of its beginnings.
  Conversation fresh;
  ASSERT_TRUE(
      replace_messages(*model, arguments, {R"({"role":"system","content":"!x!"})", R"({"role":"user","content":"y"})"}, &fresh).is_ok());
  EXPECT_EQ(text_of(*model, fresh, 0), "<|im_start|>system\nx<|im_end|>\n");
  EXPECT_EQ(text_of(*model, fresh, 1), "<|im_start|>user\ny<|im_end|>\n");
  EXPECT_EQ(fresh.preamble, 17u) << "up to the first word of the user: 12 tokens of the system, 5 of <|im_start|>user";
}

void say(const LoadedModel& model, const TemplateArguments& arguments, std::string_view role, std::string_view content,
         Conversation* said) {
  const std::string message = R"({"role":")" + std::string(role) + R"(","content":")" + std::string(content) + R"("})";
  ASSERT_TRUE(add_message(model, arguments, message, said).is_ok());
}

void answer(const LoadedModel& model, const TemplateArguments& arguments, std::string_view text, Conversation* said) {
  ASSERT_TRUE(open_turn(model, arguments, said).is_ok());
  const uint64_t begin = said->tokens.size();
  ASSERT_TRUE(model.tokenizer().encode(text, true, &said->tokens).is_ok());
  const ReplyStyle style = answer_style(model, said->tokens, arguments.tools, ReplyKind::kNone, begin);
  said->messages.push_back({answer_message(model, style, said->tokens, begin), begin, said->tokens.size(), true});
}

// The tokenizer composes characters: messages end where their composed text ends, nothing is rewritten, and an answer stays as the model wrote it.
TEST(Edit, TextThatTheTokenizerComposes) {
  Lines log;
  const auto model = make_model(&log, kChatMl, "qwen2");
  const TemplateArguments arguments;
  Conversation said;
  say(*model, arguments, "system", "be e\u0301", &said);
  say(*model, arguments, "user", "a e\u0301 \u1100\u1161\u11a8 e\u0301", &said);
  EXPECT_EQ(text_of(*model, said, 1), "<|im_start|>user\na \u00e9 \uac01 \u00e9<|im_end|>\n");
  ASSERT_TRUE(open_turn(*model, arguments, &said).is_ok());
  const uint64_t begin = said.tokens.size();
  for (std::string_view part : {"ok e", "\xcc", "\x81"}) ASSERT_TRUE(model->tokenizer().encode(part, false, &said.tokens).is_ok());
  said.messages.push_back({"{\"role\":\"assistant\",\"content\":\"ok e\u0301\"}", begin, said.tokens.size(), true});
  ASSERT_EQ(text_of(*model, said, 2), "ok e\u0301");
  for (const char* next : {"ok e\u0301", "b"}) {
    const std::vector<int32_t> before = said.tokens;
    say(*model, arguments, "user", next, &said);
    ASSERT_GT(said.tokens.size(), before.size());
    EXPECT_TRUE(std::ranges::equal(before, std::span(said.tokens).first(before.size()))) << "nothing is rewritten";
  }
  EXPECT_TRUE(said.messages[2].generated);
  EXPECT_EQ(text_of(*model, said, 2), "ok e\u0301");
  EXPECT_EQ(text_of(*model, said, 4), "<|im_start|>user\nb<|im_end|>\n");
  Conversation fresh;
  std::vector<std::string> all;
  for (const Message& m : said.messages) all.push_back(m.json);
  ASSERT_TRUE(replace_messages(*model, arguments, all, &fresh).is_ok());
  EXPECT_EQ(text_of(*model, fresh, 2), "<|im_start|>assistant\nok \u00e9<|im_end|>\n");
}

// The next message begins with the line break after the answer before it, which goes. The call keeps the white space that the model wrote.
TEST(Edit, EraseJoinsBehindACallInOtherWhiteSpace) {
  Lines log;
  const auto model = make_model(
      &log,
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
      "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  TemplateArguments arguments;
  arguments.tools = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  const std::string call = "<tool_call>\n{\"name\":\"f\",\"arguments\":{\"x\":1}}\n</tool_call><|im_end|>";
  Conversation said;
  say(*model, arguments, "user", "a", &said);
  answer(*model, arguments, call, &said);
  ASSERT_NE(said.messages[1].json.find("tool_calls"), std::string::npos) << said.messages[1].json;
  say(*model, arguments, "tool", "1", &said);
  answer(*model, arguments, "ok<|im_end|>", &said);
  say(*model, arguments, "user", "b", &said);
  answer(*model, arguments, "ok<|im_end|>", &said);
  say(*model, arguments, "user", "c", &said);
  ASSERT_EQ(text_of(*model, said, 1), call);
  ASSERT_EQ(text_of(*model, said, 6), "\n<|im_start|>user\nc<|im_end|>\n");
  ASSERT_TRUE(erase(*model, arguments, said.messages[2].end, said.messages[6].begin, &said).is_ok());
  EXPECT_EQ(model->tokenizer().decode(said.tokens, true), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n" + call +
                                                              "\n<|im_start|>tool\n1<|im_end|>\n<|im_start|>user\nc<|im_end|>\n");
  EXPECT_EQ(text_of(*model, said, 3), "<|im_start|>user\nc<|im_end|>\n");
  const std::vector<int32_t> before = said.tokens;
  say(*model, arguments, "user", "d", &said);
  ASSERT_GT(said.tokens.size(), before.size());
  EXPECT_TRUE(std::ranges::equal(before, std::span(said.tokens).first(before.size()))) << "nothing is rewritten";
}

// Behind an answer that was cut, the end of a turn is wanted: that of the next message is not taken for it.
TEST(Edit, EraseKeepsWhatTheNextMessageSays) {
  Lines log;
  const auto model = make_model(&log);
  const TemplateArguments arguments;
  Conversation said;
  say(*model, arguments, "user", "a", &said);
  answer(*model, arguments, "ok", &said);
  say(*model, arguments, "user", "b", &said);
  answer(*model, arguments, "ok<|im_end|>", &said);
  say(*model, arguments, "user", "c", &said);
  const std::string last = text_of(*model, said, 4);
  ASSERT_TRUE(erase(*model, arguments, said.messages[1].end, said.messages[4].begin, &said).is_ok());
  ASSERT_EQ(said.messages.size(), 3u);
  EXPECT_EQ(text_of(*model, said, 2), last);
}

// Without the system message the template writes one of its own, so that nothing joins: a long message is looked at once.
TEST(Edit, EraseBeforeALongMessageTakesLinearTime) {
  Lines log;
  const auto model =
      make_model(&log, std::string("{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}") + kChatMl);
  const TemplateArguments arguments;
  Conversation said;
  say(*model, arguments, "system", "Be brief.", &said);
  std::string words;
  while (words.size() < 60'000) words += "x ";
  say(*model, arguments, "user", words, &said);
  const std::string text = text_of(*model, said, 1);
  ASSERT_GT(said.messages[1].end - said.messages[1].begin, 50'000u);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(erase(*model, arguments, 0, said.messages[0].end, &said).is_ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));  // each token once: milliseconds
  ASSERT_EQ(said.messages.size(), 1u);
  EXPECT_EQ(text_of(*model, said, 0), text);
}

TEST(Edit, SaysInTheLogWhatWasLeftOut) {
  Lines log;
  const auto model = make_model(&log);
  model->tell_dropped(0);
  EXPECT_TRUE(log.said.empty());
  model->tell_dropped(3);
  EXPECT_EQ(log.said, std::vector<std::string>{"toy: 3 bytes of a text have no token in the vocabulary and are left out"});
}

}  // namespace
}  // namespace kvrt
