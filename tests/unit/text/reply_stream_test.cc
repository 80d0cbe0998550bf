// The rules of the reply parser in every format: how long it holds back, its bounds, any mixture of markers, and
// answers that go on.
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"
#include "runtime/text/reply/family.h"
#include "tests/support/reply_rig.h"

namespace kvrt {
namespace {

using namespace reply_rig;

TEST(ReplyStream, MarkersAreHeldBackNotLongerThanNeeded) {
  auto after = [](ReplyFormat format, std::string_view text) {
    ReplyParser parser(thinking(format));
    Parts parts;
    for (size_t i = 0; i < text.size(); ++i) parser.push(text.substr(i, 1), false, &parts);
    Parts joined;
    add(parts, &joined);
    return show(joined);
  };
  using F = ReplyFormat;
  EXPECT_EQ(after(F::kHermes, "a <tool_"), "C<a>");
  EXPECT_EQ(after(F::kHermes, "a <tool_x"), "C<a <tool_x>");
  EXPECT_EQ(after(F::kHermes, "a <t <thi"), "C<a <t>");
  EXPECT_EQ(after(F::kHermes, "<tool_call> x"), "C<<tool_call> x>");
  EXPECT_EQ(after(F::kHermes, "<tool_call>{\"name\""), "");
  EXPECT_EQ(after(F::kHermes, "<tool_call>{\"name\":\"f\"}"), call("f", "{}"));  // before its end marker
  EXPECT_EQ(after(F::kLlama3, "{\"name\": \"Bob\", \"a"), "");
  EXPECT_EQ(after(F::kLlama3, "{\"name\": \"Bob\", \"ag"), "C<{\"name\": \"Bob\", \"ag>");
  EXPECT_EQ(after(F::kLlama3, "{\"city"), "C<{\"city>");
  EXPECT_EQ(after(F::kLlama3, "{ x"), "C<{ x>");
  EXPECT_EQ(after(F::kLlama3, "[1"), "C<[1>");
  EXPECT_EQ(after(F::kLlama3, "[link]"), "C<[link]>");
  EXPECT_EQ(after(F::kLlama3, "[get_weather"), "");
  EXPECT_EQ(after(F::kLlama3, "[get weather"), "C<[get weather>");
  EXPECT_EQ(after(F::kLlama3, "[a,"), "C<[a,>");
  EXPECT_EQ(after(F::kLlama3, "Hi {\"name\""), "C<Hi {\"name\">");
  EXPECT_EQ(after(F::kGemma, "```json\n{\"name\": 1, \"x"), "C<```json\n{\"name\": 1, \"x>");
  EXPECT_EQ(after(F::kGemma, "```python"), "C<```python>");
  EXPECT_EQ(after(F::kMistral, "[TOOL_CALLS]get weather"), "C<[TOOL_CALLS]get weather>");
  EXPECT_EQ(after(F::kCommandR, "Action: run"), "C<Action: run>");
  EXPECT_EQ(after(F::kHarmony, "Hello"), "C<Hello>");
  EXPECT_EQ(after(F::kHarmony, "<|channel|>final!"), "C<<|channel|>final!>");
}

TEST(ReplyStream, AParserIsAsNewAfterFinish) {
  ReplyParser parser(thinking(ReplyFormat::kHermes, true));
  for (const char* tail : {"", "x", "</think>", "</think>y <tool_call>{", "</think>y <tool", "</think> ; "}) {
    parse(&parser, {{std::string("a ") + tail, false}}, [](size_t) { return false; });
    EXPECT_EQ(parse(&parser, {{"b</think>c", false}}, [](size_t) { return false; }), "R<b>C<c>") << tail;
  }
}

TEST(ReplyStream, ACopyOutlivesItsSource) {
  auto source = std::make_unique<ReplyParser>(thinking(ReplyFormat::kHermes, true));
  std::vector<ReplyPart> parts;
  source->push("a </th", false, &parts);
  ReplyParser copy(*source);
  source = std::make_unique<ReplyParser>(ReplyStyle{.reasoning_begin = "[THINK]", .reasoning_end = "[/THINK]"});
  EXPECT_EQ(parse(&copy, {{"ink>b", false}}, [](size_t) { return false; }), "C<b>");
}

// A text that is longer than a call may be is content, and the parser goes on.
TEST(ReplyStream, TheBufferIsBounded) {
  ReplyParser parser(style_of(ReplyFormat::kHermes));
  Parts parts;
  const std::string opening = "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"";
  parser.push(opening, false, &parts);
  const std::string filler(1000, 'x');
  size_t bytes = opening.size();
  while (parts.empty() && bytes < 2 * kReplyCallBytesMax) {
    parser.push(filler, false, &parts);
    bytes += filler.size();
  }
  EXPECT_LE(bytes, kReplyCallBytesMax + filler.size());
  parser.push("\"}}</tool_call> <tool_call>{\"name\": \"g\"}", false, &parts);
  parser.finish(&parts);
  Parts joined;
  add(parts, &joined);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].text, opening + std::string(bytes - opening.size(), 'x') + "\"}}</tool_call>");
  EXPECT_EQ(joined[1].text, "{\"name\":\"g\",\"arguments\":{}}");
}

