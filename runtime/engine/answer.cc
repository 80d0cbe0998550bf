// Engine: what an answer has to be (its grammar) and what it is made of (its parts).
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/engine/loop/engine.h"

namespace kvrt {

namespace {
constexpr std::pair<ReplyKind, ReplyFormat> kNamedFormats[] = {
    {ReplyKind::kPlain, ReplyFormat::kPlain},   {ReplyKind::kHermes, ReplyFormat::kHermes},
    {ReplyKind::kLlama3, ReplyFormat::kLlama3}, {ReplyKind::kMistral, ReplyFormat::kMistral},
    {ReplyKind::kGemma, ReplyFormat::kGemma},   {ReplyKind::kDeepSeek, ReplyFormat::kDeepSeek},
};
}

// Compiled once for all generations that use it: agents send the same schema with every call.
Result<std::shared_ptr<const Grammar>> Engine::compiled(GrammarKind kind, const std::string& source) {
  std::lock_guard lock(grammar_mu_);
  auto found = std::find_if(grammars_.begin(), grammars_.end(), [&](const auto& g) { return g.kind == kind && g.source == source; });
  if (found == grammars_.end()) {
    if (!grammar_vocab_) grammar_vocab_ = GrammarVocab::make(*tokenizer_);
    KVRT_ASSIGN(auto grammar, kind == GrammarKind::kGbnf ? Grammar::from_gbnf(source) : Grammar::from_json_schema(source));
    if (grammars_.size() == kGrammarsKept) grammars_.erase(grammars_.begin());
    grammars_.push_back({kind, source, std::move(grammar)});
  } else {
    std::rotate(found, found + 1, grammars_.end());  // the last used at the end
  }
  return grammars_.back().grammar;
}

// Where a generation with these options stands in its grammar before its first token; null without one. The session is the caller's alone.
Result<std::unique_ptr<GrammarMatcher>> Engine::matcher_for(const Session& session, const GenerateOptions& options) {
  std::unique_ptr<GrammarMatcher> matcher;
  if (options.grammar_kind == GrammarKind::kNone) return matcher;
  const bool goes_on = options.grammar_kind == GrammarKind::kContinue;
  const AnswerGrammar& last = session.grammar;
  if (goes_on && last.kind == GrammarKind::kNone) {
    return error(Code::kInvalid, Detail::kState,
                 "grammar_kind is CONTINUE, the session's last generation had no grammar or was truncated away");
  }
  KVRT_ASSIGN(auto grammar, goes_on ? compiled(last.kind, last.source) : compiled(options.grammar_kind, options.grammar));
  matcher = std::make_unique<GrammarMatcher>(std::move(grammar), grammar_vocab_);
  for (uint64_t i = last.begin; goes_on && i < session.tokens.size(); ++i) {
    if (tokenizer_->is_end(session.tokens[i])) {
      return error(Code::kInvalid, Detail::kState, "grammar_kind is CONTINUE, the answer came to its end at token %llu",
                   static_cast<unsigned long long>(i));
    }
    if (!matcher->accept(session.tokens[i])) {
      return error(Code::kInvalid, Detail::kState,
                   "grammar_kind is CONTINUE, token %llu does not fit the grammar of the answer from token %llu on",
                   static_cast<unsigned long long>(i), static_cast<unsigned long long>(last.begin));
    }
  }
  return matcher;
}

// The style in which this session's answers are written, by option or template.
ReplyStyle Engine::reply_style(const Session& session, ReplyKind kind) const {
  ReplyStyle style = reply_style_;
  for (auto [named, format] : kNamedFormats) {
    if (kind == named) style.format = format;
  }
  // What a model without tools says in JSON is its answer.
  if (session.arguments.tools.empty() && kind == ReplyKind::kAuto && style.format != ReplyFormat::kHarmony)
    style.format = ReplyFormat::kPlain;
  const uint64_t n = session.tokens.size(), from = n - std::min<uint64_t>(n, kReasoningLookBack);
  style.reasoning_open = reasoning_is_open(style, tokenizer_->decode(std::span(session.tokens).subspan(from), true));
  return style;
}

void add_part(std::vector<ReplyPart>* parts, ReplyPart part) {
  if (part.kind != ReplyPart::Kind::kToolCall && !parts->empty() && parts->back().kind == part.kind) {
    parts->back().text += part.text;
  } else {
    parts->push_back(std::move(part));
  }
}

// Takes on more of the answer: the text that came out with a token, and the token itself where it is a control token.
void Scheduler::push_parts(Session* s, std::string_view text, std::string_view control, bool last) {
  Generation& g = *s->generation;
  if (!g.parser) return;
  std::vector<ReplyPart> parts;
  if (!text.empty()) g.parser->push(text, false, &parts);
  if (!control.empty()) g.parser->push(control, true, &parts);
  if (last) g.parser->finish(&parts);
  for (ReplyPart& part : parts) {
    Event event;
    event.type = part.kind == ReplyPart::Kind::kContent     ? EventType::kContent
                 : part.kind == ReplyPart::Kind::kReasoning ? EventType::kReasoning
                                                            : EventType::kToolCall;
    event.text = part.text;
    push(s, std::move(event));
    add_part(&g.parts, std::move(part));
  }
}

}  // namespace kvrt
