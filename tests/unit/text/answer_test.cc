// Answers at places that a draw of answers (tests/golden/answers.py) does not begin at, and the limits of their calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "runtime/text/answer/template_calls.h"
#include "runtime/text/reply/family.h"
#include "runtime/text/template/chat_template.h"
#include "tests/support/answer_rig.h"

namespace kvrt {
namespace {

using namespace answer_rig;

TEST(Answer, ACallIsAskedForWithinContent) {
  const auto hermes = grammar_of(rules_of("Hermes", ToolChoice::kRequired, AnswerPlace::kContent));
  EXPECT_TRUE(fits(*hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(fits(*hermes, "more text"));
  const auto oss = grammar_of(rules_of("gpt-oss", ToolChoice::kRequired, AnswerPlace::kContent));
  EXPECT_TRUE(fits(*oss, "<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>"));
  EXPECT_FALSE(fits(*oss, " to=functions.f<|channel|>commentary json<|message|>{}<|call|>")) << "the message has not ended";
}

// Behind a call any white space, of a bounded length, leads to the end of the turn as well as to another call.
TEST(Answer, ATurnEndsBehindACall) {
  for (const reply::Family& family : reply::families()) {
    SCOPED_TRACE(family.name);
    const AnswerRules rules = rules_of(family.name, ToolChoice::kRequired, AnswerPlace::kBegin);
    if (rules.style.family != &family) continue;  // another row of this name
    const auto grammar = grammar_of(rules);
    const size_t prompted = family.format == ReplyFormat::kRecipient ? 3 : 0;
    const std::string one = one_call(family.written, true, true).substr(prompted), call = R"({"name":"f")";
    const size_t end = one.find_last_not_of(" \n") + 1;
    for (const std::string space : {"", "\n", "\n\n", " ", "\r\n", "\t \n", "\n               "}) {
      EXPECT_TRUE(fits(*grammar, one.substr(0, end) + space)) << one << "|" << space << "|";
      if (family.format != ReplyFormat::kHarmony) {
        EXPECT_EQ(calls_read(rules.style, one.substr(0, end) + space), call) << one;
      }
    }
    EXPECT_FALSE(fits(*grammar, one + std::string(17, ' '))) << one;
    if (family.format == ReplyFormat::kHarmony) continue;  // its call ends the turn
    const std::string two = one_call(family.written, true, false).substr(prompted) + one_call(family.written, false, true);
    EXPECT_TRUE(fits(*grammar, two)) << two;
    EXPECT_EQ(calls_read(rules.style, two), call + call) << two;
  }
}

// A sampler that ends whenever it may comes to an end, though it likes white space best and all else as much.
TEST(Answer, AnAnswerOfCallsComesToItsEnd) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  for (const reply::Family& family : reply::families()) {
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      AnswerRules rules = rules_of(family.name, ToolChoice::kRequired, AnswerPlace::kBegin);
      GrammarMatcher matcher(grammar_of(rules), vocab);
      std::mt19937 random(seed);
      std::string text;
      while (!matcher.may_end() && text.size() < 3000) {
        const auto mask = matcher.mask();
        std::string ways;
        for (int32_t byte = 0; byte < 256; ++byte)
          if (has(mask, byte)) ways += static_cast<char>(byte);
        ASSERT_FALSE(ways.empty()) << family.name << ": " << text;
        const size_t space = ways.find_first_of(" \t\r\n");
        text += space != ways.npos ? ways[space] : ways[random() % ways.size()];
        ASSERT_TRUE(matcher.accept(static_cast<uint8_t>(text.back())));
      }
      EXPECT_TRUE(matcher.may_end()) << family.name << ": " << text;
      if (family.written.close.empty() && family.written.call.size() > 1) {
        EXPECT_LT(text.size(), 500u) << family.name << ": " << text;
      }
    }
  }
}

// White space next to a mark is any, and the mark's: before and behind reasoning, before calls and the marks around content. Where content is
// bound it leads to a mark alone.
TEST(Answer, WhiteSpaceNextToMarksIsTheMarks) {
  const std::string json = R"({"a":1})";
  for (const reply::Family& family : reply::families()) {
    AnswerRules rules = rules_of(family.name, ToolChoice::kDefault, AnswerPlace::kBegin);
    if (rules.style.family != &family || family.format == ReplyFormat::kHarmony || family.format == ReplyFormat::kRecipient) continue;
    SCOPED_TRACE(family.name);
    rules.style.reasoning_begin = "<think>", rules.style.reasoning_end = "</think>";
    const auto free = grammar_of(rules);
    rules.choice = ToolChoice::kRequired;
    const auto calls = grammar_of(rules);
    const std::string call = one_call(family.written, true, true), read = R"({"name":"f")";
    rules.kind = GrammarKind::kGbnf;
    rules.choice = ToolChoice::kDefault;
    rules.source = R"(root ::= "{\"a\":1}")";
    const auto bound = grammar_of(rules);
    ReplyStyle content = rules.style;
    content.bound = true, content.calls = false;
    for (const std::string space : {"", "\n", "\n\n", "\r\n", " \n\t "}) {
      const std::string thought = space + "<think>" + space + "hm" + space + "</think>" + space;
      EXPECT_TRUE(fits(*free, thought + "text")) << space;
      EXPECT_TRUE(fits(*free, thought + call) && fits(*calls, thought + call) && fits(*calls, space + call)) << space;
      EXPECT_EQ(calls_read(rules.style, thought + call), "other: hm" + read) << space;
      EXPECT_EQ(calls_read(rules.style, space + call), read) << space;
      EXPECT_TRUE(fits(*bound, thought + json)) << space;
      EXPECT_EQ(calls_read(content, thought + json), "other: hmother: " + json) << space;
      EXPECT_EQ(fits(*bound, space + json), space.empty()) << space;
      EXPECT_EQ(fits(*bound, json + space), space.empty()) << space;
    }
    EXPECT_TRUE(fits(*free, "\n\ntext") && fits(*free, "\n\n")) << "content begins as it likes";
  }
  AnswerRules r7b = rules_of("Command R7B", ToolChoice::kDefault, AnswerPlace::kClosed);
  r7b.kind = GrammarKind::kGbnf;
  r7b.source = R"(root ::= "x")";
  EXPECT_TRUE(fits(*grammar_of(r7b), "\n<|START_RESPONSE|>\nx")) << "a mark before content";
  EXPECT_TRUE(fits(*grammar_of(rules_of("Mistral", ToolChoice::kRequired, AnswerPlace::kBegin)),
                   "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"a1B2c3D4e\"}]"))
      << "behind a call's mark";
}

// A name that calls are bound to is one that the reader of the family's calls reads.
TEST(Answer, NamesAreReadBack) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  int refused = 0, read = 0;
  for (const reply::Family& family : reply::families()) {
    if (family.name == "gpt-oss") continue;  // its call's begin depends on what stands before
    for (const std::string name : {"x-y", "f-", "1a", "x.y-z", "a/b", "_x", "-a"}) {
      AnswerRules rules = rules_of(family.name, ToolChoice::kRequired, AnswerPlace::kBegin);
      rules.calls_max = 1;
      rules.tools = R"([{"name":")" + name + R"(","parameters":{"type":"object","properties":{}}}])";
      const auto made = answer_grammar(rules, *vocab);
      if (!made.is_ok()) {
        EXPECT_EQ(family.written.arguments, reply::WrittenCalls::Arguments::kPython) << family.name << ": " << made.status().message();
        EXPECT_TRUE(name == "1a" || name == "-a") << made.status().message();
        ++refused;
        continue;
      }
      GrammarMatcher matcher(made.value(), vocab);
      std::string text;
      while (!matcher.complete() && text.size() < 400) {  // the first byte that may come is enough: there is one way
        const auto mask = matcher.mask();
        int32_t byte = 33;
        while (byte < 256 && !has(mask, byte)) ++byte;
        if (byte == 256) byte = has(mask, ' ') ? ' ' : '\n';
        if (!matcher.accept(byte)) break;
        text += static_cast<char>(byte);
      }
      ReplyParser parser(rules.style);
      std::vector<ReplyPart> parts;
      parser.push(text, false, &parts);
      parser.finish(&parts);
      const bool call = std::ranges::any_of(parts, [&](const ReplyPart& part) {
        return part.kind == ReplyPart::Kind::kToolCall && part.text.starts_with("{\"name\":\"" + name + "\",");
      });
      EXPECT_TRUE(call) << family.name << ": " << text;
      ++read;
    }
  }
  EXPECT_GT(refused, 1);
  EXPECT_GT(read, 150);
}

// A template with a family's sign that writes its calls in another way, or not at all, leaves them free by default.
TEST(Answer, ByDefaultTheTemplateBindsByItsOwnCall) {
  const auto fits = [](const std::string& call) {
    const std::string source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}" + call +
                               "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}" +
                               "{# <tool_call> #}";
    auto made = ChatTemplate::parse(source);
    EXPECT_TRUE(made.is_ok()) << made.status().message();
    ReplyStyle style = detect_reply_style(source);
    EXPECT_EQ(style.family->name, "Hermes");
    style.fits = writes_calls_as_family(
        [&](const std::string& messages, bool generation_prompt, const std::string& tools) {
          return made.value()->render(messages, {generation_prompt, "", "", {.tools = tools, .documents = {}, .variables = {}, .now = 1}});
        },
        style);
    AnswerRules rules;
    rules.style = style;
    rules.tools = kTools;
    EXPECT_EQ(may_bind(rules), style.fits);
    const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
    const auto grammar = answer_grammar(rules, *GrammarVocab::make(*tokenizer));
    EXPECT_TRUE(grammar.is_ok() && (grammar.value() != nullptr) == style.fits);
    rules.choice = ToolChoice::kAuto;
    EXPECT_NE(grammar_of(rules), nullptr) << "asked for, the family's calls are bound";
    return style.fits;
  };
  const std::string name = "{{ c.function.name }}", arguments = "{{ c.function.arguments | tojson }}";
  EXPECT_TRUE(fits("<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"));
  EXPECT_TRUE(fits("\n<tool_call>{\"name\":\"" + name + "\",\"arguments\":" + arguments + "}</tool_call>"));
  EXPECT_FALSE(fits("<tool_call>\n{\"tool\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"));
  EXPECT_FALSE(fits("<tool_call>\n" + name + "\n" + arguments + "\n</tool_call>"));
  EXPECT_FALSE(fits("<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call></calls>"));
  EXPECT_FALSE(fits("[" + name + "(" + arguments + ")]"));
  EXPECT_FALSE(fits(""));
}

