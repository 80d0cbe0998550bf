// Calls without their family's mark: what the reader makes of them, and what the grammar of answers allows and binds, byte by byte.
#include "runtime/text/answer/answer_grammar.h"
#include "runtime/text/reply/family.h"
#include "tests/support/byte_vocabulary.h"
#include "tests/support/reply_rig.h"

namespace kvrt::reply_bare {
namespace {

using reply_rig::add;
using reply_rig::call;
using reply_rig::expect;
using reply_rig::Parts;
using reply_rig::show;
using reply_rig::style_of;
using reply_rig::thinking;
using F = ReplyFormat;

constexpr char kTools[] = R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":
  {"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}},
  {"type":"function","function":{"name":"get","parameters":{"type":"object","properties":{}}}}])";
constexpr char kParis[] = R"({"name": "get_weather", "arguments": {"city": "Paris"}})";
const std::string kCall = call("get_weather", R"({"city":"Paris"})");

ReplyStyle with_tools(F format, bool think = false) {
  ReplyStyle style = think ? thinking(format) : style_of(format);
  style.tools = read_reply_tools(kTools);
  return style;
}

AnswerRules rules_of(std::string_view family, ToolChoice choice = ToolChoice::kAuto) {
  AnswerRules rules;
  for (const reply::Family& one : reply::families()) {
    if (one.name != family || rules.style.family != nullptr) continue;
    rules.style.family = &one;
    rules.style.format = one.format;
  }
  rules.choice = choice;
  rules.tools = kTools;
  return rules;
}

std::shared_ptr<const Grammar> grammar_of(const AnswerRules& rules) {
  static const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  static const auto vocab = GrammarVocab::make(*tokenizer);
  auto made = answer_grammar(rules, *vocab);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return made.is_ok() ? made.value() : nullptr;
}

// How much of the text may come.
size_t taken(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar.automaton());
  auto at = states.begin();
  for (size_t i = 0; i < text.size(); ++i) {
    at = states.step(at, static_cast<uint8_t>(text[i]));
    if (states.dead(at)) return i;
  }
  return text.size();
}

const std::string kFence = "```";

// Answers that are calls, and what they are.
const std::pair<std::string, std::string> kCalls[] = {
    {kParis, kCall},
    {std::string("\n ") + kParis + "\n", kCall},
    {"{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Paris\"\n  }\n}", kCall},
    {"{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}", kCall},
    {"{ \"name\" :\t\"get\" ,\r\n \"arguments\" : {}\n}", call("get", "{}")},
    {kFence + "json\n" + kParis + "\n" + kFence, kCall},
    {"\n" + kFence + "\n" + kParis + "\n" + kFence + "\n", kCall},
    {kFence + "json\n{\n    \"name\": \"get_weather\",\n    \"arguments\": {\n        \"city\": \"Paris\"\n    }\n}\n" + kFence, kCall},
    {std::string(kParis) + "\n" + kParis, kCall + kCall},
    {std::string(kParis) + ", " + kParis, kCall + kCall},
    {"[" + std::string(kParis) + ", " + kParis + "]", kCall + kCall},
    {kFence + "json\n[\n  " + kParis + ",\n  " + kParis + "\n]\n" + kFence, kCall + kCall},
    {kFence + "json\n" + kParis + "\n" + kParis + "\n" + kFence, kCall + kCall},
    {kFence + "json\n" + kParis + "\n" + kFence + "\n\n" + kFence + "json\n" + kParis + "\n" + kFence, kCall + kCall},
    {kFence + "json\n" + kParis + "\n" + kFence + "\n" + kParis, kCall + kCall},
};

// Answers that begin like calls, and are none.
const std::string kTexts[] = {
    R"({"name": "Ann"})",
    R"({"name": "Ann", "arguments": {}})",
    R"({"name": "get_weather", "description": "Says the weather", "parameters": {"type": "object"}})",
    R"({"name": "get_weather"})",
    R"({"name": "get_weather", "argument)",
    R"({"name": "get_weather_now", "arguments": {}})",
    R"({"name": "get_w", "arguments": {}})",
    R"({"name": "get\u005fweather", "arguments": {}})",
    R"({"arguments": {"city": "Paris"}, "name": "get_weather"})",
    R"({"type": "function", "name": "get_weather", "arguments": {}})",
    R"({"id": 1, "name": "get_weather", "arguments": {}})",
    R"({"name": "get_weather", "id": "1", "arguments": {}})",
    R"({"Name": "get_weather", "arguments": {}})",
    R"({"name" "get_weather"})",
    R"({"a": 1})",
    "{",
    "[",
    "[1]",
    "[[" + std::string(kParis) + "]]",
    R"([{"name": "Ann"}])",
    R"({{"name": "get_weather", "arguments": {}}})",
    "I call " + std::string(kParis),
    "It is:\n" + kFence + "json\n" + kParis + "\n" + kFence + "\nThat is all.",
    "(" + std::string(kParis) + ")",
    kFence + "python\nprint(1)\n" + kFence,
    kFence + "JSON\n" + kParis + "\n" + kFence,
    kFence + "jso\n" + kParis + "\n" + kFence,
    kFence + "json5\n" + kParis + "\n" + kFence,
    kFence + "json\n{\"a\": 1}\n" + kFence + "\n" + kFence + "json\n" + kParis + "\n" + kFence,
    "``\n" + std::string(kParis),
    "````\n" + std::string(kParis),
    "` " + std::string(kParis),
    "\"" + std::string(kParis) + "\"",
};

TEST(ReplyBare, ATextThatBeginsAsACallIsOne) {
  for (F format : {F::kHermes, F::kToolCalls, F::kNemotron, F::kGigaChat, F::kMistral, F::kGranite, F::kLlama3, F::kGemma}) {
    SCOPED_TRACE(static_cast<int>(format));
    for (const auto& [text, expected] : kCalls) expect(with_tools(format), text, expected);
    expect(with_tools(format, true), "<think>\nHm.\n</think>\n\n" + std::string(kParis), "R<Hm.>" + kCall);
  }
  expect(with_tools(F::kHermes), std::string(kParis) + "{{<|im_end|>}}", kCall);
  for (F format : {F::kLlama3, F::kGemma}) expect(with_tools(format), R"({"name": "get_weather", "parameters": {"city": "Paris"}})", kCall);
}

TEST(ReplyBare, AllElseIsText) {
  for (F format : {F::kHermes, F::kToolCalls, F::kNemotron, F::kGigaChat, F::kMistral, F::kGranite, F::kLlama3, F::kGemma}) {
    SCOPED_TRACE(static_cast<int>(format));
    for (const std::string& text : kTexts) {
      expect(with_tools(format), text, "C<" + text + ">");
      expect(with_tools(format), "\n " + text + "\n", "C<\n " + text + "\n>");
    }
    for (const auto& [text, calls] : kCalls) {
      ReplyStyle none = with_tools(format);
      none.calls = false;
      expect(none, text, "C<" + text + ">");
      if (format == F::kLlama3 || format == F::kGemma) continue;
      ReplyStyle marked = with_tools(format), unknown = with_tools(format);
      marked.unmarked = false;
      unknown.tools = nullptr;
      expect(marked, text, "C<" + text + ">");
      expect(unknown, text, "C<" + text + ">");
    }
  }
  // A tool's description has the key that is Llama's own for arguments.
  const std::string described = R"({"name": "get_weather", "parameters": {"type": "object"}})";
  expect(with_tools(F::kHermes), described, "C<" + described + ">");
  for (F format : {F::kQwenTags, F::kDeepSeek, F::kKimi, F::kPlain}) expect(with_tools(format), kParis, "C<" + std::string(kParis) + ">");
  // What goes on in another way behind the key is no call either: without a grammar it may come.
  for (const char* text : {R"({"name": "get_weather", "arguments": {"city": "Paris"})", R"({"name": "get_weather", "arguments": 1})",
                           R"({"name": "get_weather", "arguments": {"city": "Paris"}, "x": 1})"})
    expect(with_tools(F::kHermes), text, "C<" + std::string(text) + ">");
  // Nothing is held back that cannot become one.
  ReplyParser parser(with_tools(F::kHermes));
  Parts parts;
  for (std::string_view text : {"{\"name\": \"get_", "x"}) {
    EXPECT_TRUE(parts.empty());
    parser.push(text, false, &parts);
  }
  EXPECT_EQ(show(parts), "C<{\"name\": \"get_x>");
}

