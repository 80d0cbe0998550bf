// Streamed answers in the formats that model families document, at every split.
#include "runtime/text/reply_parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"

namespace kvrt {
namespace {

using Kind = ReplyPart::Kind;
using Parts = std::vector<ReplyPart>;

struct Piece {
  std::string text;
  bool control;
};

// "text {{control token}} text"
std::vector<Piece> pieces_of(std::string_view answer) {
  std::vector<Piece> pieces;
  while (!answer.empty()) {
    bool control = answer.starts_with("{{<") || answer.starts_with("{{[");
    size_t end = control ? answer.find("}}") : std::min({answer.find("{{<"), answer.find("{{["), answer.size()});
    pieces.push_back({std::string(answer.substr(control ? 2 : 0, control ? end - 2 : end)), control});
    answer.remove_prefix(control ? end + 2 : end);
  }
  return pieces;
}

ReplyStyle style_of(ReplyFormat format) { return {format, "", "", false}; }
ReplyStyle thinking(ReplyFormat format, bool open = false) { return {format, "<think>", "</think>", open}; }

std::string show(const Parts& parts) {
  std::string text;
  for (const ReplyPart& part : parts)
    text += std::string(part.kind == Kind::kContent ? "C" : part.kind == Kind::kReasoning ? "R" : "T") + "<" + part.text + ">";
  return text;
}

void add(const Parts& increments, Parts* joined) {
  for (const ReplyPart& part : increments) {
    ASSERT_FALSE(part.text.empty());
    bool joins = !joined->empty() && joined->back().kind == part.kind && part.kind != Kind::kToolCall;
    if (joins)
      joined->back().text += part.text;
    else
      joined->push_back(part);
  }
}

// Texts are split before every byte for which cut(byte in all) is true.
template <typename Cut>
std::string parse(ReplyParser* parser, const std::vector<Piece>& pieces, Cut cut) {
  Parts joined;
  size_t at = 0;
  auto push = [&](std::string_view text, bool control) {
    Parts parts;
    parser->push(text, control, &parts);
    add(parts, &joined);
  };
  for (const Piece& piece : pieces) {
    size_t begin = 0;
    for (size_t i = 1; i < piece.text.size() && !piece.control; ++i) {
      if (!cut(at + i)) continue;
      push(std::string_view(piece.text).substr(begin, i - begin), false);
      begin = i;
    }
    push(std::string_view(piece.text).substr(begin), piece.control);
    at += piece.text.size();
  }
  Parts parts;
  parser->finish(&parts);
  add(parts, &joined);
  return show(joined);
}

void expect_pieces(const ReplyStyle& style, const std::vector<Piece>& pieces, const std::string& expected, const std::string& what) {
  ReplyParser parser(style);
  size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.text.size();
  ASSERT_EQ(parse(&parser, pieces, [](size_t) { return false; }), expected) << what;
  ASSERT_EQ(parse(&parser, pieces, [](size_t) { return true; }), expected) << what << ": byte by byte";
  for (size_t split = 1; split < bytes; ++split)
    ASSERT_EQ(parse(&parser, pieces, [=](size_t at) { return at == split; }), expected) << what << ": split at " << split;
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(parse(&parser, pieces, [&](size_t) { return random() % 4 == 0; }), expected) << what << ": random split " << round;
}

// The markers as control tokens where the answer says so.
void expect(const ReplyStyle& style, std::string_view answer, const std::string& expected) {
  expect_pieces(style, pieces_of(answer), expected, std::string(answer));
}

// And the same where the tokenizer has no such tokens and they come as text.
void expect_also_as_text(const ReplyStyle& style, std::string_view answer, const std::string& expected) {
  expect(style, answer, expected);
  std::string text;
  for (const Piece& piece : pieces_of(answer)) text += piece.text;
  expect_pieces(style, {{text, false}}, expected, "as text: " + text);
}

TEST(Reply, PlainIsContentAsItIs) {
  expect(style_of(ReplyFormat::kPlain), " \n{\"name\": \"f\", \"arguments\": {}} <tool_call> <think>x</think> \n",
         "C< \n{\"name\": \"f\", \"arguments\": {}} <tool_call> <think>x</think> \n>");
  expect(style_of(ReplyFormat::kPlain), "a {{<|im_end|>}}", "C<a >");
  expect(style_of(ReplyFormat::kPlain), "", "");
}

TEST(Reply, Reasoning) {
  ReplyStyle style = thinking(ReplyFormat::kPlain);
  expect_also_as_text(style, "{{<think>}}\nFirst.\n\nThen.\n{{</think>}}\n\nThe answer.\n", "R<First.\n\nThen.>C<The answer.\n>");
  expect_also_as_text(style, "{{<think>}}\n\n{{</think>}}\n\nHi", "C<Hi>");
  expect_also_as_text(style, "{{<think>}}cut off ", "R<cut off >");
  expect_also_as_text(style, "{{<think>}}{{<think>}}twice{{</think>}}x", "R<twice>C<x>");
  expect_also_as_text(style, "a {{<think>}}b{{</think>}} c {{<think>}}d{{</think>}}", "C<a>R<b>C<c>R<d>");
  expect(style, "<think>a <think> b</think>c", "R<a <think> b>C<c>");
  expect(style, "<thin<think>x</thin</think>k>", "C<<thin>R<x</thin>C<k>>");
  expect(style, "1 < 2 <<think>y</think>", "C<1 < 2 <>R<y>");
}

TEST(Reply, ReasoningOpenedByThePrompt) {
  ReplyStyle style = thinking(ReplyFormat::kHermes, true);
  expect_also_as_text(style, "\nHm.\n{{</think>}}\n\nYes.", "R<Hm.>C<Yes.>");
  expect_also_as_text(style, "<think>\nHm.\n{{</think>}}\n\nYes.", "R<Hm.>C<Yes.>");
  expect(style, "Hm <tool_call>{}</tool_call>", "R<Hm <tool_call>{}</tool_call>>");
  expect_also_as_text(style, "Hm{{</think>}}<tool_call>{\"name\":\"f\"}</tool_call>", "R<Hm>T<{\"name\":\"f\",\"arguments\":{}}>");
}

TEST(Reply, AReasoningEndWithoutItsBegin) {
  ReplyStyle style = thinking(ReplyFormat::kHermes);
  expect_also_as_text(style, "\n{{</think>}}\n\nYes.", "C<Yes.>");
  expect(style, "So </think> yes </think>", "C<So </think> yes </think>>");
  expect(style, "So {{</think>}} yes", "C<So  yes>");
  expect(style, "<think>a</think></think>b", "R<a>C<b>");
}

// A call's part, as the interface says it.
std::string call(const std::string& name, const std::string& arguments, const std::string& id = "") {
  return "T<{\"name\":\"" + name + "\",\"arguments\":" + arguments + (id.empty() ? "" : ",\"id\":\"" + id + "\"") + "}>";
}

TEST(Reply, Hermes) {
  ReplyStyle style = style_of(ReplyFormat::kHermes);
  const std::string paris = R"({"name": "get_weather", "arguments": {"city": "Paris", "days": 3}})";
  const std::string expected = call("get_weather", R"({"city":"Paris","days":3})");
  expect_also_as_text(style, "{{<tool_call>}}\n" + paris + "\n{{</tool_call>}}", expected);
  expect(style, "{{<tool_call>}}\n" + paris + "\n{{</tool_call>}}{{<|im_end|>}}", expected);
  expect_also_as_text(style,
                      "Let me see.\n{{<tool_call>}}" + paris + "{{</tool_call>}}\n{{<tool_call>}}\n" + paris + "\n{{</tool_call>}}\n",
                      "C<Let me see.>" + expected + expected);
  expect_also_as_text(style, "{{<tool_call>}}" + paris + "{{</tool_call>}}\n\nDone. ", expected + "C<Done. >");
  expect_also_as_text(style, "{{<tool_call>}}\n" + paris + "\n" + paris + "\n{{</tool_call>}}", expected + expected);
  expect_also_as_text(style, "{{<tool_call>}}\n[" + paris + ", " + paris + "]{{</tool_call>}}", expected + expected);
  expect_also_as_text(style, "{{<tool_call>}}\n" + paris, expected);  // the end marker was a stop string
}

TEST(Reply, ArgumentsInAllForms) {
  ReplyStyle style = style_of(ReplyFormat::kHermes);
  auto tagged = [](const std::string& json) { return "<tool_call>" + json + "</tool_call>"; };
  expect(style, tagged(R"({"arguments": {"a": [1, {"b": {}}], "c": null, "d": -1.5e3, "e": true}, "name": "f"})"),
         call("f", R"({"a":[1,{"b":{}}],"c":null,"d":-1500.0,"e":true})"));
  expect(style, tagged(R"({"name": "f", "arguments": {"s": "}{][ \" \\ </tool_call> \u00e9 é \n"}})"),
         call("f", R"({"s":"}{][ \" \\ </tool_call> é é \n"})"));
  expect(style, tagged(R"({"name": "f", "arguments": "{\"a\": {\"b\": \"}\"}}"})"), call("f", R"({"a":{"b":"}"}})"));
  expect(style, tagged(R"({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}})"), call("f", "{}", "call_1"));
  expect(style, tagged(R"({"name": "f", "parameters": {"x": 9223372036854775807}})"), call("f", R"({"x":9223372036854775807})"));
  expect(style, tagged(R"({"name": "f"})"), call("f", "{}"));
}

// Malformed and unfinished calls are content, to the byte.
TEST(Reply, WhatIsNoCallIsContent) {
  ReplyStyle style = style_of(ReplyFormat::kHermes);
  const char* const bad[] = {
      "<tool_call>",
      "a <tool_call> b",
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"unfinished",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}</tool_call> and on",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\" 1}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}</tool_call>",
      "<tool_call>{'name': 'f', 'arguments': {}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": \"no object\"}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>",
      "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
      "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
      "<tool_call>{\"arguments\": {}}</tool_call>",
      "<tool_call>[]</tool_call>",
      "<tool_call>{}</tool_call>",
      "<tool_call>\"f\"</tool_call>",
      "<tool_call>[{\"name\": \"f\"}, 1]</tool_call>",
      "<tool_call>[{\"name\": \"f\"}, {}]</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"line\nbreak\"}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\ud800\"}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\xff\"}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 9223372036854775808}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1e999}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": NaN}</tool_call>",
      "<tool_call>]</tool_call>",
      "</tool_call>",
      "<tool_call><tool_call> ",
      "<tool_<tool_call",
      "<tool_call>f(x=1)</tool_call>",
  };
  for (const char* text : bad) expect(style, text, "C<" + std::string(text) + ">");
  // A good one after a bad one; a control token that ends one.
  expect(style, "<tool_call>{\"name\": <tool_call>{\"name\": \"f\"}", "C<<tool_call>{\"name\":>" + call("f", "{}"));
  expect(style, "{{<tool_call>}}{\"name\": {{<|im_end|>}}", "C<{\"name\": >");
  expect(style, "{{<tool_call>}}{\"name\": {{<tool_call>}}{\"name\": \"f\"}", "C<{\"name\":>" + call("f", "{}"));
}

