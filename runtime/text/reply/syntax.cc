#include "runtime/text/reply/syntax.h"

#include <algorithm>

namespace kvrt::reply {

// open, close, end, pad, quote, unquote, entities, python
constexpr TagForm kQwenTags = {"<parameter=%k>", "</parameter>\n", "</function>", "\n"};
constexpr TagForm kSeedTags = {"<parameter=%k>", "</parameter>\n", "</function>", "", "", "", false, true};
constexpr TagForm kGlmTags = {"<arg_key>%k</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>", ""};
constexpr TagForm kCompactGlmTags = {"<arg_key>%k</arg_key>%s<arg_value>", "</arg_value>", "</tool_call>", ""};
constexpr TagForm kHunyuanTags = {"<arg_key:opensource>%k</arg_key:opensource>\n<arg_value:opensource>", "</arg_value:opensource>\n",
                                  "</tool_call:opensource>", ""};
constexpr TagForm kDsmlTags = {"<｜DSML｜parameter name=\"%k\" string=\"%t\">", "</｜DSML｜parameter>\n", "</｜DSML｜invoke>", ""};
constexpr TagForm kMiniMaxTags = {"<parameter name=\"%k\">", "</parameter>\n", "</invoke>", ""};
constexpr TagForm kMiniMax3Tags = {"]<]minimax[>[<%k>", "]<]minimax[>[</%k>", "]<]minimax[>[</invoke>", ""};
constexpr TagForm kMiniCpmTags = {"<param name=\"%k\">", "</param>", "</function>", "", "<![CDATA[", "]]>", false, true};
constexpr TagForm kKimi3Tags = {
    "<|open|>argument key=\"%k\" type=\"%t\"<|sep|>", "<|close|>argument<|sep|>", "<|close|>call<|sep|>", "", "", "", true};

namespace {

using F = ReplyFormat;
using S = CallSyntax;

// What models write in place of their family's marks.
constexpr CallSyntax bare(F format) { return {format, "", {"%s"}, {}, S::kStrict | S::kRepeats | S::kUnmarked}; }
constexpr CallSyntax fenced(F format, unsigned flags = S::kUnmarked) {
  return {format, kFenceMark, {"json%s", "%s"}, {kFenceMark}, S::kStrict | S::kRepeats | S::kFence | flags};
}

// Between the calls of one format the longest marker counts.
constexpr CallSyntax kSyntaxes[] = {
    {F::kHermes, "<tool_call>", {"%s"}, {"</tool_call>"}, S::kRepeats},
    bare(F::kHermes),
    fenced(F::kHermes),
    {F::kQwenTags, "<tool_call>", {"\n<function=%n>\n"}, {"</tool_call>"}, S::kInReasoning, &kQwenTags},
    {F::kQwenTags, "<function=", {"%n>\n"}, {"</tool_call>"}, S::kNone, &kQwenTags},
    {F::kSeed, "<seed:tool_call>", {"\n<function=%n>\n"}, {"</seed:tool_call>"}, S::kNone, &kSeedTags},
    {F::kGlm, "<tool_call>", {"%s%n\n"}, {}, S::kNone, &kGlmTags},
    {F::kHunyuan, "<tool_calls:opensource>", {}, {}},
    {F::kHunyuan, "<tool_call:opensource>", {"%s%n<tool_sep:opensource>\n"}, {"</tool_calls:opensource>"}, S::kNone, &kHunyuanTags},
    {F::kDsml, "<｜DSML｜function_calls>", {}, {}, S::kInReasoning},
    {F::kDsml, "<｜DSML｜tool_calls>", {}, {}, S::kInReasoning},
    {F::kDsml, "<｜DSML｜invoke name=\"", {"%n\">\n"}, {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"}, S::kInReasoning, &kDsmlTags},
    {F::kMiniMax, "<minimax:tool_call>", {}, {}},
    {F::kMiniMax, "<invoke name=\"", {"%n\">\n"}, {"</minimax:tool_call>"}, S::kNone, &kMiniMaxTags},
    {F::kMiniMax3, "]<]minimax[>[<tool_call>", {}, {}},
    {F::kMiniMax3, "]<]minimax[>[<invoke name=\"", {"%n\">%s"}, {"]<]minimax[>[</tool_call>"}, S::kNone, &kMiniMax3Tags},
    {F::kMiniCpm, "<function name=\"", {"%n\">%s"}, {}, S::kNone, &kMiniCpmTags},
    {F::kKimi3, "<|open|>response<|sep|>", {}, {}, S::kFrame | S::kInReasoning},
    {F::kKimi3, "<|close|>response<|sep|>", {}, {}, S::kFrame},
    {F::kKimi3, "<|close|>message<|sep|>", {}, {}, S::kFrame},
    {F::kKimi3, "<|open|>tools<|sep|>", {}, {}},
    {F::kKimi3, "<|open|>call tool=\"", {"%n\" index=\"%d\"<|sep|>", "%n\"<|sep|>"}, {"<|close|>tools<|sep|>"}, S::kNone, &kKimi3Tags},
    {F::kGemma4, "<|channel>", {}, {}, S::kFrame},  // models leave one behind
    {F::kGemma4, "<channel|>", {}, {}, S::kFrame},
    {F::kGemma4, "<|tool_call>", {"call:%n"}, {"<tool_call|>"}, S::kQuoted},
    {F::kPythonList, "<|tool_call_start|>", {"%s"}, {"<|tool_call_end|>"}, S::kPython | S::kRepeats},
    {F::kKeyed, "<|tools_prefix|>", {"%s"}, {"<|tools_suffix|>"}, S::kKeyed | S::kRepeats | S::kInReasoning},
    {F::kToolCalls, "<tool_calls>", {"%s"}, {"</tool_calls>"}, S::kRepeats},
    {F::kToolCalls, "[END FINAL RESPONSE]", {}, {}, S::kFrame},
    bare(F::kToolCalls),
    fenced(F::kToolCalls),
    {F::kNemotron, "<TOOLCALL>", {"%s"}, {"</TOOLCALL>"}, S::kRepeats},
    bare(F::kNemotron),
    fenced(F::kNemotron),
    {F::kGigaChat, "<|message_sep|>\n\nfunction call<|role_sep|>", {"%s"}, {"<|message_sep|>"}},
    {F::kGigaChat, "<|function_call|>", {"%s"}, {"<|message_sep|>"}},
    bare(F::kGigaChat),
    fenced(F::kGigaChat),
    {F::kRecipient, ">>>all\n", {}, {}, S::kFrame},
    {F::kRecipient, ">>>", {"%n\n"}, {}, S::kPrompted},
    {F::kLlama3, "", {"%s"}, {}, S::kPython | S::kStrict | S::kRepeats | S::kBuiltins},
    fenced(F::kLlama3),
    {F::kLlama3, "<|python_tag|>", {"%s"}, {}, S::kPython | S::kRepeats | S::kBuiltins},
    {F::kLlama3, "<|python_start|>", {"%s"}, {"<|python_end|>"}, S::kPython | S::kRepeats | S::kBuiltins},  // Llama 4
    {F::kLlama3, "<function=", {"%n>%s"}, {"</function>"}},
    {F::kMistral, "[TOOL_CALLS]", {"%s", "%s%n%s", "%s%n[ARGS]%s", "%s%n[CALL_ID](%i)[ARGS]%s"}, {}},
    bare(F::kMistral),
    fenced(F::kMistral),
    {F::kGemma, "", {"%s"}, {}, S::kPython | S::kStrict | S::kRepeats},
    {F::kGemma, "```tool_code", {"%s"}, {"```"}, S::kPython | S::kRepeats},
    fenced(F::kGemma, S::kNone),
    {F::kDeepSeek, "<｜tool▁calls▁begin｜>", {}, {}},
    {F::kDeepSeek,
     "<｜tool▁call▁begin｜>",
     {"%sfunction<｜tool▁sep｜>%n%s```json%s", "%s%n<｜tool▁sep｜>%s"},
     {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}},
    {F::kKimi, "<|tool_calls_section_begin|>", {}, {}, S::kInReasoning},
    {F::kKimi,
     "<|tool_call_begin|>",
     {"%s(functions.%n:%d)%s<|tool_call_argument_begin|>%s"},
     {"<|tool_call_end|>", "<|tool_calls_section_end|>"},
     S::kInReasoning},
    {F::kCommandR, "Action:", {"%s```json%s"}, {"```"}},
    {F::kCommandR7b, "<|START_ACTION|>", {"%s"}, {"<|END_ACTION|>"}},
    {F::kCommandR7b, "<|START_RESPONSE|>", {}, {}, S::kFrame},
    {F::kCommandR7b, "<|END_RESPONSE|>", {}, {}, S::kFrame},
    {F::kCommandR7b, "<|START_TEXT|>", {}, {}, S::kFrame},
    {F::kCommandR7b, "<|END_TEXT|>", {}, {}, S::kFrame},
    {F::kGranite, "<|tool_call|>", {"%s"}, {"<|/tool_call|>"}, S::kRepeats},
    bare(F::kGranite),
    fenced(F::kGranite),
    {F::kFunctionTag, "<function=", {"%n>%s"}, {"</function>"}},
};

}  // namespace

std::span<const CallSyntax> syntaxes() { return kSyntaxes; }

std::span<const std::string_view> bare_keys(ReplyFormat format) {
  static constexpr std::string_view kKeys[] = {"arguments", "parameters"};
  return std::span(kKeys).first(format == F::kLlama3 || format == F::kGemma ? 2 : 1);  // elsewhere the latter may describe the tool
}

HarmonyHeader read_harmony_header(std::string_view header) {
  constexpr std::string_view kFunctions = "functions.";
  HarmonyHeader read;
  for (size_t at = 0, end; (at = header.find_first_not_of(kWhiteSpace, at)) != std::string_view::npos; at = end) {
    end = std::min(header.find_first_of(kWhiteSpace, at), header.size());
    std::string_view word = header.substr(at, end - at);
    if (word.starts_with("to=")) read.recipient = word.substr(3);
    if (word.starts_with(kHarmonyChannel.substr(1))) read.reasoning = word == "channel=analysis";
  }
  if (read.recipient == "assistant" || read.recipient == "user") read.recipient.clear();  // a message to people
  read.function = read.recipient.starts_with(kFunctions);
  if (read.function) read.recipient.erase(0, kFunctions.size());
  return read;
}

}  // namespace kvrt::reply
