#include "runtime/engine/conversation/answer.h"

#include <algorithm>

#include "runtime/base/limits.h"

namespace kvrt {

namespace {
constexpr std::pair<ReplyKind, ReplyFormat> kNamedFormats[] = {
    {ReplyKind::kPlain, ReplyFormat::kPlain},   {ReplyKind::kHermes, ReplyFormat::kHermes},
    {ReplyKind::kLlama3, ReplyFormat::kLlama3}, {ReplyKind::kMistral, ReplyFormat::kMistral},
    {ReplyKind::kGemma, ReplyFormat::kGemma},   {ReplyKind::kDeepSeek, ReplyFormat::kDeepSeek},
};

// The style of an answer that begins at token `begin`: as `kind` says, else as the model's template shows.
ReplyStyle answer_style(const LoadedModel& model, const Conversation& said, const std::string& tools, ReplyKind kind, uint64_t begin) {
  ReplyStyle style = model.reply_style();
  for (auto [named, format] : kNamedFormats) {
    if (kind != named || style.format == format) continue;
    style.format = format;
    style.family = nullptr;
  }
  // Without tools, JSON that the model writes is its answer, not a call.
  style.calls = !tools.empty() || (kind != ReplyKind::kAuto && kind != ReplyKind::kNone);
  if (!tools.empty()) style.tools = read_reply_tools(tools);
  const uint64_t from = begin - std::min<uint64_t>(begin, kReasoningLookBack);
  style.begin = answer_place(style, model.tokenizer().decode(std::span(said.tokens).subspan(from, begin - from), true));
  return style;
}

// Where the answer goes on, and its parser there: it has the tokens from `begin` on.
std::pair<AnswerPlace, ReplyParser> find_place(const LoadedModel& model, const Conversation& said, const ReplyStyle& style,
                                               uint64_t begin) {
  ReplyParser parser(style);
  if (begin == said.tokens.size()) return {style.begin, std::move(parser)};
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<ReplyPart> parts;
  for (uint64_t i = begin; i < said.tokens.size(); ++i) {
    parts.clear();
    parser.push(tokenizer.piece_after(i ? said.tokens[i - 1] : -1, said.tokens[i], false), false, &parts);
    if (tokenizer.is_control(said.tokens[i])) parser.push(tokenizer.piece(said.tokens[i], true), true, &parts);
  }
  parser.go_on();
  const AnswerPlace place = parser.place();
  return {place, std::move(parser)};
}

}  // namespace

Result<Answer> begin_answer(const LoadedModel& model, GrammarCache* grammars, const std::string& tools, Conversation* said,
                            GenerateOptions* options) {
  Answer answer;
  if (options->prefill_only) return answer;
  const bool continues = options->grammar_kind == GrammarKind::kContinue;
  const auto& messages = said->messages;
  const bool same_turn = !messages.empty() && messages.back().generated && messages.back().end == said->tokens.size();
  const uint64_t begin = continues ? said->grammar.begin : same_turn ? messages.back().begin : said->tokens.size();
  ReplyStyle style = answer_style(model, *said, tools, options->reply, begin);
  const GrammarKind kind = continues ? said->grammar.kind : options->grammar_kind;
  const bool json = kind == GrammarKind::kJsonSchema || kind == GrammarKind::kJsonSchemaOpen;  // a GBNF may write marks itself
  if (json) style.bound = true, style.calls = false;
  auto [place, parser] = find_place(model, *said, style, begin);
  if (options->reply != ReplyKind::kNone) answer.parser.emplace(std::move(parser));
  if (!continues) {
    said->grammar = {options->grammar_kind,
                     std::move(options->grammar),
                     said->tokens.size(),
                     false,
                     place,
                     options->reply,
                     options->tool_choice,
                     std::move(options->tool_name),
                     options->calls_max,
                     options->reasoning_tokens_max};
  } else {
    style = answer_style(model, *said, tools, said->grammar.reply, begin);
  }
  if (!options->ignore_eos) {  // which says that the answer has no end
    KVRT_ASSIGN(answer.guide, grammars->guide(said->grammar, style, tools));
  }
  if (!continues) {
    said->grammar.bound = answer.guide != nullptr;
    if (!said->grammar.bound) said->grammar = {};
  } else if (answer.guide != nullptr) {
    KVRT_TRY(grammars->replay(*said, answer.guide.get()));
  }
  return answer;
}

}  // namespace kvrt
