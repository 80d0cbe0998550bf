// The tool calls of each format as they are read: a table of markers, of heads, which stand between a marker and a call's payload, and of
// payloads. How a family writes its calls: family.h.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "runtime/text/reply/pattern.h"
#include "runtime/text/reply/reply_style.h"
#include "runtime/text/reply/tags.h"

namespace kvrt::reply {

// One way of a format to write calls. The payload is one JSON object or an array of them; where a head gave the name, the object of
// its arguments.
struct CallSyntax {
  ReplyFormat format;
  std::string_view begin;                 // "": the call is bare, at the beginning of an answer or after its calls
  std::array<std::string_view, 4> heads;  // patterns (pattern.h). None: the marker only announces others
  std::array<std::string_view, 3> ends;   // markers that may follow, in any order
  enum Flags : unsigned {
    kNone = 0,
    kPython = 1,        // the payload may be f(k="v") or a list of such
    kStrict = 2,        // it is a call only if the object has no other keys than a call's, and has arguments
    kRepeats = 4,       // another payload may follow without a marker
    kBuiltins = 8,      // f.call(k="v") is a call of f
    kKeyed = 16,        // a call's object has its name as the only key
    kQuoted = 32,       // the arguments' object has its strings between <|"|>, and its keys bare
    kInReasoning = 64,  // the marker ends reasoning, also where no list of tools says what a call's name is
    kFrame = 128,       // it is not a call: the marker stands around content
    kPrompted = 256,    // the prompt has the marker already
    kFence = 512,       // the marker is Markdown's, and one only if a bare call may begin there
    kUnmarked = 1024,   // the call has no mark of its family, so its tool must be known
  };
  unsigned flags = kNone;
  const TagForm* tags = nullptr;  // the payload is arguments in such tags, and their end
};
std::span<const CallSyntax> syntaxes();

inline constexpr std::string_view kQuote = "<|\"|>";   // of kQuoted
inline constexpr std::string_view kFenceMark = "```";  // of kFence; "json" may follow

// After the name of a bare call: {"name": .., and one of these.
std::span<const std::string_view> bare_keys(ReplyFormat format);

// <parameter=k>: Qwen3-Coder, Qwen 3.5, StepFun, Nemotron 3; and Seed-OSS. <arg_key>: GLM, Hunyuan. "DSML": DeepSeek. The others by name.
extern const TagForm kQwenTags, kSeedTags, kGlmTags, kCompactGlmTags, kHunyuanTags, kDsmlTags, kMiniMaxTags, kMiniMax3Tags, kMiniCpmTags,
    kKimi3Tags;

// Harmony: all text stands in messages <|start|>role<|channel|>channel to=recipient <|constrain|>type<|message|>text<|end|>.
inline constexpr std::string_view kHarmonyMessage = "<|message|>";
inline constexpr std::string_view kHarmonyMarkers[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"};

// A header with its <|channel|> as kHarmonyChannel and its other markers as white space.
inline constexpr std::string_view kHarmonyChannel = " channel=";
struct HarmonyHeader {
  std::string recipient;  // a call's; "": the message is no call
  bool function = false;  // it stands in the namespace of functions
  bool reasoning = false;
};
HarmonyHeader read_harmony_header(std::string_view header);

}  // namespace kvrt::reply