// To gpt-oss's other recipients anything may be said, and it is no call; under a choice that requires one they do not come.
TEST(Answer, RecipientsThatAreNoTools) {
  const auto free = grammar_of(rules_of("gpt-oss", ToolChoice::kAuto, AnswerPlace::kBegin));
  const auto required = grammar_of(rules_of("gpt-oss", ToolChoice::kRequired, AnswerPlace::kBegin));
  const std::string python = " to=python<|channel|>analysis code<|message|>print(1)<|call|>";
  EXPECT_TRUE(fits(*free, python));
  EXPECT_FALSE(fits(*required, python));
  EXPECT_TRUE(fits(*free, "<|channel|>analysis to=fun json<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>y"));
  for (const auto& grammar : {free, required}) {
    EXPECT_TRUE(fits(*grammar, "<|channel|>analysis to=f<|message|>{}<|call|>")) << "f is a tool";
    EXPECT_FALSE(fits(*grammar, "<|channel|>analysis to=f<|message|>x<|call|>")) << "its calls are bound";
    EXPECT_FALSE(fits(*grammar, "<|channel|>analysis to=functions.g<|message|>{}<|call|>")) << "no such function";
  }
  ReplyStyle style{ReplyFormat::kHarmony, "", ""};
  style.tools = read_reply_tools(kTools);
  ReplyParser parser(style);
  std::vector<ReplyPart> parts;
  parser.push(" to=browser.open<|channel|>commentary<|message|>{\"id\": 1}<|call|>", false, &parts);
  parser.finish(&parts);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].kind == ReplyPart::Kind::kContent && parts[0].text == "{\"id\": 1}") << parts[0].text;
}

