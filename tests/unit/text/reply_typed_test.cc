// The types of arguments that stand in tags, by the tool's schema; and what single families have beside the ten situations.
#include "tests/support/reply_rig.h"

namespace kvrt {
namespace {

using namespace reply_rig;
using F = ReplyFormat;

ReplyStyle with_tools(ReplyFormat format, const std::string& properties) {
  ReplyStyle style = thinking(format);
  style.tools = read_reply_tools(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": )" +
                                 properties + R"(, "$defs": {"n": {"type": "integer"}}}}}])");
  return style;
}

TEST(ReplyTyped, ByTheToolsSchema) {
  struct {
    const char *schema, *text, *value;
  } const cases[] = {
      {R"({"type": "string"})", "5123123", R"("5123123")"},
      {R"({"type": "string"})", "\"foo\"", R"("\"foo\"")"},
      {R"({"type": "string"})", "null", R"("null")"},
      {R"({"type": "string"})", "", R"("")"},
      {R"({"type": "string"})", "\n", R"("\n")"},
      {R"({"enum": ["1", "2"]})", "1", R"("1")"},
      {R"({"const": "true"})", "true", R"("true")"},
      {R"({"type": "integer"})", "42555916", "42555916"},
      {R"({"type": "integer"})", "-14", "-14"},
      {R"({"type": "integer"})", "-123456789012345678901234567890", "-123456789012345678901234567890"},
      {R"({"type": ["number", "string"]})", "9223372036854775808", "9223372036854775808"},
      {R"({"const": 18446744073709551616})", "18446744073709551616", "18446744073709551616"},
      {R"({"type": "integer"})", "many", R"("many")"},
      {R"({"type": "number"})", "3.14", "3.14"},
      {R"({"type": "number"})", "3", "3"},
      {R"({"$ref": "#/$defs/n"})", "7", "7"},
      {R"({"type": "boolean"})", "true", "true"},
      {R"({"type": "boolean"})", "False", "false"},
      {R"({"type": ["string", "null"]})", "null", "null"},
      {R"({"type": ["null", "string"]})", "hello world", R"("hello world")"},
      {R"({"type": "string", "nullable": true})", "null", "null"},
      {R"({"type": ["integer", "null"]})", "None", "null"},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})", "42", "42"},
      {R"({"anyOf": [{"type": "string"}, {"type": "integer"}]})", "2 dollars", R"("2 dollars")"},
      {R"({"oneOf": [{"type": "string"}, {"type": "object"}]})", "{not JSON", R"("{not JSON")"},
      {R"({"oneOf": [{"type": "string"}, {"type": "object"}]})", "12", R"("12")"},
      {R"({"type": "object"})", "{'a': 'x', 'b': [1, None, True]}", R"({"a":"x","b":[1,null,true]})"},
      {R"({"type": "array", "items": {"type": "string"}})", "[\"1\", \"2\"]", R"(["1","2"])"},
      {R"({"properties": {"a": {}}})", "{\"a\": 1}", R"({"a":1})"},
      {R"({})", "5", "5"},
      {R"({})", "\"5\"", R"("\"5\"")"},
      {R"(true)", "5 apples", R"("5 apples")"},
  };
  for (const auto& c : cases) {
    const ReplyStyle style = with_tools(F::kSeed, std::string(R"({"p": )") + c.schema + "}");
    expect(style, std::string("<seed:tool_call>\n<function=f>\n<parameter=p>") + c.text + "</parameter>\n</function>\n</seed:tool_call>",
           call("f", std::string("{\"p\":") + c.value + "}"));
  }
  // Of a function that no tool is nothing is known, and so where there are no tools or they are no list.
  const std::string other = "<seed:tool_call>\n<function=g>\n<parameter=p>5</parameter>\n</function>\n</seed:tool_call>";
  expect(with_tools(F::kSeed, R"({"p": {"type": "string"}})"), other, call("g", R"({"p":5})"));
  ReplyStyle broken = style_of(F::kSeed);
  for (const char* tools : {"{", "{}", "[1, {\"name\": 2}, {\"function\": []}]", "[{\"name\": \"g\"}]"}) {
    broken.tools = read_reply_tools(tools);
    expect(broken, other, call("g", R"({"p":5})"));
  }
}

TEST(ReplyTyped, SchemasThatGoInCircles) {
  const ReplyStyle style = with_tools(F::kSeed, R"({"p": {"$ref": "#/properties/p"}, "q": {"anyOf": [{"$ref": "#/properties/q"}]}})");
  expect(style, "<seed:tool_call><function=f><parameter=p>1</parameter><parameter=q>x</parameter></function></seed:tool_call>",
         call("f", R"({"p":1,"q":"x"})"));
}

TEST(ReplyTyped, ByTheModelWhereTheSchemaSaysNothing) {
  const std::string dsml =
      "<｜DSML｜invoke name=\"g\">\n<｜DSML｜parameter name=\"s\" string=\"true\">12</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"n\" string=\"false\">12</｜DSML｜parameter>\n</｜DSML｜invoke>";
  expect(style_of(F::kDsml), dsml, call("g", R"({"s":"12","n":12})"));
  const std::string kimi =
      "<|open|>call tool=\"g\" index=\"1\"<|sep|><|open|>argument key=\"a&quot;b&amp;c\" type=\"string\"<|sep|>12<|close|>argument<|sep|>"
      "<|open|>argument key=\"n\" type=\"number\"<|sep|>12<|close|>argument<|sep|><|close|>call<|sep|>";
  expect(style_of(F::kKimi3), kimi, call("g", R"({"a\"b&c":"12","n":12})"));
}

TEST(ReplyTyped, TagsWithinTags) {
  const ReplyStyle style = with_tools(
      F::kMiniMax3,
      R"({"l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object", "properties": {"item": {"type": "integer"}}},
                     "s": {"type": ["string", "object"]}, "e": {"type": "array"}, "m": {"type": "object"}, "u": {}})");
  const auto tag = [](const std::string& name, const std::string& text) {
    return "]<]minimax[>[<" + name + ">" + text + "]<]minimax[>[</" + name + ">";
  };
  const auto invoke = [&](const std::string& tags) { return "]<]minimax[>[<invoke name=\"f\">" + tags + "]<]minimax[>[</invoke>\n"; };
  expect(style, invoke(tag("l", tag("item", "1") + tag("item", "a"))), call("f", R"({"l":["1","a"]})"));
  expect(style, invoke(tag("o", tag("item", "1"))), call("f", R"({"o":{"item":1}})"));
  expect(style, invoke(tag("s", tag("item", "1"))), call("f", R"({"s":"]<]minimax[>[<item>1]<]minimax[>[</item>"})"));
  expect(style, invoke(tag("e", "") + tag("m", "")), call("f", R"({"e":[],"m":{}})"));
  expect(style, invoke(tag("u", tag("item", tag("item", "1")) + tag("item", tag("k", "x")))), call("f", R"({"u":[[1],{"k":"x"}]})"));
  for (const std::string& bad : {tag("l", "]<]minimax[>[<item>1"), tag("l", "]<]minimax[>[</item>"), tag("l", "]<]minimax[>[<>")}) {
    const std::string text = invoke(bad).substr(0, invoke(bad).size() - 1);
    expect(style, text, "C<" + text + ">");
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "]<]minimax[>[<a>";
  expect_pieces(style, {{"]<]minimax[>[<invoke name=\"f\">", false}}, "C<]<]minimax[>[<invoke name=\"f\">>", "no tag");
  ReplyParser parser(style);
  EXPECT_EQ(parse(&parser, {{"]<]minimax[>[<invoke name=\"f\">" + deep, false}}, [](size_t) { return false; }).substr(0, 2), "C<");
}

TEST(ReplyTyped, ValuesThatHoldMarks) {
  const ReplyStyle style = with_tools(F::kMiniCpm, R"({"m": {"type": "string"}})");
  expect(style, R"(<function name="f"><param name="m"><![CDATA[<a href="/x">hi</a> </param>]]></param></function>)",
         call("f", R"({"m":"<a href=\"/x\">hi</a> </param>"})"));
  expect(style, R"(<function name="f"><param name="m"><![CDAT]]></param></function>)", call("f", R"({"m":"<![CDAT]]>"})"));
  const ReplyStyle qwen = with_tools(F::kQwenTags, R"({"m": {"type": "string"}})");
  const auto value = [](const std::string& text) {
    return "<tool_call>\n<function=f>\n<parameter=m>" + text + "</parameter>\n</function>\n</tool_call>";
  };
  expect(qwen, value("\n#include\n\n"), call("f", R"({"m":"#include\n"})"));
  expect(qwen, value("\n    indented\n"), call("f", R"({"m":"    indented"})"));
  expect(qwen, value("\n\n"), call("f", R"({"m":""})"));
  expect(qwen, value("\n<b>x</b>\n"), call("f", R"({"m":"<b>x</b>"})"));
}

// A call may follow reasoning that nothing has ended, in the families whose models do so.
TEST(ReplyTyped, CallsThatEndReasoning) {
  const std::string qwen = "{{<tool_call>}}\n<function=f>\n</function>\n{{</tool_call>}}";
  ReplyStyle style = thinking(F::kQwenTags, true);
  expect_also_as_text(style, "I look.\n" + qwen, "R<I look.>" + call("f", "{}"));
  expect_also_as_text(style, qwen, call("f", "{}"));
  expect_also_as_text(style, "So <tool_call> is a mark.\n{{</think>}}\n\nYes.", "R<So <tool_call> is a mark.>C<Yes.>");
  style = thinking(F::kKimi, false);
  const std::string kimi = "{{<|tool_call_begin|>}}functions.f:0{{<|tool_call_argument_begin|>}}{}";
  expect_also_as_text(style,
                      "{{<think>}}Both.{{<|tool_calls_section_begin|>}}" + kimi + "{{<|tool_call_end|>}}{{<|tool_calls_section_end|>}}",
                      "R<Both.>" + call("f", "{}", "functions.f:0"));
  expect_also_as_text(style, "{{<think>}}Both." + kimi + kimi,
                      "R<Both.>" + call("f", "{}", "functions.f:0") + call("f", "{}", "functions.f:0"));
  style = thinking(F::kDsml, true);
  expect_also_as_text(
      style, "Hm.\n\n<{{｜DSML｜}}tool_calls>\n<{{｜DSML｜}}invoke name=\"f\">\n\n</{{｜DSML｜}}invoke>\n</{{｜DSML｜}}tool_calls>",
      "R<Hm.>" + call("f", "{}"));
  style = {F::kMistral, "[THINK]", "[/THINK]"};
  expect_also_as_text(style, "{{[THINK]}}Say [TOOL_CALLS]f[ARGS]{}?{{[/THINK]}}No.", "R<Say [TOOL_CALLS]f[ARGS]{}?>C<No.>");
}

TEST(ReplyTyped, HeadersOfHarmony) {
  const ReplyStyle style = style_of(F::kHarmony);
  const std::string f = call("f", R"({"a":1})");
  for (const char* head :
       {" to=functions.f{{<|channel|>}}analysis", "{{<|channel|>}}analysis to=functions.f",
        " to=functions.f{{<|channel|>}}analysis {{<|constrain|>}}json", "{{<|channel|>}}commentary to=functions.f code",
        "{{<|channel|>}}commentary {{<|constrain|>}}json to=functions.f", "{{<|start|>}}assistant to=f{{<|channel|>}}commentary"})
    expect_also_as_text(style, std::string(head) + "{{<|message|>}}{\"a\": 1}{{<|call|>}}", f);
  expect_also_as_text(style,
                      "{{<|channel|>}}commentary to=assistant{{<|channel|>}}analysis{{<|message|>}}Hm.{{<|end|>}}{{<|start|>}}assistant"
                      "{{<|channel|>}}commentary to=assistant{{<|channel|>}}final{{<|message|>}}Yes.",
                      "R<Hm.>C<Yes.>");
  expect(style, "{{<|channel|>}}final <|x|> [what] {{<|constrain|>}}json{{<|message|>}}{\"a\": 1}{{<|return|>}}", "C<{\"a\": 1}>");
}

TEST(ReplyTyped, StrayChannelsOfGemma4) {
  const ReplyStyle style = {F::kGemma4, "<|channel>thought", "<channel|>"};
  expect_also_as_text(style, "{{<|channel>}}thought\n{{<channel|>}}Hi{{<channel|>}}", "C<Hi>");
  expect_also_as_text(style, "{{<|channel>}}{{<|channel>}}thought\n{{<channel|>}}Hi{{<|channel>}}thought\n{{<channel|>}}{{<channel|>}}",
                      "C<Hi>");
  expect_also_as_text(style, "{{<|channel>}}thought{{<channel|>}}Hi", "C<Hi>");
}

// Without tools nothing is a call; what stands around content still is no content.
TEST(ReplyTyped, FramesWithoutTools) {
  ReplyStyle style = style_of(F::kRecipient);
  style.calls = false;
  expect(style, "all\nHello >>> x", "C<Hello >>> x>");
  expect(style, "Hello", "C<Hello>");
  style = {F::kKimi3, "<|open|>think<|sep|>", "<|close|>think<|sep|>", AnswerPlace::kReasoning};
  style.calls = false;
  expect(style,
         "Hm.{{<|close|>}}think{{<|sep|>}}{{<|open|>}}response{{<|sep|>}}Say response, then message."
         "{{<|close|>}}response{{<|sep|>}}{{<|close|>}}message{{<|sep|>}}{{<|end_of_msg|>}}",
         "R<Hm.>C<Say response, then message.>");
}

}  // namespace
}  // namespace kvrt
