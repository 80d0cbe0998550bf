// Calls within open reasoning: what the reader takes for one is bound by the mask, and what only mentions a call is reasoning for both.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "runtime/text/reply/syntax.h"
#include "tests/support/answer_rig.h"
#include "tests/support/reply_rig.h"

namespace kvrt {
namespace {

using namespace answer_rig;
using reply_rig::Kind;
using reply_rig::Parts;

constexpr char kTwo[] =
    R"([{"name":"f","parameters":{"type":"object","properties":{}}},{"name":"f2","parameters":{"type":"object","properties":{}}}])";

std::vector<const reply::Family*> reasoning_families() {
  std::vector<const reply::Family*> out;
  for (const reply::Family& family : reply::families())
    if (family.format != ReplyFormat::kHarmony && family.format != ReplyFormat::kRecipient) out.push_back(&family);
  return out;
}

AnswerRules thinking_rules(const reply::Family& family, ToolChoice choice, AnswerPlace place) {
  AnswerRules rules = rules_of(family.name, choice, place);
  rules.style.family = &family;
  rules.style.reasoning_begin = "<think>", rules.style.reasoning_end = "</think>";
  rules.style.begin = place;
  rules.tools = kTwo;
  rules.style.tools = read_reply_tools(kTwo);
  return rules;
}

// What stands before a call's name; "": no mark.
std::string before_name(const reply::Family& family) {
  const std::string one = one_call(family.written, true, true, "\x01");
  const std::string before = one.substr(0, one.find('\x01'));
  const auto is_mark = [&](const reply::CallSyntax& s) {
    return s.format == family.format && !s.begin.empty() && before.find(s.begin) != std::string::npos &&
           !(s.flags & reply::CallSyntax::kFrame);
  };
  return std::ranges::any_of(reply::syntaxes(), is_mark) ? before : "";
}

std::string shown(const ReplyStyle& style, const std::string& text) {
  ReplyParser parser(style);
  return reply_rig::parse(&parser, {{text, false}}, [](size_t) { return false; });
}

size_t calls_in(const std::string& parts) {
  size_t calls = 0;
  for (size_t at = 0; (at = parts.find("T<{\"name\"", at)) != parts.npos; ++at) ++calls;
  return calls;
}

TEST(AnswerReasoning, ACallEndsIt) {
  for (const reply::Family* family : reasoning_families()) {
    SCOPED_TRACE(family->name);
    const AnswerRules rules = thinking_rules(*family, ToolChoice::kDefault, AnswerPlace::kBegin);
    const std::string before = before_name(*family), one = one_call(family->written, true, true, "f2");
    if (before.empty()) continue;  // such calls begin an answer
    const std::string id = one.find("a1B2c3D4e") != one.npos            ? "a1B2c3D4e"
                           : family->format == ReplyFormat::kKimi       ? "functions.f2:0"
                           : family->format == ReplyFormat::kCommandR7b ? "0"
                                                                        : "";
    const std::string call = "R<Hm.>" + reply_rig::call("f2", "{}", id);
    reply_rig::expect_pieces(rules.style, {{"<think>Hm.\n" + one, false}}, call, "a call");
    reply_rig::expect_pieces(rules.style, {{"<think>Hm.\n" + one + "\n", false}}, call, "a call and white space");
    const auto grammar = grammar_of(rules);
    EXPECT_TRUE(fits(*grammar, "<think>Hm.\n" + one)) << one;
    EXPECT_TRUE(fits(*grammar, "<think>Hm." + before + " is how. " + one)) << one;
    EXPECT_TRUE(fits(*grammar, "<think>Hm.")) << "a turn may end there";
    const auto required = grammar_of(thinking_rules(*family, ToolChoice::kRequired, AnswerPlace::kReasoning));
    EXPECT_TRUE(fits(*required, "Hm.\n" + one)) << one;
    EXPECT_FALSE(fits(*required, "Hm.")) << "a call is to come";
    AnswerRules named = thinking_rules(*family, ToolChoice::kNamed, AnswerPlace::kReasoning);
    named.tool_name = "f";
    EXPECT_FALSE(fits(*grammar_of(named), "Hm.\n" + one)) << "another tool's";
    EXPECT_TRUE(fits(*grammar_of(named), "Hm.\n" + one_call(family->written, true, true, "f")));
    EXPECT_FALSE(fits(*grammar_of(thinking_rules(*family, ToolChoice::kNone, AnswerPlace::kBegin)), "<think>Hm.\n" + one));
    AnswerRules single = thinking_rules(*family, ToolChoice::kAuto, AnswerPlace::kBegin);
    single.calls_max = 1;
    const std::string two = one_call(family->written, true, false, "f2") + one_call(family->written, false, true, "f");
    EXPECT_TRUE(fits(*grammar, "<think>Hm.\n" + two)) << two;
    EXPECT_TRUE(fits(*grammar_of(single), "<think>Hm.\n" + one) && !fits(*grammar_of(single), "<think>Hm.\n" + two)) << two;
  }
}

// A mark, a head, or a call of no tool is reasoning, byte for byte, and its end is seen wherever it comes.
TEST(AnswerReasoning, AMentionIsReasoning) {
  for (const reply::Family* family : reasoning_families()) {
    SCOPED_TRACE(family->name);
    std::vector<std::string> mentions = {one_call(family->written, true, true, "nobody"), one_call(family->written, true, true, "f3"),
                                         before_name(*family), before_name(*family) + "nobody", "f2"};
    for (const reply::CallSyntax& syntax : reply::syntaxes()) {
      if (syntax.format != family->format || syntax.begin.empty() || syntax.flags & reply::CallSyntax::kFrame) continue;
      mentions.push_back(std::string(syntax.begin));
      mentions.push_back(std::string(syntax.begin) + " and " + std::string(syntax.begin));
      mentions.push_back(std::string(syntax.begin) + std::string(syntax.begin));
      mentions.push_back(std::string(syntax.begin) + "\n<f");
    }
    for (ToolChoice choice : {ToolChoice::kDefault, ToolChoice::kNone}) {
      const AnswerRules rules = thinking_rules(*family, choice, AnswerPlace::kBegin);
      const auto grammar = grammar_of(rules);
      for (std::string mention : mentions) {
        while (mention.ends_with('\n')) mention.pop_back();
        if (mention.empty()) continue;
        const std::string text = "<think>Hm. " + mention + "</think>x";
        EXPECT_TRUE(fits(*grammar, text)) << text;
        if (choice == ToolChoice::kDefault) reply_rig::expect_pieces(rules.style, {{text, false}}, "R<Hm. " + mention + ">C<x>", text);
      }
    }
  }
}

// kvrt.h: "but where the names of all tools have more than 16,384 bytes".
TEST(AnswerReasoning, BesideManyNamesAMarkBeginsACall) {
  const std::string sixty(60, 'n');
  for (const size_t names : {250, 300}) {
    std::string tools = R"([{"name":"f","parameters":{"type":"object","properties":{}}})";
    for (size_t i = 0; i < names; ++i) {
      tools += R"(,{"name":")" + sixty + std::to_string(1000 + i) + R"(","parameters":{"type":"object","properties":{}}})";
    }
    AnswerRules rules = rules_of("Hermes", ToolChoice::kDefault, AnswerPlace::kBegin);
    rules.style.reasoning_begin = "<think>", rules.style.reasoning_end = "</think>";
    rules.tools = tools += ']';
    rules.style.tools = read_reply_tools(tools);
    const auto grammar = grammar_of(rules);
    const bool mentioned = names * (sixty.size() + 4) + 1 <= 16'384;
    EXPECT_EQ(fits(*grammar, "<think>A <tool_call> is how.</think>x"), mentioned) << names;
    EXPECT_TRUE(fits(*grammar, "<think>Hm.</think>x")) << names;
    EXPECT_TRUE(fits(*grammar, "<think>Hm.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")) << names;
  }
}

// What a grammar without calls takes has none, and what a grammar that requires one takes has no content.
TEST(AnswerReasoning, MaskAndReaderAgree) {
  std::mt19937 random(11);
  size_t read = 0, taken = 0;
  for (const reply::Family* family : reasoning_families()) {
    const std::string one = one_call(family->written, true, true, "f2");
    std::vector<std::string> pieces = {"f",
                                       "f2",
                                       "nobody",
                                       " ",
                                       "\n",
                                       "</think>",
                                       "<",
                                       "{",
                                       "[",
                                       "(",
                                       "\"",
                                       "{}",
                                       "name",
                                       ":",
                                       "```json",
                                       one,
                                       "<function=",
                                       one.substr(one.size() / 2),
                                       before_name(*family),
                                       one_call(family->written, true, true, "nobody")};
    for (const reply::CallSyntax& syntax : reply::syntaxes())
      if (syntax.format == family->format) pieces.emplace_back(syntax.begin);
    const AnswerRules none = thinking_rules(*family, ToolChoice::kNone, AnswerPlace::kReasoning);
    const auto without = grammar_of(none), required = grammar_of(thinking_rules(*family, ToolChoice::kRequired, AnswerPlace::kReasoning));
    const auto free = grammar_of(thinking_rules(*family, ToolChoice::kDefault, AnswerPlace::kReasoning));
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (size_t n = random() % 6 + 1; n > 0; --n) {
        std::string piece = pieces[random() % pieces.size()];
        if (random() % 4 == 0 && !piece.empty()) piece.resize(random() % piece.size() + 1);
        text += piece;
      }
      const std::string parts = shown(none.style, text);
      const size_t calls = calls_in(parts);
      read += calls;
      const bool bare = family->format == ReplyFormat::kLlama3;  // with NONE its calls without a mark are text, and nobody reads them
      EXPECT_FALSE(!bare && calls > 0 && fits(*without, text)) << family->name << ": " << text << "\n" << parts;
      if (fits(*required, text)) {
        ++taken;
        EXPECT_TRUE(calls > 0 && parts.find("C<") == parts.npos) << family->name << ": " << text << "\n" << parts;
      }
      const bool ended = parts.find("C<") != parts.npos || text.find("</think>") != text.npos;  // what follows may be bound
      EXPECT_TRUE(calls > 0 || ended || text.find("f") != text.npos || fits(*free, text)) << family->name << ": " << text << "\n" << parts;
    }
  }
  EXPECT_GT(read, 500u);
  EXPECT_GT(taken, 100u);
}

// A mark that is a control token is one for the reader where it comes as text, too.
TEST(AnswerReasoning, MarksThatAreSpelledOutAreMarks) {
  const auto tokenizer = byte_tokenizer({{"<tool_call>", 3}, {"</tool_call>", 3}, {"<think>", 3}, {"</think>", 3}, {"<|im_end|>", 3}});
  const auto vocab = GrammarVocab::make(*tokenizer);
  AnswerPlace place = AnswerPlace::kReasoning;
  std::string content;
  const auto takes = [&](ToolChoice choice, const std::vector<std::string>& pieces, bool as_text) {
    AnswerRules rules;
    for (const reply::Family& family : reply::families())
      if (family.name == "Hermes") rules = thinking_rules(family, choice, place);
    if (!content.empty()) rules.kind = GrammarKind::kGbnf, rules.source = content;
    auto made = answer_grammar(rules, *vocab);
    EXPECT_TRUE(made.is_ok());
    GrammarMatcher matcher(made.value(), vocab);
    for (const std::string& piece : pieces) {
      const int32_t control = as_text ? -1 : vocab->find(piece);
      for (size_t i = 0; i < (control >= 0 ? 1 : piece.size()); ++i)
        if (!matcher.accept(control >= 0 ? control : static_cast<uint8_t>(piece[i]))) return false;
    }
    return true;
  };
  for (bool as_text : {false, true}) {
    place = AnswerPlace::kReasoning;
    content.clear();
    for (ToolChoice choice : {ToolChoice::kAuto, ToolChoice::kRequired}) {
      EXPECT_TRUE(takes(choice, {"Hm. ", "<tool_call>", " or ", "<tool_call>", "{\"name\": \"f2\", \"arguments\": {}}"}, as_text));
      EXPECT_FALSE(takes(choice, {"Hm. ", "<tool_call>", "{\"name\": \"f2\", \"x"}, as_text)) << "unbound";
    }
    EXPECT_TRUE(takes(ToolChoice::kNone, {"Hm. ", "<tool_call>", "{\"name\": \"f"}, as_text));
    EXPECT_FALSE(takes(ToolChoice::kNone, {"Hm. ", "<tool_call>", "{\"name\": \"f\""}, as_text)) << "a call";
    EXPECT_FALSE(takes(ToolChoice::kRequired, {"Hm.", "</think>", "text"}, as_text)) << "content";
    content = "root ::= \"yes\"";
    EXPECT_TRUE(takes(ToolChoice::kDefault, {"Hm.", "</think>", "yes"}, as_text));
    EXPECT_FALSE(takes(ToolChoice::kDefault, {"Hm.", "</think>", "no"}, as_text)) << "unbound content";
    content.clear();
    place = AnswerPlace::kBegin;
    EXPECT_TRUE(takes(ToolChoice::kAuto, {"Hm. ", "<tool_call>", "{\"name\": \"f2\", \"arguments\": {}}"}, as_text));
    EXPECT_FALSE(takes(ToolChoice::kAuto, {"Hm. ", "<tool_call>", "{\"name\": \"f2\", \"x"}, as_text)) << "unbound";
    EXPECT_FALSE(takes(ToolChoice::kNone, {"Hm. ", "<tool_call>"}, as_text)) << "a mark";
  }
}

// Wherever an answer is cut and goes on its call is the same one, and nothing of it is lost or comes twice.
TEST(AnswerReasoning, ItGoesOnWhereItWasCut) {
  for (const reply::Family* family : reasoning_families()) {
    SCOPED_TRACE(family->name);
    if (before_name(*family).empty()) continue;
    const AnswerRules rules = thinking_rules(*family, ToolChoice::kDefault, AnswerPlace::kBegin);
    const std::string text = "<think>Hm." + before_name(*family) + "x " + one_call(family->written, true, true, "f2");
    const std::string whole = shown(rules.style, text);
    EXPECT_EQ(calls_in(whole), 1u) << whole;
    for (size_t cut = 7; cut < text.size(); ++cut) {
      ReplyParser parser(rules.style);
      Parts before, given, after, joined;
      parser.push(std::string_view(text).substr(0, cut), false, &before);
      ReplyParser(parser).finish(&given);
      parser.go_on();
      parser.push(std::string_view(text).substr(cut), false, &after);
      parser.finish(&after);
      for (const Parts* parts : {&before, &given, &after}) reply_rig::add(*parts, &joined);
      const std::string all = reply_rig::show(joined), call = whole.substr(whole.find("T<"));
      EXPECT_EQ(calls_in(all), 1u) << "cut at " << cut << ": " << all;
      EXPECT_NE(all.find(call), all.npos) << "cut at " << cut << ": " << all;
      EXPECT_TRUE(all.starts_with(whole.substr(0, whole.find(">T<")))) << "cut at " << cut << ": " << all;
    }
  }
}

}  // namespace
}  // namespace kvrt