TEST(Reply, MarkersAreHeldBackNotLongerThanNeeded) {
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
  EXPECT_EQ(after(F::kLlama3, "Hi {\"name\""), "C<Hi {\"name\">");
  EXPECT_EQ(after(F::kGemma, "```json\n{\"name\": 1, \"x"), "C<```json\n{\"name\": 1, \"x>");
  EXPECT_EQ(after(F::kGemma, "```python"), "C<```python>");
  EXPECT_EQ(after(F::kMistral, "[TOOL_CALLS]get weather"), "C<[TOOL_CALLS]get weather>");
  EXPECT_EQ(after(F::kCommandR, "Action: run"), "C<Action: run>");
  EXPECT_EQ(after(F::kHarmony, "Hello"), "C<Hello>");
  EXPECT_EQ(after(F::kHarmony, "<|channel|>final!"), "C<<|channel|>final!>");
}

TEST(Reply, Llama3) {
  ReplyStyle style = style_of(ReplyFormat::kLlama3);
  const std::string paris = call("get_weather", R"({"city":"Paris"})");
  expect(style, R"({"name": "get_weather", "parameters": {"city": "Paris"}}{{<|eot_id|>}})", paris);
  expect(style,
         "\n"
         R"({"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}})",
         paris);
  expect_also_as_text(style, R"({{<|python_tag|>}}{"name": "get_weather", "parameters": {"city": "Paris"}})", paris);
  expect_also_as_text(style,
                      R"({{<|python_tag|>}}{"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "f", "parameters": {}})",
                      paris + call("f", "{}"));
  expect(style, R"({"name": "get_weather", "parameters": {"city": "Paris"}}
{"name": "f", "parameters": {"x": "{"}} Done; really.)",
         paris + call("f", R"({"x":"{"})") + "C<Done; really.>");
  expect(style, R"({"name": "f", "parameters": {}}; then)", call("f", "{}") + "C<; then>");
  expect(style, R"([get_weather(city="Paris"), f()])", paris + call("f", "{}"));
  expect_also_as_text(style, R"({{<|python_start|>}}[get_weather(city='Paris')]{{<|python_end|>}})", paris);
  expect_also_as_text(style, R"(<function=get_weather>{"city": "Paris"}</function>)", paris);
  expect_also_as_text(style, R"({{<|python_tag|>}}brave_search.call(query="who \"is\" it? é"))",
                      call("brave_search", R"({"query":"who \"is\" it? é"})"));
  // Code for the interpreter, and JSON that is an answer.
  expect(style, "{{<|python_tag|>}}import math\nprint(math.pi)", "C<import math\nprint(math.pi)>");
  expect(style, "<|python_tag|>print(1)", "C<<|python_tag|>print(1)>");
  for (const char* text : {R"({"name": "Bob"})", R"({"name": "Bob", "age": 3})", R"({"parameters": {}})", R"([{"name": "a", "x": 1}])",
                           "{}", "[]", "[x](http://e.org)", R"(["a", "b"])", R"({"name": "f", "parameters": {}, "note": 1})", R"([f(1)])"})
    expect(style, text, "C<" + std::string(text) + ">");
}

