#include "runtime/text/answer/answer_builder.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/grammar_states.h"
#include "runtime/text/grammar/json_schema.h"
#include "runtime/text/reply/pattern.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt {

using reply::CallSyntax;

namespace {

// Has the grammar the mark itself at its begin? Then the application writes of reasoning what it wants.
Result<bool> begins_with(const AnswerRules& rules, std::string_view mark, const GrammarVocab& vocab) {
  if (rules.kind != GrammarKind::kGbnf) return false;
  KVRT_ASSIGN(const auto grammar, Grammar::from_gbnf(rules.source, &vocab));
  GrammarStates states(grammar->automaton());
  GrammarStates::State at = states.begin();
  const int32_t token = vocab.find(mark);
  if (token >= 0 && !states.dead(states.step_token(at, GrammarStates::kDead, token, true))) return true;
  for (size_t i = 0; i < mark.size() && !states.dead(at); ++i) at = states.step(at, static_cast<uint8_t>(mark[i]));
  return !states.dead(at);
}

}  // namespace

AnswerBuilder::AnswerBuilder(const AnswerRules& rules, const GrammarVocab& vocab)
    : rules_(rules),
      vocab_(vocab),
      builder_(rules.kind == GrammarKind::kNone   ? "tools"
               : rules.kind == GrammarKind::kGbnf ? "grammar"
                                                  : "schema"),
      text_(vocab, &builder_) {
  builder_.add_rule("an answer");  // the root is rule 0
  end_ = builder_.join();
  auto of_format = [&](int flag) {
    return [this, flag](const CallSyntax& s) { return s.format == rules_.style.format && s.flags & flag; };
  };
  const auto all = reply::syntaxes();
  const auto prompted = std::ranges::find_if(all, of_format(CallSyntax::kPrompted));
  if (prompted == all.end()) return;
  prompted_ = prompted->begin;
  opening_ = std::ranges::find_if(all, of_format(CallSyntax::kFrame))->begin.substr(prompted_.size());
}

AnswerBuilder::Node AnswerBuilder::then(Part part, Node to) {
  builder_.link(part.out, to);
  return part.in;
}

AnswerBuilder::Node AnswerBuilder::either(std::initializer_list<Node> nodes) {
  std::vector<Node> ways;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(ways), [](Node node) { return node != kNone; });
  const Node join = builder_.join();
  builder_.link(join, ways);
  return join;
}

// A rule of its own: few states read it, however many places have it.
AnswerBuilder::Node AnswerBuilder::spaced(Node node) {
  if (!space_) {
    space_ = builder_.add_rule("white space");
    std::vector<Part> ways;
    for (char c : reply::kWhiteSpace) ways.push_back(builder_.literal({&c, 1}));
    builder_.define(*space_, builder_.repeat(builder_.choice(ways), 0, kMarkSpaceMax));
  }
  return then(builder_.call(*space_), node);
}

// Of free content.
std::vector<FreeText::Exit> AnswerBuilder::exits() const {
  std::vector<FreeText::Exit> out;
  if (!rules_.style.reasoning_begin.empty()) out.push_back({rules_.style.reasoning_begin});
  for (const CallSyntax& syntax : reply::syntaxes()) {
    if (!is_mark(syntax) || !calls_matter_) continue;
    out.push_back({syntax.begin, written_ != nullptr && syntax.begin == mark_ ? calls_ : kNone});
  }
  return out;
}

AnswerBuilder::Node AnswerBuilder::free_content() {
  const bool begins = rules_.place != AnswerPlace::kContent;
  FreeText::Text text = text_.text(exits(), end_, true);
  return !begins ? text.begin() : bare_ != nullptr ? bare_text(&text) : then(opening_, text.begin());
}

