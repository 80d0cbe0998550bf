// Streamed answers in the formats that model families document, at every split.
#include "tests/support/reply_rig.h"

namespace kvrt {
namespace {

using namespace reply_rig;

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
  expect_also_as_text(style, "a{{<think>}} {{</think>}} b {{<think>}}c{{</think>}}\n{{<think>}}d{{</think>}}{{<think>}}", "C<a\nb>R<c\nd>");
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
  expect(style, "<tool_call>" + paris + "</tool_call> a </tool_call>", expected + "C<a </tool_call>>");
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
  expect(style, tagged(R"({"name": "f", "arguments": {"s": "\\", "t": "\\\"}"}})"), call("f", R"({"s":"\\","t":"\\\"}"})"));
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
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1e999}}</tool_call>",
      "<tool_call>{\"name\": \"f\", \"arguments\": NaN}</tool_call>",
      "<tool_call>]</tool_call>",
      "</tool_call>",
      "<tool_call><tool_call> ",
      "<tool_<tool_call",
      "<tool_call>f(x=1)</tool_call>",
  };
  for (const char* text : bad) expect(style, text, "C<" + std::string(text) + ">");
  // Integers keep their digits.
  const std::string digits = "[9223372036854775808,-18446744073709551616,1" + std::string(60, '0') + "]";
  expect(style, "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": " + digits + "}}</tool_call>", call("f", "{\"n\":" + digits + "}"));
  // A good one after a bad one; a control token that ends one.
  expect(style, "<tool_call>{\"name\": <tool_call>{\"name\": \"f\"}", "C<<tool_call>{\"name\":>" + call("f", "{}"));
  expect(style, "{{<tool_call>}}{\"name\": {{<|im_end|>}}", "C<{\"name\": >");
  expect(style, "{{<tool_call>}}{\"name\": {{<tool_call>}}{\"name\": \"f\"}", "C<{\"name\":>" + call("f", "{}"));
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

TEST(Reply, Tags) {
  ReplyStyle style = style_of(ReplyFormat::kQwenTags);
  const std::string qwen =
      "{{<tool_call>}}\n<function=f>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n{{</"
      "tool_call>}}";
  const std::string expected = call("f", R"({"city":"Paris","days":3})");
  expect_also_as_text(style, "I look.\n" + qwen + "\n" + qwen, "C<I look.>" + expected + expected);
  expect(style, "<function=f>\n<parameter=s>\n\n{a}\n\nb </x>\n</parameter>\n</function>\n</tool_call> Well.",
         call("f", R"({"s":"\n{a}\n\nb </x>"})") + "C<Well.>");
  for (const char* text :
       {"<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>f</tool_call>", "<function=f>\n<parameter=a>\n1\n</function>",
        "<function=f>x</function>", "<function=f><parameter=></parameter></function>",
        "<function=f><parameter=a>\xff</parameter></function>", "<function=f><parameter=a>1</parameter>"})
    expect(style, text, "C<" + std::string(text) + ">");
}

TEST(Reply, Glm) {
  ReplyStyle style = style_of(ReplyFormat::kGlm);
  expect(style,
         "<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</"
         "tool_call>",
         call("f", R"({"city":"Paris","days":3})"));
  expect(style,
         "<tool_call>f\n<arg_key>a</arg_key><arg_value>[1, {\"b\": "
         "null}]</arg_value><arg_key>q</arg_key><arg_value>\"x\"</arg_value></tool_call>",
         call("f", R"({"a":[1,{"b":null}],"q":"\"x\""})"));
  expect_also_as_text(style,
                      "{{<tool_call>}}f\n{{<arg_key>}}city{{</arg_key>}}\n{{<arg_value>}}Paris{{</arg_value>}}\n{{</"
                      "tool_call>}}{{<tool_call>}}g{{</tool_call>}}",
                      call("f", R"({"city":"Paris"})") + call("g", "{}"));
  expect(style, "{{<tool_call>}}f{{<arg_key>}}city{{</arg_key>}}{{<arg_value>}}Par{{<|endoftext|>}}", "C<fcityPar>");
  for (const char* text :
       {"<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>f g</tool_call>", "<tool_call>f<arg_key>a</arg_key>1</tool_call>",
        "<tool_call>f<b></tool_call>", "<tool_call>f<arg_key>a</arg_key><arg_value>\xff</arg_value></tool_call>"})
    expect(style, text, "C<" + std::string(text) + ">");
}

TEST(Reply, Mistral) {
  ReplyStyle style = {ReplyFormat::kMistral, "[THINK]", "[/THINK]"};
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
  ReplyStyle newer = {ReplyFormat::kCommandR7b, "<|START_THINKING|>", "<|END_THINKING|>"};
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
  expect_also_as_text(style,
                      "{{<|channel|>}}commentary{{<|message|>}}First.{{<|end|>}}{{<|start|>}}assistant{{<|channel|>}}final{{<|message|>}}"
                      "Then.{{<|return|>}}",
                      "C<First.\nThen.>");
  // Out of form.
  expect(style, "Just text. to=x", "C<Just text. to=x>");
  expect(style, "to be {{<|return|>}}", "C<to be>");
  expect_also_as_text(style, "{{<|channel|>}}commentary to=python{{<|message|>}}print(1){{<|call|>}}", "C<print(1)>");
  expect_also_as_text(style, "{{<|channel|>}}commentary to=f{{<|message|>}}{\"a\": {{<|call|>}}", "C<{\"a\":>");
  expect(style, "{{<|channel|>}}analysis{{<|message|>}}cut off", "R<cut off>");
  expect(style, "{{<|channel|>}}anal", "");
  expect(style, "{{<|message|>}}a <|channel|>! b <|channel|>final<|message|>c", "C<a <|channel|>! b\nc>");
}

}  // namespace
}  // namespace kvrt