// Other text that is held back is bounded too: white space, separators, announcements, headers.
TEST(ReplyStream, NothingIsHeldBackForEver) {
  const std::tuple<ReplyFormat, const char*, const char*> cases[] = {
      {ReplyFormat::kHermes, "", " \n"},
      {ReplyFormat::kLlama3, "<|python_tag|>{\"name\": \"f\"}", "; "},
      {ReplyFormat::kDeepSeek, "", "<｜tool▁calls▁begin｜>"},
      {ReplyFormat::kMistral, "[TOOL_CALLS]f", " "},
      {ReplyFormat::kMistral, "[TOOL_CALLS]", "f"},
      {ReplyFormat::kQwenTags, "<function=f>", "<parameter=a>1</parameter>"},
      {ReplyFormat::kQwenTags, "<function=f><parameter=a>", "1"},
      {ReplyFormat::kHarmony, "", "<|channel|>a"},
      {ReplyFormat::kHarmony, "<|channel|>", "a"},
      {ReplyFormat::kHarmony, "<|channel|>commentary to=f<|message|>", " "},
  };
  for (const auto& [format, opening, unit] : cases) {
    ReplyParser parser(style_of(format));
    Parts parts;
    parser.push(opening, false, &parts);
    parts.clear();
    std::string chunk;
    while (chunk.size() < 4096) chunk += unit;
    for (size_t bytes = 0; parts.empty() && bytes <= kReplyCallBytesMax; bytes += chunk.size()) parser.push(chunk, false, &parts);
    EXPECT_FALSE(parts.empty()) << opening << unit;
  }
}

