#include "runtime/engine/conversation/answer_style.h"

#include <algorithm>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr std::pair<ReplyKind, ReplyFormat> kNamedFormats[] = {
    {ReplyKind::kPlain, ReplyFormat::kPlain},   {ReplyKind::kHermes, ReplyFormat::kHermes},
    {ReplyKind::kLlama3, ReplyFormat::kLlama3}, {ReplyKind::kMistral, ReplyFormat::kMistral},
    {ReplyKind::kGemma, ReplyFormat::kGemma},   {ReplyKind::kDeepSeek, ReplyFormat::kDeepSeek},
};
}  // namespace

ReplyStyle answer_style(const LoadedModel& model, const Conversation& said, const std::string& tools, ReplyKind kind) {
  ReplyStyle style = model.reply_style();
  for (auto [named, format] : kNamedFormats) {
    if (kind != named || style.format == format) continue;
    style.format = format;
    style.family = nullptr;
  }
  // Without tools, JSON that the model writes is its answer, not a call.
  style.calls = !tools.empty() || kind != ReplyKind::kAuto;
  if (!tools.empty()) style.tools = read_reply_tools(tools);
  const uint64_t n = said.tokens.size(), from = n - std::min<uint64_t>(n, kReasoningLookBack);
  style.reasoning_open = reasoning_is_open(style, model.tokenizer().decode(std::span(said.tokens).subspan(from), true));
  return style;
}

}  // namespace kvrt
