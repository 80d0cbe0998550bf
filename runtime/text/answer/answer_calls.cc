// The calls of an answer, as the model's family writes them.
#include <algorithm>
#include <set>

#include "runtime/base/json.h"
#include "runtime/base/limits.h"
#include "runtime/text/answer/answer_builder.h"
#include "runtime/text/answer/arguments.h"
#include "runtime/text/grammar/grammar_states.h"
#include "runtime/text/grammar/vocab.h"
#include "runtime/text/reply/literals.h"
#include "runtime/text/reply/pattern.h"
#include "runtime/text/reply/syntax.h"
#include "runtime/text/reply/tools.h"
#include "runtime/text/template/json_values.h"
#include "runtime/text/template/print.h"

namespace kvrt {

namespace {

using jinja::Kind;
using jinja::Value;
using reply::CallSyntax;

std::string_view without_space_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(reply::kWhiteSpace), text.size()));
}
std::string_view without_space_behind(std::string_view text) { return text.substr(0, text.find_last_not_of(reply::kWhiteSpace) + 1); }

// The longest mark of calls that the text begins with; null: none.
const CallSyntax* begins_by(ReplyFormat format, std::string_view text) {
  const CallSyntax* found = nullptr;
  for (const CallSyntax& syntax : reply::syntaxes()) {
    const bool mark = syntax.format == format && !(syntax.flags & CallSyntax::kFrame) && !syntax.begin.empty();
    if (mark && text.starts_with(syntax.begin) && (found == nullptr || syntax.begin.size() > found->begin.size())) found = &syntax;
  }
  return found;
}

// The first place of a row's text that is not literal; kind 0: none is.
struct PatternOp {
  size_t at, size;
  char kind;  // d, D, i, s
};
PatternOp next_op(std::string_view text) {
  for (size_t at = 0, end; at < text.size(); at = std::max(end, at + 1)) {
    for (end = at; end < text.size() && reply::is_space(text[end]);) ++end;
    const std::string_view space = text.substr(at, end - at);
    if (space.find('\n') != space.npos || (!space.empty() && at > 0 && std::string_view(",:;[{").find(text[at - 1]) != space.npos))
      return {at, space.size(), 's'};
    if (text[at] == '%' && at + 1 < text.size() && std::string_view("dDis").find(text[at + 1]) != space.npos) return {at, 2, text[at + 1]};
  }
  return {text.size(), 0, 0};
}

// May a text of the grammar begin so? A space stands for white space of any kind, or none.
bool may_begin(GrammarStates* states, std::string_view text) {
  constexpr size_t kStatesMax = 256;
  std::set<GrammarStates::State> at{states->begin()};
  const auto step = [&](const std::set<GrammarStates::State>& from, std::string_view bytes) {
    std::set<GrammarStates::State> next;
    for (GrammarStates::State one : from) {
      for (char c : bytes) {
        const GrammarStates::State to = states->step(one, static_cast<uint8_t>(c));
        if (!states->dead(to)) next.insert(to);
      }
    }
    return next;
  };
  for (char c : text) {
    if (c != ' ') {
      at = step(at, {&c, 1});
      continue;
    }
    for (size_t before = 0; before != at.size() && at.size() < kStatesMax;) {
      before = at.size();
      at.merge(step(at, reply::kWhiteSpace));
    }
  }
  return !at.empty();
}

Status not_tools(const std::string& what) { return error(Code::kInvalid, Detail::kNone, "tools: %.200s", what.c_str()); }

const reply::WrittenCalls* written_calls(const ReplyStyle& style) {
  if (style.family != nullptr) return &style.family->written;
  const reply::WrittenCalls* found = nullptr;  // the last of a format is the common one
  for (const reply::Family& family : reply::families()) {
    if (family.format == style.format) found = &family.written;
  }
  return found;
}

}  // namespace

bool may_bind(const AnswerRules& rules) {
  if (rules.kind != GrammarKind::kNone || rules.choice != ToolChoice::kDefault || rules.reasoning_tokens_max > 0) return true;
  return !rules.tools.empty() && rules.style.fits && written_calls(rules.style) != nullptr;
}

