// The style of answers that a template shows, and the place where an answer begins.
#include <span>

#include "runtime/text/reply/family.h"
#include "tests/support/reply_rig.h"

namespace kvrt {
namespace {

using namespace reply_rig;

struct Shown {
  const char* text;
  ReplyStyle style;
};

using F = ReplyFormat;

void expect_detected(std::span<const Shown> cases) {
  for (const Shown& shown : cases) {
    ReplyStyle style = detect_reply_style(shown.text);
    EXPECT_EQ(style.format, shown.style.format) << shown.text;
    EXPECT_EQ(style.reasoning_begin, shown.style.reasoning_begin) << shown.text;
    EXPECT_EQ(style.reasoning_end, shown.style.reasoning_end) << shown.text;
    EXPECT_EQ(style.begin, shown.style.begin) << shown.text;
    EXPECT_TRUE(style.format == F::kPlain || (style.family != nullptr && style.family->format == style.format)) << shown.text;
  }
}

TEST(ReplyStyle, IsDetectedByTheTemplate) {
  const Shown cases[] = {
      {"", {F::kPlain, "", ""}},
      {"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt "
       "%}<|im_start|>assistant\n{% endif %}",
       {F::kPlain, "", ""}},
      // Qwen 2.5, Qwen 3 (thinks unless the prompt closes it), QwQ (the prompt opens it)
      {"<|im_start|>system\nUse <tool_call>\\n{\"name\": <function-name>}\\n</tool_call>{% if add_generation_prompt "
       "%}<|im_start|>assistant\n{% endif %}",
       {F::kHermes, "", ""}},
      {"<tool_call>{{ m.content.split('</think>')[-1] }}{%- if add_generation_prompt %}<|im_start|>assistant\n{%- if enable_thinking is "
       "false %}"
       "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}",
       {F::kHermes, "<think>", "</think>"}},
      {"<tool_call>{{ m.content.split('</think>')[-1] }}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- "
       "endif %}",
       {F::kHermes, "<think>", "</think>", AnswerPlace::kReasoning}},
      // Llama 3.0, 3.1, 3.2, 4
      {"<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>", {F::kPlain, "", ""}},
      {"<|start_header_id|>assistant<|end_header_id|>{{ '<|python_tag|>' + t.name + '.call(' }}", {F::kLlama3, "", ""}},
      {"<|start_header_id|>{{ 'Respond in the format {\"name\": function name, \"parameters\": dictionary}' }}", {F::kLlama3, "", ""}},
      {"<|header_start|>assistant<|header_end|>{{ '<|python_start|>' }}", {F::kLlama3, "", ""}},
      // Mistral, Magistral
      {"{{ bos_token }}[INST]{{ m.content }}[/INST]", {F::kPlain, "", ""}},
      {"[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][INST]x[/INST][TOOL_CALLS] [", {F::kMistral, "", ""}},
      {"[SYSTEM_PROMPT]First think: [THINK]your thoughts[/THINK]then answer[/SYSTEM_PROMPT][TOOL_CALLS]name[ARGS]",
       {F::kMistral, "[THINK]", "[/THINK]"}},
      {"<start_of_turn>user\n{{ m.content }}<end_of_turn>\n", {F::kGemma, "", ""}},
      // DeepSeek V3, R1
      {"<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", {F::kDeepSeek, "", ""}},
      {"{% set c = c.split('</think>')[-1] %}<｜tool▁calls▁begin｜>{% if add_generation_prompt and not ns.is_tool "
       "%}{{'<｜Assistant｜><think>\\n'}}{% endif %}",
       {F::kDeepSeek, "<think>", "</think>", AnswerPlace::kReasoning}},
      {"<|tool_calls_section_begin|><|tool_call_begin|>{{ t.id }}<|tool_call_argument_begin|>", {F::kKimi, "", ""}},
      // Command R, Command R7B
      {"Write 'Action:' followed by a json list of actions: {\"tool_name\": title of the tool}", {F::kCommandR, "", ""}},
      {"<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": <|END_ACTION|> <|START_THINKING|>{{ m.plan }}<|END_THINKING|>",
       {F::kCommandR7b, "<|START_THINKING|>", "<|END_THINKING|>"}},
      // Granite 3, Phi-4 mini
      {"<|start_of_role|>system<|end_of_role|>To call a tool write <|tool_call|> and a JSON list", {F::kGranite, "", ""}},
      {"{{ '<|' + m.role + '|>' + m.content + '<|tool|>' + m.tools + '<|/tool|>' + '<|end|>' }}", {F::kGranite, "", ""}},
      {"use <function=name>{args}</function>", {F::kFunctionTag, "", ""}},
      // Qwen3-Coder, GLM 4.5
      {"<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n</function>\n</tool_call>", {F::kQwenTags, "", ""}},
      {"<tool_call>f\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n</tool_call></think>", {F::kGlm, "<think>", "</think>"}},
      {"<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>", {F::kHarmony, "", ""}},
  };
  expect_detected(cases);
}

TEST(ReplyStyle, OfNewerFamilies) {
  const Shown cases[] = {
      // LFM2, Gemma 4, Kimi K3, Apertus, MiniMax M2 and M3, DeepSeek V4, Seed-OSS, Nemotron Nano 2, Apriel, Hunyuan, GigaChat, MiniCPM
      {"<|im_start|>system\nList of tools: [", {F::kPythonList, "", ""}},
      {"<|tool_list_start|>[", {F::kPythonList, "", ""}},
      {"<|turn>model\n<|channel>thought\n<channel|><|tool_call>call:", {F::kGemma4, "<|channel>thought", "<channel|>"}},
      {"'<|open|>' + tag + '<|sep|>' {{ open_tag('think') }}", {F::kKimi3, "<|open|>think<|sep|>", "<|close|>think<|sep|>"}},
      {"<|inner_prefix|>{{ x }}<|tools_prefix|>[", {F::kKeyed, "<|inner_prefix|>", "<|inner_suffix|>"}},
      {"<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"k\">", {F::kMiniMax, "", ""}},
      {"{% set ns = ']<]minimax[>[' %}{{ ns + '<tool_call>' }}<mm:think>", {F::kMiniMax3, "<mm:think>", "</mm:think>"}},
      {"{% set dsml = '｜DSML｜' %}{{ '<' + dsml + 'tool_calls>' }}</think>", {F::kDsml, "<think>", "</think>"}},
      {"<seed:tool_call>\n<function=f>\n<parameter=p>v</parameter><seed:think>", {F::kSeed, "<seed:think>", "</seed:think>"}},
      {"<TOOLCALL>[{{ c }}]</TOOLCALL>{% if add_generation_prompt %}<think>\n{% endif %}",
       {F::kNemotron, "<think>", "</think>", AnswerPlace::kReasoning}},
      {"<tool_calls>[{% if add_generation_prompt %}{{ 'Here are my reasoning steps:\n' }}{% endif %}",
       {F::kToolCalls, "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"}},
      {"{{ '<tool_call{}>'.format(T) }}{{ '<arg_key{}>'.format(T) }}{{ '<think{}>'.format(T) }}",
       {F::kHunyuan, "<think:opensource>", "</think:opensource>"}},
      {"{{ 'function call' + '<|role_sep|>\n' }}", {F::kGigaChat, "", ""}},
      {"<function name=\"f\"><param name=\"k\">v</param></function>", {F::kMiniCpm, "", ""}},
      {"<|start_header_id|>assistant<|end_header_id|>\n\n>>>all\n", {F::kRecipient, "", ""}},
  };
  expect_detected(cases);
}

TEST(ReplyStyle, ThePromptsEndSaysWhereTheAnswerBegins) {
  ReplyStyle style = thinking(ReplyFormat::kHermes);
  EXPECT_EQ(answer_place(style, "<|im_start|>assistant\n<think>\n"), AnswerPlace::kReasoning);
  EXPECT_EQ(answer_place(style, "<think>"), AnswerPlace::kReasoning);
  EXPECT_EQ(answer_place(style, "<|im_start|>assistant\n<think>\n\n</think>\n\n"), AnswerPlace::kClosed);
  EXPECT_EQ(answer_place(style, "say <think> now"), AnswerPlace::kBegin);
  EXPECT_EQ(answer_place(style, ""), AnswerPlace::kBegin);
  EXPECT_EQ(answer_place(style_of(ReplyFormat::kHermes), "<think>"), AnswerPlace::kBegin);
}

}  // namespace
}  // namespace kvrt
