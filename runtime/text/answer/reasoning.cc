// Open reasoning: free text until its end, or until a call begins in it. Behind the mark of one the text stays free as long as it may yet be
// only mentioned, and goes on wherever the reader would take up its marks again; from a tool's name on it is bound.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/text/answer/answer_builder.h"
#include "runtime/text/reply/call_begin.h"
#include "runtime/text/reply/pattern.h"
#include "runtime/text/reply/tools.h"

namespace kvrt {

using reply::CallBegin;
using reply::CallSyntax;

namespace {
constexpr size_t kToolNamesBytesMax = 16'384;  // of all tools: each has some states
}

// Where the text stands behind marks: in each of them, the earlier first, and in the free text that it is if it is no call.
class AnswerBuilder::Mentions {
 public:
  Mentions(AnswerBuilder* answer, CallBegin::Names names) : answer_(*answer), names_(names) {}
  bool takes(const CallSyntax& syntax) const { return answer_.is_mark(syntax) && !syntax.heads[0].empty(); }
  void add_exits(std::vector<FreeText::Exit>* exits);
  void build(const FreeText::Text& text);

 private:
  struct Begun {
    uint32_t syntax;  // of syntaxes_
    CallBegin::Places places;
    auto operator<=>(const Begun&) const = default;
  };
  struct Place {
    std::vector<Begun> begun;
    uint32_t in_text = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Mark {
    const CallSyntax* syntax;
    const CallBegin* begin;
    Node node;                   // behind it
    std::vector<uint32_t> same;  // of each way the first that goes on as it does from the name on
    std::vector<bool> bound;     // by way: as the family writes its calls
  };

  Place begin(uint32_t syntax) const { return {{{syntax, marks_[syntax].begin->begin(names_)}}, 0}; }
  Node node_of(const Place& place);
  Node but(uint32_t in_text, const std::string& bytes);
  void build(const Place& place, Node node);
  bool step(const Place& from, std::string_view bytes, Place* to) const;  // false: a call has begun
  void fold(Begun* begun) const;
  std::vector<bool> bound_ways(const CallSyntax& syntax, const CallBegin& begin) const;
  void add_calls(const Begun& begun, std::vector<Node>* ways);
  Node rest_of_call(std::string_view name);