Result<std::vector<BoundTool>> bound_tools(std::string_view json) {
  jinja::Arena arena(kTemplateHeapBytesMax);
  KVRT_ASSIGN(const Value tools, jinja::parse_json(json, "tools", &arena));
  if (!tools.is(Kind::kList)) return not_tools("not a list");
  std::vector<BoundTool> out;
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < tools.list->size; ++i) {
    const auto [name, parameters] = reply::function_of(tools.list->data[i]);
    if (name == nullptr || name->str().empty()) return not_tools("item " + std::to_string(i) + " has no name");
    std::string shown;
    append_json_string(name->str(), &shown);
    if (!std::ranges::all_of(name->str(), reply::is_name)) {
      return error(Code::kUnsupported, Detail::kNone, "tools: the name %.200s has other characters than letters, digits and _-./",
                   shown.c_str());
    }
    if (!names.insert(name->str()).second) return not_tools("two have the name " + shown);
    jinja::TextBuilder schema(&arena);
    if (parameters != nullptr && !parameters->is(Kind::kNone) && (!jinja::append_json(*parameters, {}, &schema) || arena.full()))
      return not_tools("parameters of " + std::string(name->str()) + " are no JSON schema");
    out.push_back({std::string(name->str()), std::string(schema.view())});
  }
  return out;
}

bool AnswerBuilder::is_mark(const CallSyntax& syntax) const {
  return syntax.format == rules_.style.format && !syntax.begin.empty() && !(syntax.flags & (CallSyntax::kFrame | CallSyntax::kFence));
}

bool AnswerBuilder::must_call() const { return rules_.choice == ToolChoice::kRequired || rules_.choice == ToolChoice::kNamed; }

// That of the family's calls without a mark; null: they have marks.
const CallSyntax* AnswerBuilder::bare_syntax() const {
  const CallSyntax* bare = nullptr;
  for (const CallSyntax& syntax : reply::syntaxes()) {
    if (syntax.format == rules_.style.format && syntax.begin.empty()) bare = &syntax;
  }
  return bare;
}

Status AnswerBuilder::add_tools() {
  calls_matter_ = rules_.choice == ToolChoice::kNone || !rules_.tools.empty();
  const bool by_default = rules_.choice == ToolChoice::kDefault;
  if (by_default && !rules_.style.fits) calls_matter_ = false;
  const bool bound_alone = rules_.kind != GrammarKind::kNone && rules_.choice != ToolChoice::kAuto;
  if (bound_alone || rules_.choice == ToolChoice::kNone || (by_default && !calls_matter_)) return {};
  if (rules_.tools.empty()) return error(Code::kInvalid, Detail::kNone, "tool_choice: the session has no tools");
  const reply::WrittenCalls* written = written_calls(rules_.style);
  if (written == nullptr) {
    return error(Code::kUnsupported, Detail::kNone,
                 "tool_choice: neither this model's chat template nor `reply` says how it calls tools. Templates say it of Qwen 2.5 and 3, "
                 "Llama 3, Mistral, DeepSeek V3, gpt-oss, Granite, LFM2, Gemma 4 and others; where a model's file has none that does, "
                 "`reply` may be HERMES, LLAMA3, MISTRAL, GEMMA or DEEPSEEK");
  }
  KVRT_ASSIGN(const std::vector<BoundTool> tools, bound_tools(rules_.tools));
  if (rules_.kind == GrammarKind::kNone && rules_.place != AnswerPlace::kContent && !must_call()) bare_ = bare_syntax();
  for (const BoundTool& tool : tools) {
    if (rules_.choice != ToolChoice::kNamed || tool.name == rules_.tool_name) KVRT_TRY(add_tool(*written, tool));
  }
  if (tools_.empty()) return error(Code::kInvalid, Detail::kNone, "tool_choice: the session has no tool %.200s", rules_.tool_name.c_str());
  written_ = written;
  first_ = begins_by(rules_.style.format, std::string(written->begin) + std::string(written->call));
  if (first_ != nullptr) mark_ = first_->begin;
  return {};
}

Status AnswerBuilder::add_tool(const reply::WrittenCalls& written, const BoundTool& tool) {
  if (written.arguments == reply::WrittenCalls::Arguments::kPython && !reply::begins_word(tool.name[0])) {
    return error(Code::kUnsupported, Detail::kNone,
                 "tools: the name %.200s does not begin with a letter or _, as names in this model's calls do", tool.name.c_str());
  }
  KVRT_ASSIGN(const uint32_t arguments, arguments_rule(written, tool));
  using Form = reply::WrittenCalls::Arguments;
  // Of calls without their mark, as far as there is room and the form can write them. kNone: a text that begins so does not come.
  const auto rule = [&](Form form) {
    if (form == written.arguments || bare_ == nullptr) return arguments;
    reply::WrittenCalls calls{};
    calls.arguments = form;
    auto made = builder_.nodes() < kGrammarStatesMax / 4 ? arguments_rule(calls, tool) : Result<uint32_t>(kNone);
    return made.is_ok() ? *made : kNone;
  };
  const uint32_t json = rule(Form::kJson), python = may_be_word(tool.name) ? rule(Form::kPython) : kNone;
  tools_.push_back({tool.name, arguments, json, python});
  return {};
}

bool AnswerBuilder::may_be_word(std::string_view name) const {
  if (bare_ == nullptr || !(bare_->flags & reply::CallSyntax::kPython) || !reply::begins_word(name[0])) return false;
  return !(bare_->flags & reply::CallSyntax::kBuiltins &&
           name.ends_with(".call"));  // the reader takes that for a call of what stands before it
}

Result<uint32_t> AnswerBuilder::arguments_rule(const reply::WrittenCalls& written, const BoundTool& tool) {
  auto arguments = add_arguments(written, tool.parameters, vocab_, &builder_);
  if (!arguments.is_ok() && rules_.choice == ToolChoice::kDefault) {
    arguments = add_arguments(written, loose_parameters(tool.parameters), vocab_, &builder_);
    if (!arguments.is_ok()) arguments = add_arguments(written, R"({"type":"object"})", vocab_, &builder_);
  }
  if (!arguments.is_ok()) return arguments.take_status().annotate("tool " + tool.name);
  return arguments;
}

// Where calls begin without a mark, nobody could tell one from content that is the same text.
Status AnswerBuilder::check_content_is_no_call() const {
  if (rules_.kind == GrammarKind::kNone || written_ == nullptr) return {};
  if (!(written_->begin.empty() ? written_->call : written_->begin).starts_with('{')) return {};
  const SchemaMembers members = rules_.kind == GrammarKind::kJsonSchemaOpen ? SchemaMembers::kOpen : SchemaMembers::kClosed;
  KVRT_ASSIGN(const auto content, rules_.kind == GrammarKind::kGbnf ? Grammar::from_gbnf(rules_.source, &vocab_)
                                                                    : Grammar::from_json_schema(rules_.source, members));
  GrammarStates states(content->automaton());
  for (const Tool& tool : tools_) {
    for (const std::string& begin : {std::string("{ \"name\": \"" + tool.name + "\", \"parameters\":"),
                                     std::string("{ \"name\": \"" + tool.name + "\", \"arguments\":"), std::string(tool.name + "(")}) {
      const bool object = begin[0] == '{';
      if (!(object && may_begin(&states, begin)) && !((object || reply::begins_word(tool.name[0])) && may_begin(&states, "[ " + begin)))
        continue;
      return error(Code::kUnsupported, Detail::kNone,
                   "tool_choice is AUTO beside a grammar that a call of %.200s fits: this model's calls have no mark that would tell it "
                   "from content",
                   tool.name.c_str());
    }
  }
  return {};
}

// What may stand for white space in the frame of a call.
AnswerBuilder::Part AnswerBuilder::frame_space() {
  constexpr uint32_t kIndentMax = 40;
  if (frame_space_ == kNone) {
    frame_space_ = builder_.add_rule("white space in a call");
    const Part breaks = builder_.repeat(builder_.literal("\n"), 1, 2);
    const Part ways[] = {builder_.sequence(breaks, builder_.repeat(builder_.literal(" "), 0, kIndentMax)), builder_.literal(" "),
                         builder_.empty()};
    builder_.define(frame_space_, builder_.choice(ways));
  }
  return builder_.call(frame_space_);
}

// What stands around a call. A number is any: models count the calls of the whole conversation.
AnswerBuilder::Part AnswerBuilder::pattern(std::string_view pattern) {
  constexpr uint32_t kIdLetters = 9, kDigits = 6;
  Part part = builder_.empty();
  while (!pattern.empty()) {
    const PatternOp op = next_op(pattern);
    part = builder_.sequence(part, text_.mark(pattern.substr(0, op.at)));
    if (op.kind == 's') part = builder_.sequence(part, frame_space());
    if (op.kind == 'd' || op.kind == 'D') part = builder_.sequence(part, builder_.repeat(builder_.bytes('0', '9'), 1, kDigits));
    for (uint32_t i = 0; op.kind == 'i' && i < kIdLetters; ++i) {
      const Part one[] = {builder_.bytes('0', '9'), builder_.bytes('A', 'Z'), builder_.bytes('a', 'z')};
      part = builder_.sequence(part, builder_.choice(one));
    }
    pattern.remove_prefix(op.at + op.size);
  }
  return part;
}

// What stands before a call's name.
AnswerBuilder::Node AnswerBuilder::begun(std::string_view text, Node to) {
  const CallSyntax* mark = begins_by(rules_.style.format, text);
  return mark == nullptr ? then(pattern(text), to) : then(mark->begin, behind_mark(*mark, text.substr(mark->begin.size()), to));
}

// White space behind a mark is any where its reader skips it: it announces another mark, or its head begins so.
AnswerBuilder::Node AnswerBuilder::behind_mark(const CallSyntax& mark, std::string_view text, Node to) {
  const auto skips = [](std::string_view head) { return head.starts_with("%s") || head.starts_with('\n'); };
  if (!mark.heads[0].empty() && std::ranges::none_of(mark.heads, skips)) return begun(text, to);
  return spaced(begun(without_space_before(text), to));
}

// What follows a call's name, to its end. White space behind it is behind_call()'s.
AnswerBuilder::Part AnswerBuilder::call_from_name(const Tool& tool) {
  Part call = pattern(written_->named);
  call = builder_.sequence(call, builder_.call(tool.arguments));
  return builder_.sequence(call, pattern(without_space_behind(written_->end)));
}

uint32_t AnswerBuilder::call_rule() {
  const uint32_t rule = builder_.add_rule("a call");
  std::vector<Part> ways;
  for (const Tool& tool : tools_) {
    const Part name = builder_.literal(tool.name);
    ways.push_back(builder_.sequence(name, call_from_name(tool)));
  }
  builder_.define(rule, builder_.choice(ways));
  return rule;
}

// The end of the calls and of the turn, or the next call. White space leads to any of them: one that led to a call alone would make a model
// that has done with calls go on with them.
AnswerBuilder::Node AnswerBuilder::behind_call(Node next) {
  const std::string_view close = without_space_before(written_->close);
  const Node last = written_->may_follow.empty() ? end_ : either({end_, then(written_->may_follow, spaced(end_))});
  const Node end = close.empty() ? last : then(pattern(close), spaced(last));
  const bool parts = written_->call.empty() && without_space_before(written_->between).empty();  // white space alone parts two calls
  return parts ? either({spaced(end), bytes_to(reply::kWhiteSpace, spaced(either({end, next})))}) : spaced(either({end, next}));
}

// Where the first call goes on behind its mark.
AnswerBuilder::Node AnswerBuilder::first_call() {
  const reply::WrittenCalls& w = *written_;
  const std::string first = std::string(w.begin) + std::string(w.call);
  const std::string next = std::string(without_space_before(w.between)) + std::string(w.call);
  const uint32_t one = call_rule();
  Node call = builder_.join();
  behind_first_ = behind_call(rules_.calls_max == 0 ? begun(next, call) : kNone);
  builder_.link(call, then(builder_.call(one), behind_first_));
  for (uint32_t i = std::min(rules_.calls_max, kCallsMax); i > 1; --i) {
    behind_first_ = behind_call(begun(next, call));
    call = then(builder_.call(one), behind_first_);
  }
  return first_ == nullptr ? begun(first, call) : behind_mark(*first_, first.substr(mark_.size()), call);
}

}  // namespace kvrt
