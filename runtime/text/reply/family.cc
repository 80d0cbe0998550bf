#include "runtime/text/reply/family.h"

#include "runtime/text/reply/syntax.h"

namespace kvrt {

namespace reply {

namespace {

using F = ReplyFormat;
using A = WrittenCalls::Arguments;

constexpr WrittenCalls tagged(const TagForm& tags, std::string_view begin, std::string_view call, std::string_view named,
                              std::string_view end, std::string_view between, std::string_view close, std::string_view may_precede = {},
                              std::string_view may_follow = {}) {
  return {begin, call, named, end, between, close, A::kTags, &tags, may_precede, may_follow};
}

// Objects of a name and arguments in one list, or in marks of their own.
constexpr std::string_view kName = "{\"name\": \"", kArguments = "\", \"arguments\": ";
constexpr WrittenCalls listed(std::string_view begin, std::string_view close) { return {begin, kName, kArguments, "}", ", ", close}; }

constexpr WrittenCalls kHermes = {"", "<tool_call>\n{\"name\": \"", kArguments, "}\n</tool_call>", "\n", ""};
constexpr WrittenCalls kLlama3 = {"", kName, "\", \"parameters\": ", "}", "; ", ""};
constexpr WrittenCalls kPythonList = {"<|tool_call_start|>[", "", "(", ")", ", ", "]<|tool_call_end|>", A::kPython};
constexpr WrittenCalls kCommandR7b = {
    "<|START_ACTION|>[\n", "    {\"tool_call_id\": \"%d\", \"tool_name\": \"", "\", \"parameters\": ", "}", ",\n", "\n]<|END_ACTION|>"};
constexpr WrittenCalls kDsml32 = tagged(kDsmlTags, "<｜DSML｜function_calls>\n", "<｜DSML｜invoke name=\"", "\">\n",
                                        "%s</｜DSML｜invoke>\n", "", "</｜DSML｜function_calls>");
constexpr WrittenCalls kDsml4 =
    tagged(kDsmlTags, "<｜DSML｜tool_calls>\n", "<｜DSML｜invoke name=\"", "\">\n", "%s</｜DSML｜invoke>\n", "", "</｜DSML｜tool_calls>");

constexpr Family kFamilies[] = {
    {"gpt-oss",
     F::kHarmony,
     "<|channel|>",
     "<|message|>",
     {"", " to=functions.", "<|channel|>commentary json<|message|>", "<|call|>", "<|start|>assistant", ""}},
    {"DeepSeek V3.2", F::kDsml, "｜DSML｜", "function_calls>", kDsml32},
    {"DeepSeek V4", F::kDsml, "｜DSML｜", "", kDsml4},
    {"DeepSeek V3",
     F::kDeepSeek,
     "<｜tool▁calls▁begin｜>",
     "```json",
     {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>", "\n",
      "<｜tool▁calls▁end｜>"}},
    {"DeepSeek V3.1",
     F::kDeepSeek,
     "<｜tool▁calls▁begin｜>",
     "",
     {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "", "<｜tool▁calls▁end｜>"}},
    {"Kimi K2",
     F::kKimi,
     "<|tool_calls_section_begin|>",
     "",
     {"<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.", ":%d<|tool_call_argument_begin|>", "<|tool_call_end|>", "",
      "<|tool_calls_section_end|>"}},
    {"Kimi K3", F::kKimi3, "<|open|>", "<|sep|>",
     tagged(kKimi3Tags, "<|open|>tools<|sep|>", "<|open|>call tool=\"", "\" index=\"%D\"<|sep|>", "<|close|>call<|sep|>", "",
            "<|close|>tools<|sep|>", "<|open|>response<|sep|><|close|>response<|sep|>", "<|close|>message<|sep|>")},
    {"Mistral Small 3.2", F::kMistral, "[TOOL_CALLS]", "[CALL_ID]", {"", "[TOOL_CALLS]", "[CALL_ID]%i[ARGS]", "", "", ""}},
    {"Ministral", F::kMistral, "[TOOL_CALLS]", "[ARGS]", {"", "[TOOL_CALLS]", "[ARGS]", "", "", ""}},
    {"Mistral", F::kMistral, "[TOOL_CALLS]", "", {"[TOOL_CALLS]%s[", kName, kArguments, ", \"id\": \"%i\"}", ", ", "]"}},
    {"Command R7B", F::kCommandR7b, "<|START_ACTION|>", "", kCommandR7b},
    {"Command R",
     F::kCommandR,
     "Action:",
     "tool_name",
     {"Action: ```json\n[\n", "    {\n        \"tool_name\": \"", "\",\n        \"parameters\": ", "\n    }", ",\n", "\n]\n```"}},
    {"Apertus", F::kKeyed, "<|tools_prefix|>", "", {"<|tools_prefix|>[", "{\"", "\": ", "}", ", ", "]<|tools_suffix|>"}},
    {"GigaChat 3.1", F::kGigaChat, "<|function_call|>", "<|role_sep|>", {"", "<|function_call|>{\"name\": \"", kArguments, "}", "", ""}},
    {"GigaChat 3",
     F::kGigaChat,
     "<|role_sep|>",
     "function call",
     {"", "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"", kArguments, "}", "", ""}},
    {"LFM2", F::kPythonList, "<|tool_call_start|>", "", kPythonList},
    {"LFM2", F::kPythonList, "<|tool_list_start|>", "", kPythonList},
    {"LFM2", F::kPythonList, "List of tools: [", "<|im_start|>", kPythonList},
    {"Gemma 4", F::kGemma4, "<|tool_call>", "", {"", "<|tool_call>call:", "", "<tool_call|>", "", "", A::kQuoted}},
    {"Granite", F::kGranite, "<|tool_call|>", "", listed("<|tool_call|>[", "]")},
    {"Phi-4 mini", F::kGranite, "<|tool|>", "<|/tool|>", listed("<|tool_call|>[", "]<|/tool_call|>")},  // its template shows no calls
    {"Seed-OSS", F::kSeed, "<seed:tool_call>", "",
     tagged(kSeedTags, "", "<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>", "\n", "")},
    {"MiniMax M3", F::kMiniMax3, "]<]minimax[>[", "",
     tagged(kMiniMax3Tags, "]<]minimax[>[<tool_call>\n", "]<]minimax[>[<invoke name=\"", "\">", "]<]minimax[>[</invoke>\n", "",
            "]<]minimax[>[</tool_call>")},
    {"MiniMax M2", F::kMiniMax, "minimax:tool_call", "",
     tagged(kMiniMaxTags, "<minimax:tool_call>\n", "<invoke name=\"", "\">\n", "</invoke>\n", "", "</minimax:tool_call>")},
    {"StepFun", F::kQwenTags, "<parameter=", "<|im_start|>tool_response",
     tagged(kQwenTags, "", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "", "")},
    {"Qwen3-Coder", F::kQwenTags, "<parameter=", "",
     tagged(kQwenTags, "", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n", "")},
    {"Hunyuan", F::kHunyuan, "<tool_call{}>", "<arg_key{}>",
     tagged(kHunyuanTags, "<tool_calls:opensource>\n", "<tool_call:opensource>", "<tool_sep:opensource>\n", "</tool_call:opensource>\n", "",
            "</tool_calls:opensource>")},
    {"GLM 4.7", F::kGlm, "<arg_key>", "</arg_key><arg_value>", tagged(kCompactGlmTags, "", "<tool_call>", "", "</tool_call>", "", "")},
    {"GLM", F::kGlm, "<arg_key>", "", tagged(kGlmTags, "", "<tool_call>", "\n", "</tool_call>", "\n", "")},
    {"MiniCPM", F::kMiniCpm,
     "<function name=", "<param name=", tagged(kMiniCpmTags, "", "<function name=\"", "\">", "</function>", "\n", "")},
    {"Nemotron Nano 2", F::kNemotron, "<TOOLCALL>", "", listed("<TOOLCALL>[", "]</TOOLCALL>")},
    {"MiniMax M1", F::kToolCalls, "<tool_calls>", "<end_of_sentence>", {"<tool_calls>\n", kName, kArguments, "}", "\n", "\n</tool_calls>"}},
    {"Apriel", F::kToolCalls, "<tool_calls>", "", listed("<tool_calls>[", "]</tool_calls>")},
    {"Hermes", F::kHermes, "<tool_call>", "", kHermes},
    {"Functionary 3.1", F::kFunctionTag, "<function=", "", {"", "<function=", ">", "</function>", "", ""}},
    {"Functionary 3.2", F::kRecipient, ">>>all", "<|start_header_id|>", {"", ">>>", "\n", "", "", ""}},
    {"Llama 3", F::kLlama3, "<|python_tag|>", "", kLlama3},
    {"Llama 4", F::kLlama3, "<|python_start|>", "", kLlama3},
    {"Llama 3", F::kLlama3, "<|start_header_id|>", "parameters", kLlama3},
    {"Gemma", F::kGemma, "<start_of_turn>", "", {"```tool_code\n", "", "(", ")", "\n", "\n```", A::kPython}},
};

struct Reasoning {
  std::string_view begin, end;
  std::string_view sign = begin, also = end;  // one of them stands in the template
};

constexpr Reasoning kReasoning[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<seed:think>", "</seed:think>"},
    {"<mm:think>", "</mm:think>"},
    {"<|channel>thought", "<channel|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:", "Here are my reasoning steps:"},
    {"<think:opensource>", "</think:opensource>", "<think{}>", "</think{}>"},                       // Hunyuan writes them by parts,
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>", "open_tag('think')", "open_tag('think' if"},  // and Kimi K3
};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::span<const Family> families() { return kFamilies; }

}  // namespace reply

ReplyStyle detect_reply_style(std::string_view chat_template) {
  using reply::has;
  ReplyStyle style;
  for (const reply::Family& family : reply::kFamilies) {
    if (!has(chat_template, family.sign) || !has(chat_template, family.also)) continue;
    style.format = family.format;
    style.family = &family;
    break;
  }
  if (style.format == ReplyFormat::kHarmony) return style;
  for (const reply::Reasoning& reasoning : reply::kReasoning) {
    if (!has(chat_template, reasoning.sign) && !has(chat_template, reasoning.also)) continue;
    style.reasoning_begin = reasoning.begin;
    style.reasoning_end = reasoning.end;
    // The generation prompt is the last text that a template writes; reasoning that it opens and does not close is left to the answer.
    const size_t opened = chat_template.rfind(reasoning.sign), closed = chat_template.rfind(reasoning.also);
    const size_t prompt = chat_template.rfind("add_generation_prompt");
    const bool open = opened != std::string_view::npos && prompt != std::string_view::npos && opened > prompt &&
                      (closed == std::string_view::npos || closed < opened);
    if (open) style.begin = AnswerPlace::kReasoning;
    break;
  }
  return style;
}

AnswerPlace answer_place(const ReplyStyle& style, std::string_view prompt) {
  while (!prompt.empty() && reply::is_space(prompt.back())) prompt.remove_suffix(1);
  if (!style.reasoning_begin.empty() && prompt.ends_with(style.reasoning_begin)) return AnswerPlace::kReasoning;
  if (!style.reasoning_end.empty() && prompt.ends_with(style.reasoning_end)) return AnswerPlace::kClosed;
  return AnswerPlace::kBegin;
}

}  // namespace kvrt