TEST(ReplyBare, ControlTokensAreNoPartOfIt) {
  const std::string rest = R"( "get_weather", "arguments": {"city": "Paris"}})";
  expect(with_tools(F::kHermes), "{\"name\":{{<|x|>}}" + rest, "C<{\"name\":" + rest + ">");
  expect(with_tools(F::kHermes), "{{<|x|>}}" + std::string(kParis), "C<" + std::string(kParis) + ">");
  expect(with_tools(F::kHermes, true), "</think>" + std::string(kParis), "C<" + std::string(kParis) + ">");
  expect(with_tools(F::kHermes), "<tool_call>" + std::string(kParis) + "</tool_call>\n" + kParis, kCall + "C<" + kParis + ">");
}

// The grammar: each call whole, none cut in its arguments, and each text.
TEST(ReplyBare, TheGrammarBindsWhatIsRead) {
  for (const char* family :
       {"Hermes", "Apriel", "Nemotron Nano 2", "GigaChat 3.1", "Mistral", "Granite", "Phi-4 mini", "Llama 3", "Gemma"}) {
    SCOPED_TRACE(family);
    for (ToolChoice choice : {ToolChoice::kDefault, ToolChoice::kAuto}) {
      const auto grammar = grammar_of(rules_of(family, choice));
      for (const auto& [text, expected] : kCalls) {
        EXPECT_TRUE(fits(*grammar, text)) << text;
        const size_t begin = text.find("arguments") + 12;
        for (size_t i = begin; i < text.find('}', begin) + 1; ++i) EXPECT_FALSE(fits(*grammar, text.substr(0, i))) << text.substr(0, i);
        EXPECT_FALSE(fits(*grammar, text + " So it is."));
      }
      for (const std::string& text : kTexts) {
        EXPECT_TRUE(fits(*grammar, text)) << text << " until " << text.substr(0, taken(*grammar, text));
        EXPECT_TRUE(fits(*grammar, "\n " + text)) << text;
      }
      for (const char* wrong :
           {R"({"name": "get_weather", "arguments": [)", R"({"name": "get_weather", "arguments": {}})",
            R"({"name": "get_weather", "arguments": {"town")", R"({"name": "get", "arguments": {"c)",
            R"({"name": "get_weather", "arguments": {"city": 1)", "```json\n{\"name\": \"get\", \"arguments\": {}}\n\nSo"})
        EXPECT_LT(taken(*grammar, wrong), std::string_view(wrong).size()) << wrong;
      const std::string spaces(100, ' ');
      EXPECT_TRUE(
          fits(*grammar, spaces + "{" + spaces + "\"name\"" + spaces + ":" + spaces + "\"get\"" + spaces + ",\n\"arguments\":\n{}}"));
      EXPECT_LT(taken(*grammar, kParis + spaces), std::string(kParis).size() + 60) << "white space is bounded";
    }
    const auto none = grammar_of(rules_of(family, ToolChoice::kNone));
    const auto required = grammar_of(rules_of(family, ToolChoice::kRequired));
    for (const auto& [text, expected] : kCalls) {
      EXPECT_TRUE(none == nullptr || fits(*none, text)) << text;
      if (family != std::string("Llama 3")) {
        EXPECT_LT(taken(*required, text), text.find('{') + 9) << text;
      }
    }
  }
  AnswerRules rules = rules_of("Hermes");
  rules.style.reasoning_begin = "<think>", rules.style.reasoning_end = "</think>";
  EXPECT_TRUE(fits(*grammar_of(rules), "<think>so</think>\n\n" + std::string(kParis)));
  rules.place = AnswerPlace::kReasoning;
  EXPECT_TRUE(fits(*grammar_of(rules), "so</think>" + std::string(kParis)));
  EXPECT_FALSE(fits(*grammar_of(rules), "so</think>{\"name\": \"get\", \"arguments\": 1}"));
  EXPECT_TRUE(fits(*grammar_of(rules), "so</think>{\"name\": \"got\", \"arguments\": 1}"));
  rules.place = AnswerPlace::kContent;
  EXPECT_TRUE(fits(*grammar_of(rules), "{\"name\": \"get\", \"arguments\": 1}")) << "the answer has begun";
}