// Beside tools that may be called bound content is one way, and calls are the other; reasoning comes first.
TEST(Answer, CallsOrContentThatFits) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  AnswerRules rules = rules_of("Hermes", ToolChoice::kAuto, AnswerPlace::kBegin);
  rules.kind = GrammarKind::kJsonSchema;
  rules.source = R"({"type": "object", "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}}, "required": ["name"]})";
  rules.style.reasoning_begin = "<think>", rules.style.reasoning_end = "</think>";
  const auto hermes = grammar_of(rules);
  for (const std::string before : {"", "<think>Hm.</think>\n\n"}) {
    EXPECT_TRUE(fits(*hermes, before + "{\"name\": \"f\"}"));
    EXPECT_TRUE(fits(*hermes, before + call));
    EXPECT_TRUE(fits(*hermes, before + call + "\n" + call));
    EXPECT_FALSE(fits(*hermes, before + "text"));
    EXPECT_FALSE(fits(*hermes, before + "{\"name\": \"f\"}" + call));
    EXPECT_FALSE(fits(*hermes, before + call + "{\"name\": \"f\"}"));
  }
  ReplyStyle style = rules.style;  // marks as text
  style.bound = true;
  std::vector<ReplyPart> parts;
  ReplyParser parser(style);
  parser.push(call + "\n" + call, false, &parts);
  parser.finish(&parts);
  EXPECT_TRUE(parts.size() == 2 && parts[1].kind == ReplyPart::Kind::kToolCall);
  rules.choice = ToolChoice::kDefault;
  EXPECT_FALSE(fits(*grammar_of(rules), call)) << "by default a grammar binds all";
}