TEST(ReplyStream, DeepNestingIsContent) {
  for (char open : {'[', '{'}) {
    std::string text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":";
    for (int i = 0; i < 100'000; ++i) text += open == '[' ? "[" : "{\"a\":";
    ReplyParser parser(style_of(ReplyFormat::kHermes));
    EXPECT_EQ(parse(&parser, {{text, false}}, [](size_t) { return false; }), "C<" + text + ">");
  }
}

TEST(ReplyStream, TimeIsLinear) {
  const auto tools = read_reply_tools(R"([{"name":"f"}])");
  for (const char* unit : {"<tool_call>", "<tool_call>\"", "<tool_call>{\"", "<", "<tool_call>{\"name\":\"f\"}", "{", "[f(", " \n",
                           "<function=abc", "<|channel|>a", "<tool_call>\n<function=", "<tool_call>   "}) {
    for (int i = 0; i < 8; ++i) {
      const ReplyFormat format =
          std::array{ReplyFormat::kHermes, ReplyFormat::kLlama3, ReplyFormat::kQwenTags, ReplyFormat::kHarmony}[i / 2];
      const bool open = i % 2;  // reasoning

      ReplyStyle style = thinking(format, open);
      style.tools = tools;
      auto seconds = [&](size_t bytes) {
        std::string text;
        while (text.size() < bytes) text += unit;
        auto start = std::chrono::steady_clock::now();
        ReplyParser parser(style);
        Parts parts;
        for (size_t at = 0; at < text.size(); at += 7) parser.push(std::string_view(text).substr(at, 7), false, &parts);
        parser.finish(&parts);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      };
      EXPECT_LT(seconds(100'000), 10.0) << unit;  // 3 ms; a quadratic one takes minutes
    }
  }
}

const char* const kPieces[] = {"<tool_call>",
                               "</tool_call>",
                               "<think>",
                               "</think>",
                               "{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}",
                               "{",
                               "}",
                               "[",
                               "]",
                               "\"",
                               "\\",
                               " ",
                               "\n",
                               ";",
                               "x",
                               "é",
                               "😀",
                               "<",
                               "<|python_tag|>",
                               "f(x=1)",
                               "[f(x='y')]",
                               "[TOOL_CALLS]",
                               "name[ARGS]{}",
                               "```json",
                               "```",
                               "```tool_code",
                               "<｜tool▁calls▁begin｜>",
                               "<｜tool▁call▁begin｜>",
                               "function<｜tool▁sep｜>f\n```json\n{}",
                               "<｜tool▁call▁end｜>",
                               "<|tool_call_begin|>functions.f:0",
                               "<|tool_call_argument_begin|>{}",
                               "Action: ```json\n",
                               "<|START_ACTION|>",
                               "<|tool_call|>",
                               "<function=f>{}",
                               "<function=f>",
                               "<parameter=a>1",
                               "</parameter>",
                               "<arg_key>a</arg_key>",
                               "<arg_value>x</arg_value>",
                               "f",
                               "</function>",
                               "<|channel|>",
                               "analysis",
                               "<|message|>",
                               "<|start|>assistant",
                               "<|end|>",
                               " to=functions.f",
                               "<|call|>",
                               "{\"name\": \"g\", \"parameters\": {}}",
                               "<|im_end|>",
                               "<|open|>",
                               "<|close|>",
                               "<|sep|>",
                               "response",
                               "tools",
                               "call tool=\"f\"",
                               "argument key=\"a\" type=\"string\"",
                               "<｜DSML｜tool_calls>",
                               "<｜DSML｜invoke name=\"f\">",
                               "</｜DSML｜invoke>",
                               "<seed:tool_call>",
                               "<invoke name=\"f\">",
                               "<parameter name=\"a\">1</parameter>",
                               "</invoke>",
                               "]<]minimax[>[",
                               "<a>1",
                               "</a>",
                               "<function name=\"f\">",
                               "<param name=\"a\">",
                               "<![CDATA[",
                               "]]>",
                               "</param>",
                               "<|tool_call>call:f{",
                               "a:",
                               "<|\"|>",
                               "<|tool_call_start|>",
                               "<|tools_prefix|>[{\"f\": {}}]",
                               "<tool_calls>",
                               "<TOOLCALL>",
                               "<|function_call|>",
                               ">>>",
                               "all\n",
                               "f\n{}"};

// Whether the parts are calls of the promised form and whole code points; counts their kinds.
void check_parts(const Parts& parts, size_t counts[3]) {
  for (const ReplyPart& part : parts) {
    ASSERT_EQ(find_invalid_utf8(part.text), std::string::npos) << part.text;
    ++counts[static_cast<size_t>(part.kind)];
    if (part.kind != Kind::kToolCall) continue;
    auto json = nlohmann::ordered_json::parse(part.text);
    ASSERT_TRUE(json.dump() == part.text && json["name"].is_string() && json["arguments"].is_object()) << part.text;
    ASSERT_EQ(json.size(), json.contains("id") ? 3u : 2u) << part.text;
  }
}

// Pieces of all formats in any order, at any split: the same parts, and where no call, no reasoning and no control token was in it, the
// text itself.
TEST(ReplyStream, RandomMixtures) {
  std::mt19937 random(20251121);
  const auto tools = read_reply_tools(R"([{"name":"f"},{"name":"name"}])");  // then calls end reasoning, too
  size_t counts[3] = {};
  for (int round = 0; round < 24'000; ++round) {
    auto format = static_cast<ReplyFormat>(round % (static_cast<int>(ReplyFormat::kHarmony) + 1));
    ReplyStyle style = random() % 2 ? style_of(format) : thinking(format, random() % 3 == 0);
    if (random() % 2) style.tools = tools;
    std::vector<Piece> answer;
    std::string text;
    bool controls = false;
    for (size_t n = random() % 12 + 1; n > 0; --n) {
      answer.push_back({kPieces[random() % std::size(kPieces)], random() % 8 == 0});
      controls |= answer.back().control;
      text += answer.back().text;
    }
    ReplyParser parser(style);
    const std::string whole = parse(&parser, answer, [](size_t) { return false; });
    ASSERT_EQ(parse(&parser, answer, [](size_t) { return true; }), whole) << text;
    ASSERT_EQ(parse(&parser, answer, [&](size_t) { return random() % 3 == 0; }), whole) << text;
    Parts parts;
    for (const Piece& piece : answer) parser.push(piece.text, piece.control, &parts);
    parser.finish(&parts);
    check_parts(parts, counts);
    constexpr ReplyFormat kFramed[] = {ReplyFormat::kKimi3, ReplyFormat::kRecipient, ReplyFormat::kToolCalls, ReplyFormat::kCommandR7b,
                                       ReplyFormat::kGemma4};
    if (std::find(std::begin(kFramed), std::end(kFramed), format) != std::end(kFramed)) continue;
    bool plain = std::all_of(parts.begin(), parts.end(), [](const ReplyPart& part) { return part.kind == Kind::kContent; });
    if (plain && !controls && style.reasoning_begin.empty() && format != ReplyFormat::kHarmony) {
      ASSERT_EQ(whole, "C<" + text + ">");
    }
  }
  EXPECT_GT(counts[static_cast<size_t>(Kind::kToolCall)], 150u);
  EXPECT_GT(counts[static_cast<size_t>(Kind::kReasoning)], 1000u);
}

// An answer that is cut and goes on is as one that is not, but that what finish() gave at the cut stays given.
TEST(ReplyStream, GoesOnWhereItWasCut) {
  std::mt19937_64 random(7);
  const std::string_view marks[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};
  const auto tools = read_reply_tools(R"([{"name":"f"}])");
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t n = random() % 8; n > 0; --n) text += random() % 3 ? kPieces[random() % std::size(kPieces)] : marks[random() % 4];
    const size_t cut = text.empty() ? 0 : random() % text.size();
    ReplyStyle style = thinking(ReplyFormat::kHermes);
    if (round % 2) style.tools = tools;
    ReplyParser whole(style), parser(style);
    Parts in_one, before, after, given;
    whole.push(std::string_view(text).substr(0, cut), false, &in_one);
    parser.push(std::string_view(text).substr(0, cut), false, &before);
    ReplyParser(parser).finish(&given);
    parser.go_on();
    const AnswerPlace place = parser.place();
    whole.push(std::string_view(text).substr(cut), false, &in_one);
    whole.finish(&in_one);
    parser.push(std::string_view(text).substr(cut), false, &after);
    parser.finish(&after);
    Parts joined, expected;
    reply_rig::add(in_one, &expected);
    reply_rig::add(before, &joined);
    if (given.empty()) {  // nothing was held back
      reply_rig::add(after, &joined);
      EXPECT_EQ(show(joined), show(expected)) << text << " cut at " << cut;
    } else {
      reply_rig::add(given, &joined);
      reply_rig::add(after, &joined);
      size_t bytes = 0, expected_bytes = 0;  // nothing is lost, or comes twice
      for (const ReplyPart& part : joined) bytes += part.kind == Kind::kToolCall ? 0 : part.text.size();
      for (const ReplyPart& part : expected) expected_bytes += part.kind == Kind::kToolCall ? 0 : part.text.size();
      EXPECT_GE(bytes, expected_bytes) << text << " cut at " << cut << ": " << show(joined) << " and " << show(expected);
      EXPECT_LE(bytes, text.size() + 2) << text << " cut at " << cut << ": " << show(joined);
      const auto calls = [](const Parts& of) {
        return std::count_if(of.begin(), of.end(), [](const ReplyPart& p) { return p.kind == Kind::kToolCall; });
      };
      EXPECT_EQ(calls(joined), calls(expected)) << text << " cut at " << cut << ": " << show(joined) << " and " << show(expected);
    }
    EXPECT_NE(place, AnswerPlace::kClosed);
  }
  ReplyParser parser(thinking(ReplyFormat::kHermes, true));
  Parts parts;
  parser.push("so </thi", false, &parts);
  parser.go_on();
  EXPECT_EQ(parser.place(), AnswerPlace::kReasoning);
  parts.clear();
  parser.push("nk>\n\nIt is.", false, &parts);
  parser.finish(&parts);
  EXPECT_EQ(show(parts), "C<It is.>");
}

// What a grammar binds has no marks in it, whatever it spells.
TEST(ReplyStream, BoundContentHasNoMarks) {
  ReplyStyle style = thinking(ReplyFormat::kLlama3, true);
  style.bound = true;
  style.calls = false;
  ReplyParser parser(style);
  EXPECT_EQ(parse(&parser, {{"a</think>{\"name\": \"<think>\", \"parameters\": {}}</think>", false}}, [](size_t) { return true; }),
            "R<a>C<{\"name\": \"<think>\", \"parameters\": {}}</think>>");
}

}  // namespace
}  // namespace kvrt