TEST(Reply, PythonLiterals) {
  ReplyStyle style = style_of(ReplyFormat::kLlama3);
  expect(
      style,
      R"([f(a=1, b=-2.5, c=True, d=False, e=None, g='it\'s "x"', h="\x41\u00e9\t", i=[1, [2], {"k": 'v'}], j={}, k=1e5), g.h( x = "y" )])",
      call("f", R"({"a":1,"b":-2.5,"c":true,"d":false,"e":null,"g":"it's \"x\"","h":"Aé\t","i":[1,[2],{"k":"v"}],"j":{},"k":100000.0})") +
          call("g.h", R"({"x":"y"})"));
  for (const char* text : {"[f(1)]",
                           "[f(x=y)]",
                           "[f(x=g(y=1))]",
                           "[f(x=(1, 2))]",
                           "[f(x=1 y=2)]",
                           "[f(x={'a'})]",
                           "[f(x=1+1)]",
                           "[f(x={a=1})]",
                           "[f(\"x\": 1)]",
                           "[f(x=[y=1])]",
                           "[f(x=1)",
                           "[f(x=1]",
                           "[f(x='\\N{DIGIT ONE}')]",
                           "[f(x='\\x4')]",
                           "[f(x=1 2)]",
                           "[f(x=0x10)]",
                           "[f(a.b=1)]",
                           "[f(x==1)]",
                           "[f(=1)]",
                           "[f(x=1),,g()]",
                           "[f(x='a' 'b')]",
                           "[f(x=TrueFalse)]",
                           "[f(x=01)]"})
    expect(style, text, "C<" + std::string(text) + ">");
}

TEST(Reply, Mistral) {
  ReplyStyle style = {ReplyFormat::kMistral, "[THINK]", "[/THINK]", false};
  const std::string f = call("f", R"({"a":"b"})", "a1b2c3d4e"), g = call("g", R"({"x":{}})");
  expect_also_as_text(
      style, R"({{[TOOL_CALLS]}} [{"name": "f", "arguments": {"a": "b"}, "id": "a1b2c3d4e"}, {"name": "g", "arguments": {"x": {}}}])",
      f + g);
  expect(style, R"({{[TOOL_CALLS]}}[{"name": "f", "arguments": {"a": "b"}, "id": "a1b2c3d4e"}]{{</s>}})", f);
  expect_also_as_text(style, R"({{[TOOL_CALLS]}}g{{[ARGS]}}{"x": {}}{{[TOOL_CALLS]}}f{{[CALL_ID]}}a1b2c3d4e{{[ARGS]}}{"a": "b"})", g + f);
  expect_also_as_text(style, R"(So: {{[TOOL_CALLS]}}g{"x": {}})", "C<So:>" + g);
  expect_also_as_text(style, R"({{[THINK]}}Hm.{{[/THINK]}}Well.{{[TOOL_CALLS]}}g{{[ARGS]}}{"x": {}})", "R<Hm.>C<Well.>" + g);
  for (const char* text : {"[TOOL_CALLS]", "[TOOL_CALLS]g[ARGS]", "[TOOL_CALLS]g[ARGS][1]", "[TOOL_CALLS]g[CALL_ID][ARGS]{}",
                           "[TOOL_CALLS][ARGS]{}", "[TOOL_CALLS]g[ARGS]{\"x\": }", "[TOOL_CALLS] [{\"name\": \"f\"}", "[TOOL_CALL] [THIN"})
    expect(style, text, "C<" + std::string(text) + ">");
}

TEST(Reply, Gemma) {
  ReplyStyle style = style_of(ReplyFormat::kGemma);
  const std::string paris = call("get_weather", R"({"city":"Paris"})");
  expect(style, "```tool_code\nget_weather(city=\"Paris\")\n```{{<end_of_turn>}}", paris);
  expect(style, "I look.\n```tool_code\nget_weather(city='Paris')\nf(x=1)\n```\nThere.",
         "C<I look.>" + paris + call("f", R"({"x":1})") + "C<There.>");
  expect(style, "```tool_code\n[get_weather(city='Paris')]\n```", paris);
  expect(style, "[get_weather(city='Paris'), f()]\n", paris + call("f", "{}"));
  expect(style, R"({"name": "get_weather", "parameters": {"city": "Paris"}})", paris);
  expect(style, "```json\n{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}\n```\n", paris);
  expect(style, "```json\n[{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}]\n```", paris);
  for (const char* text : {"```json\n{\"a\": 1}\n```", "```tool_code\nprint(get_weather(city=\"Paris\"))\n```", "```tool_code\nx = 1\n```",
                           "```\n[f()]\n```", "```python\nf(x=1)\n```"})
    expect(style, text, "C<" + std::string(text) + ">");
}

TEST(Reply, DeepSeek) {
  ReplyStyle style = thinking(ReplyFormat::kDeepSeek, true);
  const std::string f = call("get_weather", R"({"city":"Paris"})"), g = call("g", "{}");
  const std::string v3 =
      "{{<｜tool▁call▁begin｜>}}function{{<｜tool▁sep｜>}}get_weather\n```json\n{\"city\": \"Paris\"}\n```{{<｜tool▁call▁end｜>}}";
  const std::string v31 = "{{<｜tool▁call▁begin｜>}}g{{<｜tool▁sep｜>}}{}{{<｜tool▁call▁end｜>}}";
  const std::string begin = "{{<｜tool▁calls▁begin｜>}}", end = "{{<｜tool▁calls▁end｜>}}";
  expect_also_as_text(style, "Hm.\n{{</think>}}\n\n" + begin + v3 + "\n" + v3 + end, "R<Hm.>" + f + f);
  expect(style, "Hm.{{</think>}}I look.\n" + begin + v31 + v31 + end + "{{<｜end▁of▁sentence｜>}}", "R<Hm.>C<I look.>" + g + g);
  expect_also_as_text(style_of(ReplyFormat::kDeepSeek), begin + v31 + end, g);
  // A section that holds no call, or none that is whole.
  expect(style_of(ReplyFormat::kDeepSeek), "a\n<｜tool▁calls▁begin｜>\nno", "C<a\n<｜tool▁calls▁begin｜>\nno>");
  expect(style_of(ReplyFormat::kDeepSeek), "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{",
         "C<<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{>");
  expect(style_of(ReplyFormat::kDeepSeek), begin + "no", "C<no>");
  expect(style_of(ReplyFormat::kDeepSeek), "<｜x <｜tool▁ca ｜>", "C<<｜x <｜tool▁ca ｜>>");
}

TEST(Reply, Kimi) {
  ReplyStyle style = style_of(ReplyFormat::kKimi);
  auto one = [](const std::string& id, const std::string& arguments) {
    return "{{<|tool_call_begin|>}}" + id + "{{<|tool_call_argument_begin|>}}" + arguments + "{{<|tool_call_end|>}}";
  };
  expect_also_as_text(
      style,
      "Let me.{{<|tool_calls_section_begin|>}}" + one("functions.get_weather:0", "{\"city\": \"Paris\"}") + one("functions.f:12", "{}") +
          "{{<|tool_calls_section_end|>}}",
      "C<Let me.>" + call("get_weather", R"({"city":"Paris"})", "functions.get_weather:0") + call("f", "{}", "functions.f:12"));
  expect(style, "<|tool_call_begin|>f:0", "C<<|tool_call_begin|>f:0>");
}

TEST(Reply, CommandR) {
  ReplyStyle style = style_of(ReplyFormat::kCommandR);
  expect(style,
         "Plan: search.\nAction: ```json\n[\n    {\n        \"tool_name\": \"search\",\n        \"parameters\": {\n            \"query\": "
         "\"x\"\n        }\n    }\n]\n```",
         "C<Plan: search.>" + call("search", R"({"query":"x"})"));
  expect(style, "Action: ```json\n[]\n```", "C<Action: ```json\n[]\n```>");
  ReplyStyle newer = {ReplyFormat::kCommandR7b, "<|START_THINKING|>", "<|END_THINKING|>", false};
  expect_also_as_text(
      newer,
      "{{<|START_THINKING|>}}I search.{{<|END_THINKING|>}}{{<|START_ACTION|>}}[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"search\", "
      "\"parameters\": {\"query\": \"x\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"f\", \"parameters\": {}}\n]{{<|END_ACTION|>}}",
      "R<I search.>" + call("search", R"({"query":"x"})", "0") + call("f", "{}", "1"));
  expect(newer, "{{<|START_THINKING|>}}Hm.{{<|END_THINKING|>}}{{<|START_RESPONSE|>}}Yes.{{<|END_RESPONSE|>}}", "R<Hm.>C<Yes.>");
}

TEST(Reply, GranitePhiAndFunctionTags) {
  ReplyStyle granite = style_of(ReplyFormat::kGranite);
  const std::string calls = R"([{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}])";
  const std::string expected = call("f", R"({"a":1})") + call("g", "{}");
  expect_also_as_text(granite, "{{<|tool_call|>}}" + calls, expected);
  expect_also_as_text(granite, "{{<|tool_call|>}}" + calls + "{{<|/tool_call|>}}", expected);
  expect(style_of(ReplyFormat::kFunctionTag), "Well.\n<function=f>{\"a\": 1}</function>\n<function=g>{}</function>", "C<Well.>" + expected);
  expect(style_of(ReplyFormat::kFunctionTag), "<function=f g>{}</function>", "C<<function=f g>{}</function>>");
}

TEST(Reply, Harmony) {
  ReplyStyle style = style_of(ReplyFormat::kHarmony);
  const std::string paris = call("get_weather", R"({"city":"Paris"})");
  expect_also_as_text(style, "{{<|channel|>}}final{{<|message|>}}4.{{<|return|>}}", "C<4.>");
  expect_also_as_text(
      style,
      "{{<|channel|>}}analysis{{<|message|>}}2 + 2.{{<|end|>}}{{<|start|>}}assistant{{<|channel|>}}final{{<|message|>}}4.\n{{<|return|>}}",
      "R<2 + 2.>C<4.>");
  expect_also_as_text(
      style,
      "{{<|channel|>}}analysis{{<|message|>}}Ask.{{<|end|>}}{{<|start|>}}assistant{{<|channel|>}}commentary to=functions.get_weather "
      "{{<|constrain|>}}json{{<|message|>}}{\"city\": \"Paris\"}{{<|call|>}}",
      "R<Ask.>" + paris);
  expect_also_as_text(style, "{{<|channel|>}}commentary to=functions.get_weather json{{<|message|>}}{\"city\": \"Paris\"}{{<|call|>}}",
                      paris);
  expect_also_as_text(style, "to=functions.get_weather{{<|channel|>}}commentary{{<|message|>}} {\"city\": \"Paris\"}", paris);
  expect_also_as_text(
      style, " to=functions.get_weather{{<|channel|>}}commentary {{<|constrain|>}}json{{<|message|>}}{\"city\": \"Paris\"}{{<|call|>}}",
      paris);
  expect_also_as_text(
      style,
      "{{<|channel|>}}commentary{{<|message|>}}I ask both.{{<|end|>}}{{<|start|>}}assistant "
      "to=functions.get_weather{{<|channel|>}}commentary{{<|message|>}}"
      "{\"city\": \"Paris\"}{{<|call|>}}{{<|start|>}}assistant{{<|channel|>}}commentary to=functions.f{{<|message|>}}{}{{<|call|>}}",
      "C<I ask both.>" + paris + call("f", "{}"));
  // Out of form.
  expect(style, "Just text. to=x", "C<Just text. to=x>");
  expect(style, "to be {{<|return|>}}", "C<to be>");
  expect(style, "{{<|channel|>}}commentary to=python{{<|message|>}}print(1){{<|call|>}}", "C<commentary to=pythonprint(1)>");
  expect(style, "<|channel|>commentary to=f<|message|>{\"a\": <|call|>", "C<<|channel|>commentary to=f<|message|>{\"a\":>");
  expect(style, "{{<|channel|>}}analysis{{<|message|>}}cut off", "R<cut off>");
  expect(style, "{{<|channel|>}}anal", "C<anal>");
}

TEST(Reply, AParserIsAsNewAfterFinish) {
  ReplyParser parser(thinking(ReplyFormat::kHermes, true));
  for (const char* tail : {"", "x", "</think>", "</think>y <tool_call>{", "</think>y <tool", "</think> ; "}) {
    parse(&parser, {{std::string("a ") + tail, false}}, [](size_t) { return false; });
    EXPECT_EQ(parse(&parser, {{"b</think>c", false}}, [](size_t) { return false; }), "R<b>C<c>") << tail;
  }
}

// What is longer than a call may be is content, and the parser goes on.
TEST(Reply, TheBufferIsBounded) {
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
  parser.push(std::string(3 * kReplyCallBytesMax, ' '), false, &parts);
  EXPECT_GE(parts.back().text.size(), 2 * kReplyCallBytesMax);
}

TEST(Reply, DeepNestingIsContent) {
  for (char open : {'[', '{'}) {
    std::string text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":";
    for (int i = 0; i < 100'000; ++i) text += open == '[' ? "[" : "{\"a\":";
    ReplyParser parser(style_of(ReplyFormat::kHermes));
    EXPECT_EQ(parse(&parser, {{text, false}}, [](size_t) { return false; }), "C<" + text + ">");
  }
}

TEST(Reply, TimeIsLinear) {
  for (const char* unit : {"<tool_call>", "<tool_call>\"", "<tool_call>{\"", "<", "<tool_call>{\"name\":\"f\"}", "{", "[f(", " \n",
                           "<function=abc", "<|channel|>a"}) {
    for (ReplyFormat format : {ReplyFormat::kHermes, ReplyFormat::kLlama3, ReplyFormat::kHarmony}) {
      auto seconds = [&](size_t bytes) {
        std::string text;
        while (text.size() < bytes) text += unit;
        auto start = std::chrono::steady_clock::now();
        ReplyParser parser(thinking(format));
        Parts parts;
        for (size_t at = 0; at < text.size(); at += 7) parser.push(std::string_view(text).substr(at, 7), false, &parts);
        parser.finish(&parts);
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      };
      EXPECT_LT(seconds(300'000), 2.0) << unit;  // 10 ms; a quadratic one takes minutes
    }
  }
}

// Pieces of all formats in any order, at any split: the same parts, whole code points, calls of the promised form; and where no call, no
// reasoning and no control token was in it, the text itself.
TEST(Reply, RandomMixtures) {
  const char* const pieces[] = {"<tool_call>",
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
                                "</function>",
                                "<|channel|>",
                                "analysis",
                                "<|message|>",
                                "<|start|>assistant",
                                "<|end|>",
                                " to=functions.f",
                                "<|call|>",
                                "{\"name\": \"g\", \"parameters\": {}}",
                                "<|im_end|>"};
  std::mt19937 random(20251121);
  size_t calls = 0, reasonings = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto format = static_cast<ReplyFormat>(round % (static_cast<int>(ReplyFormat::kHarmony) + 1));
    ReplyStyle style = random() % 2 ? style_of(format) : thinking(format, random() % 3 == 0);
    std::vector<Piece> answer;
    std::string text;
    bool controls = false;
    for (size_t n = random() % 12 + 1; n > 0; --n) {
      answer.push_back({pieces[random() % std::size(pieces)], random() % 8 == 0});
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
    bool plain = true;
    std::string content;
    for (const ReplyPart& part : parts) {
      ASSERT_EQ(find_invalid_utf8(part.text), std::string::npos) << text;
      calls += part.kind == Kind::kToolCall;
      reasonings += part.kind == Kind::kReasoning;
      plain &= part.kind == Kind::kContent;
      content += part.text;
      if (part.kind != Kind::kToolCall) continue;
      auto json = nlohmann::ordered_json::parse(part.text);
      ASSERT_TRUE(json.dump() == part.text && json["name"].is_string() && json["arguments"].is_object()) << part.text;
      ASSERT_EQ(json.size(), json.contains("id") ? 3u : 2u) << part.text;
    }
    if (plain && !controls && style.reasoning_begin.empty() && format != ReplyFormat::kHarmony) {
      ASSERT_EQ(content, text);
    }
  }
  EXPECT_GT(calls, 300u);
  EXPECT_GT(reasonings, 1000u);
}

}  // namespace
}  // namespace kvrt