  AnswerBuilder& answer_;
  CallBegin::Names names_;
  const FreeText::Text* text_ = nullptr;
  std::vector<Mark> marks_;
  std::map<Place, Node> nodes_;
  std::vector<const std::pair<const Place, Node>*> open_;
  std::map<std::pair<uint32_t, std::string>, Node> buts_;
  std::map<std::string_view, Node> rests_;
};

void AnswerBuilder::Mentions::add_exits(std::vector<FreeText::Exit>* exits) {
  for (const CallSyntax& syntax : reply::syntaxes()) {
    if (!takes(syntax)) continue;
    const CallBegin& begin = reply::call_begin(syntax);
    Mark mark{&syntax, &begin, answer_.builder_.join(), {}, bound_ways(syntax, begin)};
    const auto& ways = begin.ways();
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto same = [&](size_t other) {
        return ways[i].after == ways[other].after && mark.bound[i] == mark.bound[other] &&
               ways[i].pattern.substr(ways[i].name_at) == ways[other].pattern.substr(ways[other].name_at);
      };
      size_t first = 0;
      while (!same(first)) ++first;
      mark.same.push_back(static_cast<uint32_t>(first));
    }
    exits->push_back({syntax.begin, mark.node});
    marks_.push_back(std::move(mark));
  }
}

// The ways by which the family's own calls come to their names.
std::vector<bool> AnswerBuilder::Mentions::bound_ways(const CallSyntax& syntax, const CallBegin& begin) const {
  std::vector<bool> bound(begin.ways().size(), false);
  if (answer_.written_ == nullptr) return bound;
  std::string text = std::string(answer_.written_->begin) + std::string(answer_.written_->call);
  const size_t at = text.find(syntax.begin);
  if (at == std::string::npos) return bound;
  text.erase(0, at + syntax.begin.size());
  for (size_t space; (space = text.find("%s")) != std::string::npos;) text.erase(space, 2);
  for (size_t number; (number = text.find('%')) != std::string::npos;) text.replace(number, 2, "0");
  CallBegin::Places places = begin.begin(names_);
  bool named = false;
  for (char c : text) places = begin.step(places, names_, c, &named);
  for (const CallBegin::At& at_end : places) bound[at_end.way] = bound[at_end.way] || begin.at_name(at_end);
  return bound;
}

// Within a name ways that go on alike are one.
void AnswerBuilder::Mentions::fold(Begun* begun) const {
  const Mark& mark = marks_[begun->syntax];
  for (CallBegin::At& at : begun->places) {
    if (at.bytes == 0) continue;
    const uint32_t same = mark.same[at.way];
    at.place += static_cast<uint32_t>(mark.begin->ways()[same].name_at) - static_cast<uint32_t>(mark.begin->ways()[at.way].name_at);
    at.way = same;
  }
  std::sort(begun->places.begin(), begun->places.end());
  begun->places.erase(std::unique(begun->places.begin(), begun->places.end()), begun->places.end());
}

// As the reader goes on: the earliest mark whose call it may be holds the text; what it was is looked at again once it is none.
bool AnswerBuilder::Mentions::step(const Place& from, std::string_view bytes, Place* to) const {
  *to = from;
  for (char c : bytes) {
    Place next;
    for (Begun& begun : to->begun) {
      bool named = false;
      CallBegin::Places places = marks_[begun.syntax].begin->step(begun.places, names_, c, &named);
      if (named && next.begun.empty()) return false;
      if (places.empty()) continue;
      next.begun.push_back({begun.syntax, std::move(places)});
      fold(&next.begun.back());
    }
    next.in_text = text_->step(to->in_text, static_cast<uint8_t>(c));
    const auto mark = std::ranges::find(marks_, text_->exit(next.in_text), &Mark::node);
    if (mark != marks_.end()) next.begun.push_back(begin(static_cast<uint32_t>(mark - marks_.begin())).begun[0]);
    if (text_->whole(next.in_text)) next.in_text = 0;
    *to = std::move(next);
  }
  if (bytes.size() > 1) to->in_text = 0;  // a control token
  return true;
}

AnswerBuilder::Node AnswerBuilder::Mentions::node_of(const Place& place) {
  const auto [at, fresh] = nodes_.try_emplace(place, kNone);
  if (fresh) {
    at->second = answer_.builder_.join();
    open_.push_back(&*at);
  }
  return at->second;
}

AnswerBuilder::Node AnswerBuilder::Mentions::but(uint32_t in_text, const std::string& bytes) {
  const auto [at, fresh] = buts_.try_emplace({in_text, bytes}, kNone);
  if (fresh) at->second = text_->but(in_text, bytes);
  return at->second;
}

void AnswerBuilder::Mentions::build(const FreeText::Text& text) {
  text_ = &text;
  for (uint32_t i = 0; i < marks_.size(); ++i) answer_.builder_.link(marks_[i].node, node_of(begin(i)));
  while (!open_.empty() && answer_.builder_.status().is_ok()) {
    const auto [place, node] = *open_.back();
    open_.pop_back();
    build(place, node);
  }
}

void AnswerBuilder::Mentions::build(const Place& place, Node node) {
  std::string bytes;
  std::vector<Node> ways;
  std::vector<std::string_view> tokens;
  for (const Begun& begun : place.begun) {
    const CallBegin& begin = *marks_[begun.syntax].begin;
    for (char c : begin.next(begun.places, names_))
      if (bytes.find(c) == std::string::npos) bytes.push_back(c);
    add_calls(begun, &ways);
    for (const CallBegin::At& at : begun.places) {
      const std::string_view token = answer_.text_.token_of(std::string_view(begin.ways()[at.way].pattern).substr(at.place));
      if (!token.empty() && std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
    }
  }
  std::sort(bytes.begin(), bytes.end());
  std::map<Node, std::string> to_bytes;
  Place to;
  for (char c : bytes)
    if (step(place, {&c, 1}, &to)) to_bytes[node_of(to)].push_back(c);
  for (const auto& [to_node, some] : to_bytes) ways.push_back(answer_.bytes_to(some, to_node));
  for (std::string_view token : tokens)
    if (step(place, token, &to)) ways.push_back(answer_.then(token, node_of(to)));
  ways.push_back(but(place.in_text, bytes));
  answer_.builder_.link(node, ways);
}

// What follows a name that is whole, where the family writes its calls so.
void AnswerBuilder::Mentions::add_calls(const Begun& begun, std::vector<Node>* ways) {
  for (const CallBegin::At& at : begun.places) {
    const std::string_view name = names_[at.first];
    if (!marks_[begun.syntax].bound[at.way] || at.bytes != name.size()) continue;
    const Node rest = rest_of_call(name);
    if (rest != kNone) ways->push_back(rest);
  }
}

AnswerBuilder::Node AnswerBuilder::Mentions::rest_of_call(std::string_view name) {
  const auto [at, fresh] = rests_.try_emplace(name, kNone);
  const auto tool = std::ranges::find(answer_.tools_, name, &Tool::name);
  if (fresh && tool != answer_.tools_.end()) at->second = answer_.then(answer_.call_from_name(*tool), answer_.behind_first_);
  return at->second;
}

// The marks that end reasoning, and where each leads. `read`: calls are; `tools`: their names are known.
std::vector<FreeText::Exit> AnswerBuilder::reasoning_exits(Node after, bool read, bool mentioned, bool tools) const {
  std::vector<FreeText::Exit> out{{rules_.style.reasoning_end, after}};
  for (const CallSyntax& syntax : reply::syntaxes()) {
    const bool ends_it = syntax.format == rules_.style.format && syntax.flags & CallSyntax::kInReasoning;
    if (ends_it && syntax.flags & CallSyntax::kFrame) out.push_back({syntax.begin, after});
    if (!is_mark(syntax) || !read || mentioned || (!tools && !ends_it)) continue;
    out.push_back({syntax.begin, written_ != nullptr && syntax.begin == mark_ ? calls_ : kNone});
  }
  return out;
}

// Reasoning whose begin has come.
AnswerBuilder::Node AnswerBuilder::reasoning(Node after) {
  if (rules_.reasoning_over) return then(rules_.style.reasoning_end, after);
  const bool schema = rules_.kind == GrammarKind::kJsonSchema || rules_.kind == GrammarKind::kJsonSchemaOpen;
  const bool read = calls_matter_ && (written_ != nullptr || !schema);  // as calls
  const bool ends = rules_.kind == GrammarKind::kNone && !must_call();
  const auto tools = read && !rules_.tools.empty() ? read_reply_tools(rules_.tools) : nullptr;
  size_t bytes = 0;
  for (std::string_view name : tools != nullptr ? tools->names() : std::vector<std::string_view>()) bytes += name.size();
  const bool mentioned = tools != nullptr && bytes <= kToolNamesBytesMax;  // marks may be; else a call follows them
  std::vector<FreeText::Exit> out = reasoning_exits(after, read, mentioned, tools != nullptr);
  if (!mentioned) return text_.text(out, ends ? end_ : kNone, true).begin();
  Mentions mentions(this, tools->names());
  mentions.add_exits(&out);
  const FreeText::Text text = text_.text(out, ends ? end_ : kNone, true);
  mentions.build(text);
  return text.begin();
}

}  // namespace kvrt
