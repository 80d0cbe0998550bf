// What is known of a model's answers before one comes: the format of its calls, the marks of its reasoning; and the parts that an answer has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kvrt {

class ReplyTools;
namespace reply {
struct Family;
}

// The format of tool calls; each is rows of kSyntaxes (syntax.cc). kPlain: no tool calls.
enum class ReplyFormat : uint8_t {
  kPlain,
  kHermes,    // <tool_call>{"name": .., "arguments": {..}}</tool_call>: Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4
  kQwenTags,  // <tool_call><function=name><parameter=k>v</parameter></function></tool_call>: Qwen3-Coder, Qwen 3.5, StepFun
  kLlama3,   // {"name": .., "parameters": {..}} where an answer begins or after <|python_tag|>; [f(k="v")] and brave_search.call(query="v")
  kMistral,  // [TOOL_CALLS] [{"name": .., "arguments": {..}}], [TOOL_CALLS]name[ARGS]{..}
  kGemma,  // ```tool_code f(k="v") ```; where an answer begins [f(k="v")] or {"name": .., "parameters": {..}}, alone or as a ```json block
  kDeepSeek,  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name ```json {..} ```<｜tool▁call▁end｜>..; V3.1: name<｜tool▁sep｜>{..}
  kKimi,      // <|tool_calls_section_begin|><|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{..}<|tool_call_end|>..
  kCommandR,  // Action: ```json [{"tool_name": .., "parameters": {..}}] ```
  kCommandR7b,   // <|START_ACTION|>[{"tool_call_id": "0", "tool_name": .., "parameters": {..}}]<|END_ACTION|>
  kGranite,      // <|tool_call|>[{"name": .., "arguments": {..}}] of Granite 3, with <|/tool_call|> of Phi-4 mini
  kFunctionTag,  // <function=name>{..}</function>: Llama 3.1 custom tools, Functionary 3.1
  kGlm,          // <tool_call>name<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>: GLM 4.5 to 4.7
  kSeed,         // <seed:tool_call><function=name><parameter=k>v</parameter></function></seed:tool_call>: Seed-OSS
  kHunyuan,      // the tags of GLM with ":opensource" in each, in <tool_calls:opensource>
  kDsml,        // <｜DSML｜tool_calls><｜DSML｜invoke name="name"><｜DSML｜parameter name="k" string="true">v..: DeepSeek V3.2 and V4
  kMiniMax,     // <minimax:tool_call><invoke name="name"><parameter name="k">v</parameter></invoke>..: MiniMax M2
  kMiniMax3,    // ]<]minimax[>[<invoke name="name">]<]minimax[>[<k>v]<]minimax[>[</k>..: MiniMax M3
  kMiniCpm,     // <function name="name"><param name="k">v</param></function>: MiniCPM 5
  kKimi3,       // <|open|>call tool="name" index="1"<|sep|><|open|>argument key="k" type="string"<|sep|>v<|close|>..: Kimi K3
  kGemma4,      // <|tool_call>call:name{k:<|"|>v<|"|>}<tool_call|>
  kPythonList,  // <|tool_call_start|>[name(k="v")]<|tool_call_end|>: LFM2 and 2.5
  kKeyed,       // <|tools_prefix|>[{"name": {..}}]<|tools_suffix|>: Apertus
  kToolCalls,   // <tool_calls>[{"name": .., "arguments": {..}}]</tool_calls>: Apriel, MiniMax M1
  kNemotron,    // <TOOLCALL>[{"name": .., "arguments": {..}}]</TOOLCALL>: Nemotron Nano 2
  kGigaChat,    // <|function_call|>{"name": .., "arguments": {..}}, or in a message with the role "function call"
  kRecipient,   // >>>name {..}, and content as >>>all: Functionary 3.2
  kHarmony,     // <|channel|>commentary to=functions.name <|constrain|>json<|message|>{..}<|call|>: gpt-oss; its reasoning is a channel too
};

// Where an answer goes on. kClosed: at its beginning, and the prompt has closed reasoning, so that none comes.
enum class AnswerPlace : uint32_t { kBegin, kClosed, kReasoning, kContent };

struct ReplyStyle {
  ReplyFormat format = ReplyFormat::kPlain;
  std::string reasoning_begin, reasoning_end;  // "": no reasoning between markers
  AnswerPlace begin = AnswerPlace::kBegin;  // kReasoning: the generation prompt opens it (DeepSeek R1, QwQ), so the answer has only its end
  bool calls = true;                        // false: only kHarmony has calls; what stands around content is still dropped
  bool bound = false;                       // a schema binds the content: nothing in it is a mark, except a control token
  const reply::Family* family = nullptr;    // the family that the template shows, which says how calls are written
  bool fits = true;                         // the template writes calls as the family's row has them, so they may be bound by default
  std::shared_ptr<const ReplyTools> tools = nullptr;  // null: names and argument types are not known
  bool unmarked = true;                               // false: no call comes without its family's mark
};

// Reads the style off the template's text: kPlain and no reasoning if the text shows neither. If the prompt has no tools, the caller sets
// calls = false, so that an answer which is JSON is never taken for a call. Whether reasoning is open may depend on the rendering
// (enable_thinking): answer_place() tells from the prompt.
ReplyStyle detect_reply_style(std::string_view chat_template);
// Reads a JSON array of tools, as templates have it.
std::shared_ptr<const ReplyTools> read_reply_tools(std::string_view json);
// Tells from the end of the rendered prompt, without white space: it may be the beginning or the end of reasoning, or neither.
AnswerPlace answer_place(const ReplyStyle& style, std::string_view prompt);

struct ReplyPart {
  enum class Kind : uint8_t { kContent, kReasoning, kToolCall } kind = Kind::kContent;
  // An increment of content or reasoning; or of a tool call one complete compact JSON object {"name": string, "arguments": object}, with
  // "id": string if the model gave one.
  std::string text;
};

}  // namespace kvrt