// Calls without a mark: a call that fits the schema would be two things.
TEST(Answer, ContentThatACallWithoutMarkFitsIsRefused) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  AnswerRules rules = rules_of("Llama 3", ToolChoice::kAuto, AnswerPlace::kBegin);
  const auto refused = [&](GrammarKind kind, const char* source) {
    rules.kind = kind, rules.source = source;
    const auto made = answer_grammar(rules, *vocab);
    EXPECT_TRUE(made.is_ok() ||
                (made.status().code() == Code::kUnsupported && made.status().message().find("call of f") != std::string::npos))
        << made.status().message();
    return !made.is_ok();
  };
  EXPECT_FALSE(refused(GrammarKind::kJsonSchema, R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}})"));
  EXPECT_TRUE(refused(GrammarKind::kJsonSchema, R"({"type":"array"})")) << "a list of calls";
  EXPECT_FALSE(refused(GrammarKind::kJsonSchema, R"({"type":"array","items":{"type":"integer"}})"));
  EXPECT_FALSE(refused(GrammarKind::kJsonSchema, R"({"type":"object","properties":{"name":{"enum":["g"]},"parameters":{}}})"));
  EXPECT_TRUE(
      refused(GrammarKind::kJsonSchema, R"({"type":"object","properties":{"name":{"type":"string"},"parameters":{"type":"object"}}})"));
  EXPECT_TRUE(refused(GrammarKind::kJsonSchema, R"({"type":"object"})"));
  EXPECT_TRUE(refused(GrammarKind::kJsonSchemaOpen, R"({"type":"object","properties":{"name":{"type":"string"}}})"));
  EXPECT_TRUE(refused(GrammarKind::kGbnf, "root ::= [^x]*"));
  EXPECT_FALSE(refused(GrammarKind::kGbnf, "root ::= [a-z]*"));
  rules.choice = ToolChoice::kNone;
  EXPECT_FALSE(refused(GrammarKind::kJsonSchema, R"({"type":"object"})"));
}

TEST(Answer, ToolsOfOneNameAreRefused) {
  AnswerRules rules = rules_of("Hermes", ToolChoice::kAuto, AnswerPlace::kBegin);
  rules.tools = R"([{"name":"f"},{"type":"function","function":{"name":"f"}}])";
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto made = answer_grammar(rules, *GrammarVocab::make(*tokenizer));
  EXPECT_EQ(made.status().code(), Code::kInvalid);
  EXPECT_NE(made.status().message().find("two have the name \"f\""), std::string::npos) << made.status().message();
}

// By default a tool whose arguments this family cannot write keeps its call, with what can be.
TEST(Answer, AMemberThatCallsCannotNameIsLeftOutByDefault) {
  AnswerRules rules = rules_of("LFM2", ToolChoice::kDefault, AnswerPlace::kBegin);
  rules.tools = R"([{"name":"f","parameters":{"type":"object","properties":{"a b":{"type":"integer"}}}}])";
  const auto grammar = grammar_of(rules);
  EXPECT_TRUE(fits(*grammar, "<|tool_call_start|>[f(x=1)]<|tool_call_end|>"));
  EXPECT_FALSE(fits(*grammar, "<|tool_call_start|>[g(x=1)]<|tool_call_end|>"));
}

