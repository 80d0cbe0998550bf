#include "runtime/text/reply/syntax.h"

#include <algorithm>

namespace kvrt {

namespace reply {

namespace {

using S = CallSyntax;

constexpr CallSyntax kSyntaxes[] = {
    {ReplyFormat::kHermes, "<tool_call>", {"%s"}, {"</tool_call>"}, S::kRepeats},
    {ReplyFormat::kTags, "<tool_call>", {"%s<function=%n>%s", "%s%n%s"}, {"</tool_call>"}, S::kTags},
    {ReplyFormat::kTags, "<function=", {"%n>%s"}, {"</tool_call>"}, S::kTags},
    {ReplyFormat::kLlama3, "", {"%s"}, {}, S::kPython | S::kStrict | S::kRepeats},
    {ReplyFormat::kLlama3, "<|python_tag|>", {"%s"}, {}, S::kPython | S::kRepeats},
    {ReplyFormat::kLlama3, "<|python_start|>", {"%s"}, {"<|python_end|>"}, S::kPython | S::kRepeats},  // Llama 4
    {ReplyFormat::kLlama3, "<function=", {"%n>%s"}, {"</function>"}},
    {ReplyFormat::kMistral, "[TOOL_CALLS]", {"%s", "%s%n%s", "%s%n[ARGS]%s", "%s%n[CALL_ID](%i)[ARGS]%s"}, {}},
    {ReplyFormat::kGemma, "", {"%s"}, {}, S::kPython | S::kStrict | S::kRepeats},
    {ReplyFormat::kGemma, "```json", {"%s"}, {"```"}, S::kStrict | S::kRepeats},
    {ReplyFormat::kGemma, "```tool_code", {"%s"}, {"```"}, S::kPython | S::kRepeats},
    {ReplyFormat::kDeepSeek, "<｜tool▁calls▁begin｜>", {}, {}},
    {ReplyFormat::kDeepSeek,
     "<｜tool▁call▁begin｜>",
     {"%sfunction<｜tool▁sep｜>%n%s```json%s", "%s%n<｜tool▁sep｜>%s"},
     {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"}},
    {ReplyFormat::kKimi, "<|tool_calls_section_begin|>", {}, {}},
    {ReplyFormat::kKimi,
     "<|tool_call_begin|>",
     {"%s(functions.%n:%d)%s<|tool_call_argument_begin|>%s"},
     {"<|tool_call_end|>", "<|tool_calls_section_end|>"}},
    {ReplyFormat::kCommandR, "Action:", {"%s```json%s"}, {"```"}},
    {ReplyFormat::kCommandR7b, "<|START_ACTION|>", {"%s"}, {"<|END_ACTION|>"}},
    {ReplyFormat::kGranite, "<|tool_call|>", {"%s"}, {"<|/tool_call|>"}, S::kRepeats},
    {ReplyFormat::kFunctionTag, "<function=", {"%n>%s"}, {"</function>"}},
};

}  // namespace

std::span<const CallSyntax> syntaxes() { return kSyntaxes; }

void HeadReader::reset(const CallSyntax& syntax) {
  for (size_t i = 0; i < tracks_.size(); ++i) {
    tracks_[i] = {};
    tracks_[i].pattern = syntax.heads[i];
    tracks_[i].alive = !syntax.heads[i].empty();
  }
}

bool HeadReader::feed(char c) {
  bool any = false;
  for (Track& track : tracks_) any |= track.alive && (track.alive = advance(&track, c));
  return any;
}

bool HeadReader::advance(Track* track, char c) {
  for (;;) {
    if (track->pattern.empty()) return false;
    char op = track->pattern[0];
    if (op == '(' || op == ')') {
      track->in_id = op == '(';
      track->pattern.remove_prefix(1);
      continue;
    }
    if (op != '%') {
      if (c != op) return false;
      track->pattern.remove_prefix(1);
      break;
    }
    char kind = track->pattern[1];
    if (kind == 's' ? is_space(c) : kind == 'd' ? is_digit(c) : is_name(c)) {
      ++track->run;
      if (kind == 'n') track->head.name.push_back(c);
      break;
    }
    if (track->run == 0 && kind != 's') return false;
    track->run = 0;
    track->pattern.remove_prefix(2);
  }
  if (track->in_id) track->head.id.push_back(c);
  return true;
}

bool HeadReader::done(const Track& track) {
  std::string_view left = track.pattern;
  if (left.size() >= 2 && left[0] == '%' && left[1] != 's' && track.run > 0) left.remove_prefix(2);
  return left.empty() || left == "%s";
}

const HeadReader::Head* HeadReader::complete() const {
  for (const Track& track : tracks_)
    if (track.alive && done(track)) return &track.head;
  return nullptr;
}

HarmonyHeader read_harmony_header(std::string_view header) {
  constexpr std::string_view kSpace = " \t\r\n", kFunctions = "functions.";
  HarmonyHeader read;
  for (size_t at = 0, end; (at = header.find_first_not_of(kSpace, at)) != std::string_view::npos; at = end) {
    end = std::min(header.find_first_of(kSpace, at), header.size());
    std::string_view word = header.substr(at, end - at);
    if (word.starts_with("to=")) read.recipient = word.substr(3);
    if (word.starts_with(kHarmonyChannel.substr(1))) read.reasoning = word == "channel=analysis";
  }
  if (read.recipient.starts_with(kFunctions)) read.recipient.erase(0, kFunctions.size());
  return read;
}

}  // namespace reply

namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

struct Sign {
  ReplyFormat format;
  std::string_view first, second;  // both stand in the template
};

// The first row that fits.
constexpr Sign kSigns[] = {
    {ReplyFormat::kHarmony, "<|channel|>", "<|message|>"},
    {ReplyFormat::kDeepSeek, "<｜tool▁calls▁begin｜>", ""},
    {ReplyFormat::kKimi, "<|tool_calls_section_begin|>", ""},
    {ReplyFormat::kMistral, "[TOOL_CALLS]", ""},
    {ReplyFormat::kCommandR7b, "<|START_ACTION|>", ""},
    {ReplyFormat::kCommandR, "Action:", "tool_name"},
    {ReplyFormat::kGranite, "<|tool_call|>", ""},
    {ReplyFormat::kGranite, "<|tool|>", "<|/tool|>"},  // Phi-4 mini: its template shows the tools, not the calls
    {ReplyFormat::kTags, "<parameter=", ""},
    {ReplyFormat::kTags, "<arg_key>", ""},
    {ReplyFormat::kHermes, "<tool_call>", ""},
    {ReplyFormat::kLlama3, "<|python_tag|>", ""},
    {ReplyFormat::kLlama3, "<|python_start|>", ""},
    {ReplyFormat::kLlama3, "<|start_header_id|>", "parameters"},
    {ReplyFormat::kFunctionTag, "<function=", ""},
    {ReplyFormat::kGemma, "<start_of_turn>", ""},
};

constexpr std::string_view kReasoning[][2] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<seed:think>", "</seed:think>"},
};

}  // namespace

ReplyStyle detect_reply_style(std::string_view chat_template) {
  ReplyStyle style;
  for (const Sign& sign : kSigns) {
    if (!has(chat_template, sign.first) || !has(chat_template, sign.second)) continue;
    style.format = sign.format;
    break;
  }
  if (style.format == ReplyFormat::kHarmony) return style;
  for (const auto& [begin, end] : kReasoning) {
    size_t opened = chat_template.rfind(begin), closed = chat_template.rfind(end);
    if (opened == std::string_view::npos && closed == std::string_view::npos) continue;
    style.reasoning_begin = begin;
    style.reasoning_end = end;
    // The generation prompt is the last text that a template writes; reasoning that it opens and does not close is left to the answer.
    size_t prompt = chat_template.rfind("add_generation_prompt");
    style.reasoning_open = opened != std::string_view::npos && prompt != std::string_view::npos && opened > prompt &&
                           (closed == std::string_view::npos || closed < opened);
    break;
  }
  return style;
}

bool reasoning_is_open(const ReplyStyle& style, std::string_view prompt) {
  while (!prompt.empty() && reply::is_space(prompt.back())) prompt.remove_suffix(1);
  return !style.reasoning_begin.empty() && prompt.ends_with(style.reasoning_begin);
}

}  // namespace kvrt