// With the marks that a family may have around content: white space is the marks', and none where they do not come. Behind content only
// control tokens are marks.
AnswerBuilder::Node AnswerBuilder::framed(Node node) {
  const Node join = builder_.join();
  std::vector<Node> ways{node};
  for (const CallSyntax& syntax : reply::syntaxes()) {
    const bool frame = syntax.format == rules_.style.format && syntax.flags & CallSyntax::kFrame && prompted_.empty();
    if (frame && (node != end_ || text_.begins_with_token(syntax.begin))) ways.push_back(spaced(then(syntax.begin, spaced(node))));
  }
  builder_.link(join, ways);
  return join;
}

// Content by the application's grammar.
Result<AnswerBuilder::Node> AnswerBuilder::bound_content() {
  const SchemaMembers members = rules_.kind == GrammarKind::kJsonSchemaOpen ? SchemaMembers::kOpen : SchemaMembers::kClosed;
  KVRT_ASSIGN(const uint32_t rule, rules_.kind == GrammarKind::kGbnf ? add_gbnf(rules_.source, &vocab_, &builder_)
                                                                     : add_json_schema(rules_.source, members, &builder_));
  if (rules_.place == AnswerPlace::kContent) return then(builder_.call(rule), end_);
  return then(opening_, framed(then(builder_.call(rule), framed(end_))));
}

Result<AnswerBuilder::Node> AnswerBuilder::answer() {
  const bool begins = rules_.place != AnswerPlace::kContent;
  if (written_ != nullptr) calls_ = first_call();
  Node content = kNone;
  if (rules_.kind != GrammarKind::kNone) {
    KVRT_ASSIGN(content, bound_content());
  } else if (!must_call()) {
    content = free_content();
  }
  const bool unmarked = begins && (mark_.empty() || mark_ == prompted_);  // calls may begin as they are
  const bool beside = rules_.kind != GrammarKind::kNone && begins;        // bound content, of which none is free to become a call
  if (written_ != nullptr && (content == kNone || beside || (unmarked && bare_ == nullptr))) {
    const Node call = unmarked ? calls_ : then(mark_, calls_);
    const Node preceded = written_->may_precede.empty() ? kNone : spaced(then(written_->may_precede, spaced(call)));
    content = either({content, unmarked && !prompted_.empty() ? call : spaced(call), preceded});
  }
  if (rules_.style.reasoning_end.empty() || rules_.place == AnswerPlace::kContent) return content;
  const Node after = spaced(content);
  if (rules_.place == AnswerPlace::kClosed) return after;
  if (rules_.place == AnswerPlace::kReasoning) return reasoning(after);
  KVRT_ASSIGN(const bool itself, begins_with(rules_, rules_.style.reasoning_begin, vocab_));
  return itself ? content : either({content, spaced(then(rules_.style.reasoning_begin, reasoning(after)))});
}

Result<std::unique_ptr<const Automaton>> AnswerBuilder::build() {
  KVRT_TRY(add_tools());
  KVRT_TRY(check_content_is_no_call());
  if (rules_.kind == GrammarKind::kNone && !calls_matter_ && !rules_.reasoning_over) return std::unique_ptr<const Automaton>();
  KVRT_ASSIGN(const Node begin, rules_.style.format == ReplyFormat::kHarmony ? harmony() : answer());
  KVRT_TRY(builder_.status());
  builder_.define(0, {begin, begin, end_});
  return builder_.build();
}

Result<std::shared_ptr<const Grammar>> answer_grammar(const AnswerRules& rules, const GrammarVocab& vocab) {
  auto automaton = AnswerBuilder(rules, vocab).build();
  if (!automaton.is_ok() && rules.kind == GrammarKind::kNone && rules.choice == ToolChoice::kDefault) {  // then nothing is asked for
    AnswerRules without = rules;
    without.tools.clear();
    automaton = AnswerBuilder(without, vocab).build();
  }
  if (!automaton.is_ok()) return automaton.take_status();
  return automaton.value() == nullptr ? std::shared_ptr<const Grammar>() : std::make_shared<const Grammar>(std::move(automaton).value());
}

}  // namespace kvrt
