// The calls and the reasoning of the families that people run, each in the same ten situations and at every split: what a model writes is
// put together here as the family's published template writes it.
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/reply_rig.h"

namespace kvrt {
namespace {

using namespace reply_rig;
using Json = nlohmann::ordered_json;
using F = ReplyFormat;

const char* const kTools = R"([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
  "city": {"type": "string"}, "days": {"type": "integer"}, "code": {"type": "string"}, "exact": {"type": "boolean"},
  "opts": {"type": "object", "properties": {"unit": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
           "at": {"type": "array", "items": {"$ref": "#/$defs/point"}}}}},
  "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}}}}},
 {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}])";

struct Call {
  std::string name;
  Json arguments;
};

// A control token is written {{so}}.
struct Written {
  const char* name;
  ReplyFormat format;
  std::string reasoning_begin, reasoning_end;
  std::string section;  // before the first call
  std::function<std::string(const Call&, int)> call;
  std::string between, close;  // between calls, after the last
  std::string before_content, after_content;
};

std::string dumped(const Json& value) { return value.dump(); }
std::string raw(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Each argument by a pattern, in which K, T and V stand for its key, its type and its value.
std::string by_pattern(const Json& arguments, const std::string& pattern, const char* string_type, const char* other_type) {
  std::string out;
  for (const auto& [key, value] : arguments.items()) {
    for (char c : pattern) {
      if (c == '\1') {
        out += key;
      } else if (c == '\2') {
        out += value.is_string() ? string_type : other_type;
      } else if (c == '\3') {
        out += raw(value);
      } else {
        out += c;
      }
    }
  }
  return out;
}

std::string python(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  return value.dump();
}

std::string gemma4(const Json& value) {
  std::string out;
  if (value.is_string()) return "{{<|\"|>}}" + value.get<std::string>() + "{{<|\"|>}}";
  if (!value.is_structured()) return value.dump();
  for (const auto& [key, inner] : value.items()) out += (out.empty() ? "" : ",") + (value.is_object() ? key + ":" : "") + gemma4(inner);
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

std::string minimax3(const Json& value) {
  std::string out;
  if (!value.is_structured()) return raw(value);
  for (const auto& [key, inner] : value.items()) {
    const std::string name = value.is_object() ? key : "item";
    out += "{{]<]minimax[>[}}<" + name + ">" + minimax3(inner) + "{{]<]minimax[>[}}</" + name + ">";
  }
  return out;
}

std::string named(const Call& c, const char* arguments) {
  return R"({"name": ")" + c.name + "\", \"" + arguments + "\": " + dumped(c.arguments) + "}";
}

std::string qwen(const Call& c, const std::string& mark) {
  return "{{<" + mark + ">}}\n<function=" + c.name + ">\n" + by_pattern(c.arguments, "<parameter=\1>\n\3\n</parameter>\n", "", "") +
         "</function>\n{{</" + mark + ">}}";
}

std::string glm(const Call& c, const std::string& line) {
  return "{{<tool_call>}}" + c.name + line +
         by_pattern(c.arguments, "{{<arg_key>}}\1{{</arg_key>}}" + line + "{{<arg_value>}}\3{{</arg_value>}}" + line, "", "") +
         "{{</tool_call>}}";
}

std::string dsml(const Call& c, int) {
  return "<{{｜DSML｜}}invoke name=\"" + c.name + "\">\n" +
         by_pattern(c.arguments, "<{{｜DSML｜}}parameter name=\"\1\" string=\"\2\">\3</{{｜DSML｜}}parameter>\n", "true", "false") +
         "</{{｜DSML｜}}invoke>\n";
}

std::string kimi3(const Call& c, int index) {
  return "{{<|open|>}}call tool=\"" + c.name + "\" index=\"" + std::to_string(index + 1) + "\"{{<|sep|>}}" +
         by_pattern(c.arguments, "{{<|open|>}}argument key=\"\1\" type=\"\2\"{{<|sep|>}}\3{{<|close|>}}argument{{<|sep|>}}", "string",
                    "object") +
         "{{<|close|>}}call{{<|sep|>}}";
}

std::string lfm2(const Call& c, int) {
  std::string out;
  for (const auto& [key, value] : c.arguments.items()) out += (out.empty() ? "" : ", ") + key + "=" + python(value);
  return c.name + "(" + out + ")";
}

const std::string think = "{{<think>}}", end = "{{</think>}}";

std::vector<Written> in_tags() {
  return {
      {"Qwen 3.5", F::kQwenTags, think + "\n", "\n" + end + "\n\n", "", [](const Call& c, int) { return qwen(c, "tool_call"); }, "\n", "",
       "", ""},
      {"StepFun", F::kQwenTags, think + "\n", "\n" + end + "\n", "", [](const Call& c, int) { return qwen(c, "tool_call"); }, "", "", "",
       ""},
      {"Seed-OSS", F::kSeed, "{{<seed:think>}}", "{{</seed:think>}}\n", "",
       [](const Call& c, int) {
         return "{{<seed:tool_call>}}\n<function=" + c.name + ">\n" + by_pattern(c.arguments, "<parameter=\1>\3</parameter>\n", "", "") +
                "</function>\n{{</seed:tool_call>}}";
       },
       "\n", "\n", "", ""},
      {"GLM 4.6", F::kGlm, think, end + "\n", "", [](const Call& c, int) { return glm(c, "\n"); }, "\n", "", "", ""},
      {"GLM 4.7", F::kGlm, think, end, "", [](const Call& c, int) { return glm(c, ""); }, "", "", "", ""},
      {"Hunyuan", F::kHunyuan, "{{<think:opensource>}}", "{{</think:opensource>}}", "{{<tool_calls:opensource>}}\n",
       [](const Call& c, int) {
         return "{{<tool_call:opensource>}}" + c.name + "{{<tool_sep:opensource>}}\n" +
                by_pattern(c.arguments,
                           "{{<arg_key:opensource>}}\1{{</arg_key:opensource>}}\n{{<arg_value:opensource>}}\3{{</arg_value:opensource>}}\n",
                           "", "") +
                "{{</tool_call:opensource>}}\n";
       },
       "", "{{</tool_calls:opensource>}}", "", ""},
      {"DeepSeek V3.2", F::kDsml, think, end, "<{{｜DSML｜}}function_calls>\n", dsml, "", "</{{｜DSML｜}}function_calls>", "", ""},
      {"DeepSeek V4", F::kDsml, think, end, "<{{｜DSML｜}}tool_calls>\n", dsml, "", "</{{｜DSML｜}}tool_calls>", "", ""},
      {"MiniMax M2", F::kMiniMax, think + "\n", "\n" + end + "\n\n", "{{<minimax:tool_call>}}\n",
       [](const Call& c, int) {
         return "<invoke name=\"" + c.name + "\">\n" + by_pattern(c.arguments, "<parameter name=\"\1\">\3</parameter>\n", "", "") +
                "</invoke>\n";
       },
       "", "{{</minimax:tool_call>}}", "", ""},
      {"MiniMax M3", F::kMiniMax3, "{{<mm:think>}}", "{{</mm:think>}}", "{{]<]minimax[>[}}<tool_call>\n",
       [](const Call& c, int) {
         return "{{]<]minimax[>[}}<invoke name=\"" + c.name + "\">" + minimax3(c.arguments) + "{{]<]minimax[>[}}</invoke>\n";
       },
       "", "{{]<]minimax[>[}}</tool_call>", "", ""},
      {"MiniCPM 5", F::kMiniCpm, think + "\n", "\n" + end + "\n\n", "",
       [](const Call& c, int) {
         return "<function name=\"" + c.name + "\">" + by_pattern(c.arguments, "<param name=\"\1\">\3</param>", "", "") + "</function>";
       },
       "\n", "", "", ""},
      {"Kimi K3", F::kKimi3, "{{<|open|>}}think{{<|sep|>}}", "{{<|close|>}}think{{<|sep|>}}", "{{<|open|>}}tools{{<|sep|>}}", kimi3, "",
       "{{<|close|>}}tools{{<|sep|>}}{{<|close|>}}message{{<|sep|>}}", "{{<|open|>}}response{{<|sep|>}}",
       "{{<|close|>}}response{{<|sep|>}}"},
  };
}

std::vector<Written> in_objects() {
  const auto object = [](const Call& c, int) { return named(c, "arguments"); };
  return {
      {"Gemma 4", F::kGemma4, "{{<|channel>}}thought\n", "\n{{<channel|>}}", "",
       [](const Call& c, int) { return "{{<|tool_call>}}call:" + c.name + gemma4(c.arguments) + "{{<tool_call|>}}"; }, "", "", "", ""},
      {"LFM2", F::kPythonList, think, end, "{{<|tool_call_start|>}}[", lfm2, ", ", "]{{<|tool_call_end|>}}", "", ""},
      {"Apertus", F::kKeyed, "{{<|inner_prefix|>}}", "{{<|inner_suffix|>}}", "{{<|tools_prefix|>}}[",
       [](const Call& c, int) { return "{\"" + c.name + "\": " + dumped(c.arguments) + "}"; }, ", ", "]{{<|tools_suffix|>}}", "", ""},
      {"Apriel", F::kToolCalls, "Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n", "<tool_calls>[", object, ", ",
       "]</tool_calls>", "", ""},
      {"Nemotron Nano 2", F::kNemotron, think + "\n", "\n" + end + "\n", "<TOOLCALL>[", object, ", ", "]</TOOLCALL>", "", ""},
      {"GigaChat 3", F::kGigaChat, "", "", "",
       [](const Call& c, int) { return "{{<|message_sep|>}}\n\nfunction call{{<|role_sep|>}}\n" + named(c, "arguments"); }, "",
       "{{<|message_sep|>}}\n\n", "", ""},
      {"GigaChat 3.1", F::kGigaChat, "", "", "", [](const Call& c, int) { return "{{<|function_call|>}}" + named(c, "arguments"); }, "",
       "{{<|message_sep|>}}", "", ""},
      {"Functionary 3.1", F::kFunctionTag, "", "", "",
       [](const Call& c, int) { return "<function=" + c.name + ">" + dumped(c.arguments) + "</function>"; }, "", "", "", ""},
      {"Kimi K2 Thinking", F::kKimi, think, end, "{{<|tool_calls_section_begin|>}}",
       [](const Call& c, int index) {
         return "{{<|tool_call_begin|>}}functions." + c.name + ":" + std::to_string(index) + "{{<|tool_call_argument_begin|>}}" +
                dumped(c.arguments) + "{{<|tool_call_end|>}}";
       },
       "", "{{<|tool_calls_section_end|>}}", "", ""},
      {"Ministral", F::kMistral, "{{[THINK]}}", "{{[/THINK]}}", "",
       [](const Call& c, int) { return "{{[TOOL_CALLS]}}" + c.name + "{{[ARGS]}}" + dumped(c.arguments); }, "", "", "", ""},
      {"Functionary 3.2", F::kRecipient, "", "", "", [](const Call& c, int) { return ">>>" + c.name + "\n" + dumped(c.arguments); }, "", "",
       ">>>all\n", ""},
      {"gpt-oss", F::kHarmony, "{{<|channel|>}}analysis{{<|message|>}}", "{{<|end|>}}{{<|start|>}}assistant", "",
       [](const Call& c, int) {
         return " to=functions." + c.name + "{{<|channel|>}}commentary json{{<|message|>}}" + dumped(c.arguments) + "{{<|call|>}}";
       },
       "{{<|start|>}}assistant", "", "{{<|channel|>}}final{{<|message|>}}", "{{<|end|>}}{{<|start|>}}assistant"},
      {"Llama 3.1", F::kLlama3, "", "", "{{<|python_tag|>}}", [](const Call& c, int) { return named(c, "parameters"); }, "; ", "", "", ""},
  };
}

class Situations {
 public:
  explicit Situations(const Written& family) : family_(family) {
    style_.format = family.format;
    if (!family.reasoning_begin.empty() && family.format != F::kHarmony) {
      for (const Piece& piece : pieces_of(family.reasoning_begin)) style_.reasoning_begin += piece.text;
      for (const Piece& piece : pieces_of(family.reasoning_end)) style_.reasoning_end += piece.text;
      for (std::string* mark : {&style_.reasoning_begin, &style_.reasoning_end}) {
        while (mark->back() == '\n') mark->pop_back();
        while (mark->front() == '\n') mark->erase(0, 1);
      }
    }
    style_.tools = read_reply_tools(kTools);
  }

  void check(std::string answer, const std::string& expected) {
    SCOPED_TRACE(family_.name);
    expect_also_as_text(style_, of_answer(std::move(answer)), expected);
  }

  // Without what stands in the prompt, and without the begin of a message that does not follow.
  std::string of_answer(std::string turn) const {
    if (family_.format == F::kRecipient) turn.erase(0, 3);
    constexpr std::string_view kNext = "{{<|start|>}}assistant";
    if (turn.ends_with(kNext)) turn.resize(turn.size() - kNext.size());
    return turn;
  }

  std::string content(const std::string& text) const { return family_.before_content + text + family_.after_content; }
  std::string reasoning(const std::string& text) const { return family_.reasoning_begin + text + family_.reasoning_end; }
  std::string calls(const std::vector<Call>& calls) const {
    std::string out = family_.section;
    for (size_t i = 0; i < calls.size(); ++i) out += (i ? family_.between : "") + family_.call(calls[i], static_cast<int>(i));
    return out + family_.close;
  }
  std::string expected(const std::vector<Call>& calls) const {
    std::string out;
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::string id = family_.format == F::kKimi ? "functions." + calls[i].name + ":" + std::to_string(i) : "";
      out += call(calls[i].name, calls[i].arguments.dump(), id);
    }
    return out;
  }
  void check_calls(const std::vector<Call>& list) { check(calls(list), expected(list)); }

  void all() {
    const Call paris = {"get_weather", {{"city", "Paris"}, {"days", 3}}}, now = {"now", Json::object()};
    check(content("Hello, world!\nWhat's up? 1 < 2, [x](y) {\"a\": 1}"), "C<Hello, world!\nWhat's up? 1 < 2, [x](y) {\"a\": 1}>");
    if (!family_.reasoning_begin.empty()) {
      check(reasoning("I'm\nthinking") + content("Well."), "R<I'm\nthinking>C<Well.>");
      check(reasoning("Ask.") + calls({paris}), "R<Ask.>" + expected({paris}));
      check(reasoning("Ask.") + content("I look.") + calls({paris, now}), "R<Ask.>C<I look.>" + expected({paris, now}));
    }
    check_calls({paris});
    check_calls({paris, now});
    check_calls({now, now, paris});
    check(content("I look.") + calls({paris}), "C<I look.>" + expected({paris}));
    check_calls({{"get_weather", {{"city", "\"Pa'ris\" \\ said"}, {"code", "a = \"x\"; b = 'y'"}}}});
    check_calls({{"get_weather", {{"city", "x"}, {"opts", {{"unit", "12"}, {"tags", {"a", "1"}}, {"at", {{{"x", 1.5}}, {{"x", -2}}}}}}}}});
    check_calls({{"get_weather", {{"city", "Zürich 東京 👍🏽"}, {"exact", true}}}});
    check_calls({now});
    check_calls({{"get_weather", {{"code", "5123123"}, {"days", -7}, {"exact", false}}}});
    cut();
  }

 private:
  // A call that ends anywhere before its arguments do is no call, and what is no control token of it is shown.
  void cut() {
    const std::vector<Call> paris = {{"get_weather", {{"city", "Paris"}, {"days", 3}}}};
    const std::string whole = family_.section + family_.call(paris[0], 0), part = whole.substr(0, whole.find("Paris") + 3);
    ReplyParser parser(style_);
    Parts parts;
    for (const Piece& piece : pieces_of(of_answer(content("So: ") + part))) parser.push(piece.text, piece.control, &parts);
    parser.finish(&parts);
    std::string shown;
    for (const ReplyPart& p : parts) {
      EXPECT_EQ(p.kind, Kind::kContent) << family_.name;
      shown += p.text;
    }
    std::string expected = "So: ";
    if (family_.format == F::kHarmony) {
      expected += part.substr(part.find('{', part.find("message|>}}")));  // a whole header is never shown
    } else {
      for (const Piece& piece : pieces_of(part)) expected += piece.control ? "" : piece.text;
    }
    const auto black = [](std::string text) {
      std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
      return text;
    };
    EXPECT_EQ(black(shown), black(expected)) << family_.name;
  }

  const Written& family_;
  ReplyStyle style_;
};

TEST(ReplyFamilies, EachInTenSituations) {
  for (const auto& families : {in_tags(), in_objects()}) {
    for (const Written& family : families) {
      SCOPED_TRACE(family.name);
      Situations(family).all();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvrt
