#include "runtime/engine/conversation/answer.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/text/reply/message.h"

namespace kvrt {

namespace {
constexpr std::pair<ReplyKind, ReplyFormat> kNamedFormats[] = {
    {ReplyKind::kPlain, ReplyFormat::kPlain},   {ReplyKind::kHermes, ReplyFormat::kHermes},
    {ReplyKind::kLlama3, ReplyFormat::kLlama3}, {ReplyKind::kMistral, ReplyFormat::kMistral},
    {ReplyKind::kGemma, ReplyFormat::kGemma},   {ReplyKind::kDeepSeek, ReplyFormat::kDeepSeek},
};

// As `kind` says, else as the model's template shows.
ReplyStyle named_style(const LoadedModel& model, ReplyKind kind) {
  ReplyStyle style = model.reply_style();
  for (auto [named, format] : kNamedFormats) {
    if (kind != named || style.format == format) continue;
    style.format = format;
    style.family = nullptr;
    style.fits = true;
  }
  return style;
}

// `text`: what it adds to the answer; a control token adds itself.
void push_token(const Tokenizer& tokenizer, int32_t token, std::string_view text, ReplyParser* parser, std::vector<ReplyPart>* parts) {
  parser->push(text, false, parts);
  if (tokenizer.is_control(token)) parser->push(tokenizer.piece(token, true), true, parts);
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
    push_token(tokenizer, said.tokens[i], tokenizer.piece_after(i ? said.tokens[i - 1] : -1, said.tokens[i], false), &parser, &parts);
  }
  parser.go_on();
  const AnswerPlace place = parser.place();
  return {place, std::move(parser)};
}

}  // namespace

ReplyStyle answer_style(const LoadedModel& model, std::span<const int32_t> tokens, const std::string& tools, ReplyKind kind,
                        uint64_t begin) {
  ReplyStyle style = named_style(model, kind);
  // Without tools, JSON that the model writes is its answer, not a call.
  style.calls = !tools.empty() || (kind != ReplyKind::kAuto && kind != ReplyKind::kNone);
  if (!tools.empty()) style.tools = read_reply_tools(tools);
  const uint64_t from = begin - std::min<uint64_t>(begin, kReasoningLookBack);
  style.begin = answer_place(style, model.tokenizer().decode(tokens.subspan(from, begin - from), true));
  return style;
}

namespace {

// Where the answer begins: an answer that was cut, and its turn with it, may go on.
uint64_t answer_begin(const Conversation& said, bool continues) {
  const auto& messages = said.messages;
  if (!messages.empty() && messages.back().generated && messages.back().end == said.tokens.size()) return messages.back().begin;
  return continues ? said.grammar.begin : said.tokens.size();
}

// What may be a call, or a mark, in an answer that a grammar binds. A GBNF may write marks itself.
void bind_style(const AnswerGrammar& grammar, ReplyStyle* style) {
  const bool json = grammar.kind == GrammarKind::kJsonSchema || grammar.kind == GrammarKind::kJsonSchemaOpen;
  if (json) style->bound = true;
  if ((json && grammar.choice != ToolChoice::kAuto) || grammar.choice == ToolChoice::kNone) style->calls = false;
  style->unmarked = grammar.kind == GrammarKind::kNone;
}

}  // namespace

Result<Answer> begin_answer(const LoadedModel& model, GrammarCache* grammars, const std::string& tools, Conversation* said,
                            GenerateOptions* options) {
  Answer answer;
  if (options->prefill_only) return answer;
  const bool continues = options->ask.kind == GrammarKind::kContinue;
  const uint64_t begin = answer.begin = answer_begin(*said, continues);
  AnswerGrammar& grammar = said->grammar;
  if (!continues) {
    grammar = {std::move(options->ask)};
    grammar.begin = said->tokens.size();
    grammar.reply = options->reply;
  }
  AnswerRules rules{grammar};
  rules.style = named_style(model, grammar.reply);
  rules.tools = tools;
  const bool binds = !options->ignore_eos && may_bind(rules);  // most answers do not
  if (options->reply != ReplyKind::kNone || binds || !said->messages.empty()) {
    answer.style = answer_style(model, said->tokens, tools, options->reply, begin);
    bind_style(grammar, &answer.style);
  }
  if (options->reply != ReplyKind::kNone || binds) {
    auto [place, parser] = find_place(model, *said, answer.style, begin);
    if (!continues) grammar.place = place;
    if (options->reply != ReplyKind::kNone) answer.parser.emplace(std::move(parser));
  }
  rules.place = grammar.place;
  if (binds) {
    KVRT_ASSIGN(answer.guide, grammars->guide(rules));
  }
  if (continues) {
    KVRT_TRY(grammars->replay(*said, answer.guide.get()));
  } else if (answer.guide) {
    grammar.bound = true;
  } else {
    grammar = {};
  }
  return answer;
}

std::string answer_message(const LoadedModel& model, ReplyStyle style, std::span<const int32_t> tokens, uint64_t begin, size_t bytes_cut) {
  const Tokenizer& tokenizer = model.tokenizer();
  ReplyParser parser(std::move(style));
  Utf8Stream utf8;
  std::string text;
  std::vector<size_t> ends;  // of the text of each token
  for (uint64_t i = begin; i < tokens.size(); ++i) {
    text += utf8.push(tokenizer.piece_after(i ? tokens[i - 1] : -1, tokens[i], false));
    ends.push_back(text.size());
  }
  text += utf8.finish();
  text.resize(text.size() - std::min(text.size(), bytes_cut));
  std::vector<ReplyPart> parts;
  size_t at = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const size_t end = i + 1 == ends.size() ? text.size() : std::min(ends[i], text.size());
    push_token(tokenizer, tokens[begin + i], std::string_view(text).substr(at, end - at), &parser, &parts);
    at = end;
  }
  parser.finish(&parts);
  const auto has = [&](ReplyPart::Kind kind) { return std::ranges::any_of(parts, [&](const ReplyPart& p) { return p.kind == kind; }); };
  const bool calls = model.template_shows_calls() && has(ReplyPart::Kind::kToolCall);
  // Else the template would drop the parts, or takes the text apart by itself.
  const bool apart = calls || (model.template_shows_reasoning() && has(ReplyPart::Kind::kReasoning));
  return assistant_message(text, apart ? parts : std::vector<ReplyPart>());
}

size_t size_of_same(const LoadedModel& model, const std::string& tools, std::span<const int32_t> tokens, const Message& m,
                    std::string_view text) {
  const Tokenizer& tokenizer = model.tokenizer();
  const auto ends = [&](int32_t token) { return tokenizer.is_end(token); };
  const bool once = ends(tokens[m.end - 1]) && std::ranges::none_of(tokens.subspan(m.begin, m.end - 1 - m.begin), ends);
  if (!once) return 0;
  const std::string_view last = tokenizer.piece(tokens[m.end - 1], true);
  const size_t end = text.find(last);
  if (last.empty() || end == text.npos) return 0;
  const std::string_view theirs = text.substr(0, end + last.size());
  std::vector<int32_t> other(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(m.begin));
  if (!tokenizer.encode(theirs, true, &other, m.begin ? tokens[m.begin - 1] : -1, nullptr).is_ok()) return 0;
  const ReplyStyle style = answer_style(model, tokens, tools, ReplyKind::kNone, m.begin);
  const bool same = answer_message(model, style, other, m.begin) == answer_message(model, style, tokens.first(m.end), m.begin);
  return same ? theirs.size() : 0;
}

}  // namespace kvrt