// Twice as many tools take about twice the time: four times, where it grew with the square.
TEST(Answer, ToolsBindInLinearTime) {
  const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  const auto seconds = [&](int count) {
    AnswerRules rules = rules_of("Hermes", ToolChoice::kRequired, AnswerPlace::kBegin);
    rules.tools = "[";
    for (int i = 0; i < count; ++i)
      rules.tools += (i ? ",{\"name\":\"t" : "{\"name\":\"t") + std::to_string(i) +
                     R"(","parameters":{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["xi"]}},"required":["a","b"]}})";
    rules.tools += "]";
    double least = 1e9;
    for (int round = 0; round < 5; ++round) {
      const clock_t begin = clock();
      EXPECT_TRUE(answer_grammar(rules, *vocab).is_ok());
      least = std::min(least, static_cast<double>(clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
  };
  EXPECT_LT(seconds(1600), 12 * seconds(400));
}

TEST(Answer, FreeContentGoesOnAsItIs) {
  for (const char* family : {"Llama 3", "Functionary 3.2", "Hermes", "gpt-oss"}) {
    const auto grammar = grammar_of(rules_of(family, ToolChoice::kAuto, AnswerPlace::kContent));
    EXPECT_TRUE(fits(*grammar, "{\"name\": the rest of a text")) << family;
  }
  const auto begun = grammar_of(rules_of("Functionary 3.2", ToolChoice::kAuto, AnswerPlace::kBegin));
  EXPECT_TRUE(fits(*begun, "all\ntext") && fits(*begun, "f\n{}"));
  EXPECT_FALSE(fits(*begun, "text"));
}

std::string calls_of_kimi(uint32_t count, uint32_t first = 0) {
  std::string text = "<|tool_calls_section_begin|>";
  for (uint32_t i = 0; i < count; ++i)
    text += "<|tool_call_begin|>functions.f:" + std::to_string(first + i) + "<|tool_call_argument_begin|>{}<|tool_call_end|>";
  return text + "<|tool_calls_section_end|>";
}

// Models count the calls of the whole conversation: in its second answer the first one may be 1, or 12.
TEST(Answer, CallsThatAreNumberedGoOnFromAnyNumber) {
  AnswerRules rules = rules_of("Kimi K2", ToolChoice::kRequired, AnswerPlace::kBegin);
  const auto grammar = grammar_of(rules);
  for (uint32_t first : {0u, 1u, 12u, 999u}) EXPECT_TRUE(fits(*grammar, calls_of_kimi(2, first))) << first;
  EXPECT_TRUE(fits(*grammar, calls_of_kimi(40)));
  EXPECT_FALSE(fits(*grammar, calls_of_kimi(0)));
  std::string other = calls_of_kimi(1);
  other[other.find(":0") + 1] = 'x';
  EXPECT_FALSE(fits(*grammar, other));
  rules.calls_max = 2;
  EXPECT_TRUE(fits(*grammar_of(rules), calls_of_kimi(2, 1)));
  EXPECT_FALSE(fits(*grammar_of(rules), calls_of_kimi(3, 1)));
  const auto r7b = grammar_of(rules_of("Command R7B", ToolChoice::kRequired, AnswerPlace::kBegin));
  EXPECT_TRUE(fits(*r7b, "<|START_ACTION|>[\n    {\"tool_call_id\": \"3\", \"tool_name\": \"f\", \"parameters\": {}}\n]<|END_ACTION|>"));
}

// A host that asks for nothing pays for nothing: no vocabulary is made for such an answer.
TEST(Answer, MostAnswersAskForNothing) {
  AnswerRules rules;
  EXPECT_FALSE(may_bind(rules));
  rules.tools = kTools;
  EXPECT_FALSE(may_bind(rules)) << "a template that shows no calls";
  EXPECT_EQ(grammar_of(rules), nullptr);
  EXPECT_TRUE(may_bind(rules_of("Hermes", ToolChoice::kDefault, AnswerPlace::kBegin)));
  rules.reasoning_tokens_max = 1;
  EXPECT_TRUE(may_bind(rules));
  for (ToolChoice choice : {ToolChoice::kNone, ToolChoice::kAuto, ToolChoice::kRequired, ToolChoice::kNamed})
    EXPECT_TRUE(may_bind(rules_of("", choice, AnswerPlace::kBegin)));
}

}  // namespace
}  // namespace kvrt