TEST(ReplyBare, CallsAreCounted) {
  for (uint32_t most : {1u, 2u, 3u}) {
    AnswerRules rules = rules_of("Hermes");
    rules.calls_max = most;
    const auto grammar = grammar_of(rules);
    for (const auto& [text, expected] : kCalls) {
      const size_t calls = expected == kCall + kCall ? 2 : 1;
      EXPECT_EQ(fits(*grammar, text), calls <= most) << text;
    }
  }
}

TEST(ReplyBare, PythonsCallsInAList) {
  for (const char* family : {"Llama 3", "Gemma"}) {
    const auto grammar = grammar_of(rules_of(family));
    const ReplyStyle style = with_tools(rules_of(family).style.format);
    const std::string both = "[get_weather(city='Paris'), get()]";
    EXPECT_TRUE(fits(*grammar, both) && !fits(*grammar, "[get_weather(city=1)]") && !fits(*grammar, both + " So."));
    expect(style, both, kCall + call("get", "{}"));
    for (const char* text :
         {"[x](http://e.org)", "[f(x=1)]", "[get_weather]", "[get_weather (city='Paris')]", "[got()]", "```\n[get()]\n```"}) {
      EXPECT_TRUE(fits(*grammar, text)) << text;
      expect(style, text, "C<" + std::string(text) + ">");
    }
  }
  EXPECT_TRUE(fits(*grammar_of(rules_of("Hermes")), "[get(1)]"));
}

// Where many tools leave no room for a second form of their arguments, the first is bound, and the other does not come.
TEST(ReplyBare, ManyToolsKeepTheirOwnForm) {
  AnswerRules rules = rules_of("Llama 3");
  rules.tools = "[";
  for (int i = 0; i < 500; ++i)
    rules.tools +=
        (i ? ",{\"name\":\"tool_" : "{\"name\":\"tool_") + std::to_string(i) +
        R"(","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"enum":["x","y"]}}}})";
  rules.tools += "]";
  const auto grammar = grammar_of(rules);
  EXPECT_TRUE(fits(*grammar, R"({"name": "tool_499", "parameters": {"c": "x"}})"));
  EXPECT_TRUE(fits(*grammar, "[tool_0(c='x')]") && fits(*grammar, "[tool_500(c='x')]"));
  EXPECT_EQ(taken(*grammar, "[tool_499(c='x')]"), std::string_view("[tool_499").size());
}

// An answer that was cut anywhere and goes on has the same calls.
TEST(ReplyBare, GoesOnWhereItWasCut) {
  for (const auto& [text, expected] : kCalls) {
    for (size_t cut = 0; cut < text.size(); ++cut) {
      ReplyParser parser(with_tools(F::kHermes));
      Parts parts, after;
      parser.push(std::string_view(text).substr(0, cut), false, &parts);
      parser.go_on();
      parser.push(std::string_view(text).substr(cut), false, &after);
      parser.finish(&after);
      Parts joined;
      add(parts, &joined);
      add(after, &joined);
      EXPECT_EQ(show(joined), expected) << text << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace kvrt::reply_bare
