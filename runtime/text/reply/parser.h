// ReplyParser: splits a model's streamed answer into content, reasoning and tool calls, as the model's family writes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvrt {

// The format of a family's tool calls; each is a row of kSyntaxes (syntax.cc). kPlain: no tool calls.
enum class ReplyFormat : uint8_t {
  kPlain,
  kHermes,  // <tool_call>{"name": .., "arguments": {..}}</tool_call>: Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4
  kTags,    // <tool_call><function=name><parameter=k>v</parameter></function></tool_call>: Qwen3-Coder; name<arg_key>k</arg_key>..: GLM 4.5
  kLlama3,  // {"name": .., "parameters": {..}} as the whole answer or after <|python_tag|>; [f(k="v")] and brave_search.call(query="v")
  kMistral,   // [TOOL_CALLS] [{"name": .., "arguments": {..}}], [TOOL_CALLS]name[ARGS]{..}
  kGemma,     // ```tool_code f(k="v") ```, [f(k="v")] or {"name": .., "parameters": {..}}, alone or as a ```json block
  kDeepSeek,  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name ```json {..} ```<｜tool▁call▁end｜>..; V3.1: name<｜tool▁sep｜>{..}
  kKimi,      // <|tool_calls_section_begin|><|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{..}<|tool_call_end|>..
  kCommandR,  // Action: ```json [{"tool_name": .., "parameters": {..}}] ```
  kCommandR7b,   // <|START_ACTION|>[{"tool_call_id": "0", "tool_name": .., "parameters": {..}}]<|END_ACTION|>
  kGranite,      // <|tool_call|>[{"name": .., "arguments": {..}}] of Granite 3, with <|/tool_call|> of Phi-4 mini
  kFunctionTag,  // <function=name>{..}</function>: Llama 3.1 custom tools, Functionary
  kHarmony,  // <|channel|>commentary to=functions.name <|constrain|>json<|message|>{..}<|call|>: gpt-oss; its reasoning is a channel too
};

struct ReplyStyle {
  ReplyFormat format = ReplyFormat::kPlain;
  std::string reasoning_begin, reasoning_end;  // "": no reasoning between markers
  bool reasoning_open = false;  // the generation prompt ends within reasoning (DeepSeek R1, QwQ), the answer has only the end marker
};

// By the template's text; kPlain and no reasoning where it shows neither. Without tools in the prompt a caller sets format = kPlain
// (kHarmony stays: all its text is in channels), so that JSON an answer consists of is never taken for a call. Whether reasoning is
// open may depend on the rendering (enable_thinking): ask reasoning_is_open() where the prompt is at hand.
ReplyStyle detect_reply_style(std::string_view chat_template);
// True where a rendered prompt ends with the begin of reasoning, and white space.
bool reasoning_is_open(const ReplyStyle& style, std::string_view prompt);

struct ReplyPart {
  enum class Kind : uint8_t { kContent, kReasoning, kToolCall } kind = Kind::kContent;
  // Content and reasoning: an increment. Tool call: one complete compact JSON object {"name": string, "arguments": object}, with
  // "id": string where the model gave one.
  std::string text;
};

// Increments of a streamed answer in, parts out; adjacent increments of one kind are one text, the same however the answer was split.
// * Bytes are held back as long as they may still become a marker or a call, and not longer.
// * A call that is malformed, unfinished at the end, or longer than kReplyCallBytesMax is content, verbatim. The JSON must be strict
//   (RFC 8259, no integers beyond 64 bits, kJsonDepthMax); Python calls take literals as keyword arguments, nothing positional.
//   A call is given out once its payload is whole; its end marker may be missing. A control token within a payload ends it unfinished.
// * An argument in tags has no type: one that reads as JSON but no string is that, else it is text. The tool's schema may know better.
// * White space next to a marker belongs to the marker. Where no marker is, it is content.
// * Two texts of one kind with nothing but markers between them have a newline between them.
// * A reasoning end without its begin is dropped when nothing but white space came before it, and is content else.
// * Markers within reasoning are reasoning.
// Linear in the text. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyStyle style);
  ~ReplyParser();
  ReplyParser(const ReplyParser& other);  // goes on from the state of `other`
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  // Appends to `out`. `control`: the bytes are the spelling of one control token; it is a marker of the style or dropped, never shown.
  // Otherwise any bytes; where pushes are whole code points, so are parts.
  void push(std::string_view text, bool control, std::vector<ReplyPart>* out);
  // The end of the answer: the bytes held back come out. The parser is then as new.
  void finish(std::vector<ReplyPart>* out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrt
