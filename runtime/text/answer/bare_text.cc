// Calls without their mark: {"name": "f", "arguments": .. at the begin of an answer, perhaps in a list or within ```json, or [f(.. where a
// family's bare calls may be Python's. Such a text is free until reply::BareHead would say that it is a call, and from there on bound.
#include <algorithm>
#include <string>

#include "runtime/text/answer/answer_builder.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt {

namespace {

constexpr uint32_t kGapMax = 40;      // white space within a call and behind it: a model cannot go on in it for ever
constexpr size_t kMarkBytesMax = 64;  // no mark is longer

}  // namespace

// What is known of the family's calls, and where they go on.
class AnswerBuilder::BareCalls {
 public:
  BareCalls(AnswerBuilder* of, FreeText::Text* text) : of_(*of), builder_(of->builder_), text_(*text) {
    for (const Tool& tool : of_.tools_) {
      names_.push_back(tool.name);
      if (of_.may_be_word(tool.name)) words_.push_back(tool.name);
    }
    std::ranges::sort(names_);
    std::ranges::sort(words_);
    for (std::string_view key : reply::bare_keys(of_.rules_.style.format)) keys_.emplace_back(key);
  }

  Node answer() {
    make_rules();
    const Node begin = builder_.join();
    const Node list = held_list(), fence = held_fence();
    std::vector<Node> ways = {of_.bytes_to(reply::kWhiteSpace, begin), of_.bytes_to("`", fence), of_.bytes_to("[", list),
                              of_.bytes_to("{", object_)};
    ways.push_back(text_.without("", std::string(reply::kWhiteSpace) + "`[{"));
    ways.push_back(first_call());
    builder_.link(begin, ways);
    return begin;
  }

 private:
  using Ways = std::vector<std::pair<std::string, Node>>;  // kNone: the bytes do not come

  // Free text, of which `read` has come, until one of these bytes.
  void link_held(Node node, std::string_view read, const Ways& ways) {
    std::vector<Node> out;
    std::string bytes;
    for (const auto& [some, to] : ways) {
      bytes += some;
      if (to != kNone) out.push_back(of_.bytes_to(some, to));
    }
    read.remove_prefix(read.size() - std::min(read.size(), kMarkBytesMax));
    out.push_back(text_.without(read, bytes));
    builder_.link(node, out);
  }
  Node held(std::string_view read, const Ways& ways) {
    const Node node = builder_.join();
    link_held(node, read, ways);
    return node;
  }
  // The same, with white space before the bytes.
  Node spaced(std::string_view read, Ways ways) {
    const Node node = builder_.join();
    ways.emplace_back(reply::kWhiteSpace, node);
    link_held(node, "", ways);
    return read.empty() ? node : held(read, ways);
  }
  // One of the sorted texts, then `end`.
  Node held_text(const std::vector<std::string>& texts, char end, Node to, Ways ways = {}) {
    struct Open {
      Node node;
      size_t first, last, depth;
    };
    const Node root = builder_.join();
    if (!ways.empty()) ways.emplace_back(reply::kWhiteSpace, root);
    std::vector<Open> open = {{root, 0, texts.size(), 0}};
    while (!open.empty() && builder_.status().is_ok()) {
      auto [node, first, last, depth] = open.back();
      open.pop_back();
      const std::string_view read = std::string_view(texts[first]).substr(0, depth);
      if (texts[first].size() == depth) ways.emplace_back(std::string(1, end), to), ++first;
      while (first < last) {
        const char c = texts[first][depth];
        size_t next = first + 1;
        while (next < last && texts[next][depth] == c) ++next;
        open.push_back({builder_.join(), first, next, depth + 1});
        ways.emplace_back(std::string(1, c), open.back().node);
        first = next;
      }
      link_held(node, read, ways);
      ways.clear();
    }
    return root;
  }

  // Behind [.
  Node held_list() {
    const Node colon = spaced("", {{":", kNone}});
    const Node comma = spaced("", {{",", spaced("", {{"\"", held_text(keys_, '"', colon)}})}});
    const Node name = spaced("", {{":", spaced("", {{"\"", held_text(names_, '"', comma)}})}});
    object_ = spaced("", {{"\"", held_text({"name"}, '"', name)}});
    objects_ = spaced("[", {{"{", object_}});
    return words_.empty() ? objects_ : held_text(words_, '(', kNone, {{"{", object_}});
  }
  // Behind `.
  Node held_fence() {
    const Ways calls = {{"[", objects_}, {"{", object_}};
    Ways ways = calls;
    ways.emplace_back("j", held("", {{"s", held("", {{"o", held("", {{"n", spaced("", calls)}})}})}}));
    ways.emplace_back(reply::kWhiteSpace, spaced("", calls));  // no json comes behind it
    return held("`", {{"`", held("``", {{"`", held("```", ways)}})}});
  }

  Part any_space() {
    const Part one[] = {builder_.bytes('\t', '\n'), builder_.bytes('\r', '\r'), builder_.bytes(' ', ' ')};
    return builder_.choice(one);
  }

  void make_rules() {
    gap_ = builder_.add_rule("white space of a call");
    builder_.define(gap_, builder_.repeat(any_space(), 0, kGapMax));
    any_ = builder_.add_rule("any white space");
    builder_.define(any_, builder_.repeat(any_space(), 0, GrammarBuilder::kNoMax));
    first_ = object_rule(any_);
    next_ = object_rule(gap_);
    if (words_.empty()) return;
    word_ = builder_.add_rule("a call in a list");
    std::vector<Part> ways;
    for (const Tool& tool : of_.tools_) {
      if (tool.python == kNone) continue;
      const Part call = builder_.sequence(builder_.literal(tool.name + "("), builder_.call(tool.python));
      ways.push_back(builder_.sequence(call, builder_.literal(")")));
    }
    builder_.define(word_, builder_.choice(ways));
  }
  // A call as an object; `space`: between its parts until the arguments come.
  uint32_t object_rule(uint32_t space) {
    const auto token = [&](Part part, char c) {
      part = builder_.sequence(part, builder_.call(space));
      return builder_.sequence(part, builder_.literal({&c, 1}));
    };
    const uint32_t arguments = builder_.add_rule("a call's key of arguments");
    std::vector<Part> keys;
    Part part = token(token(builder_.literal("\""), ','), '"');
    for (const std::string& key : keys_) keys.push_back(builder_.literal(key + "\""));
    part = token(builder_.sequence(part, builder_.choice(keys)), ':');
    builder_.define(arguments, builder_.sequence(part, builder_.call(space)));

    const uint32_t rule = builder_.add_rule("a call without its mark");
    part = token(builder_.literal("{"), '"');
    part = token(builder_.sequence(part, builder_.literal("name\"")), ':');
    part = token(part, '"');
    std::vector<Part> ways;
    for (const Tool& tool : of_.tools_) {
      if (tool.json == kNone) continue;
      const Part named = builder_.sequence(builder_.literal(tool.name), builder_.call(arguments));
      ways.push_back(builder_.sequence(named, builder_.call(tool.json)));
    }
    part = builder_.sequence(part, builder_.choice(ways));
    part = builder_.sequence(part, builder_.call(gap_));
    builder_.define(rule, builder_.sequence(part, builder_.literal("}")));
    return rule;
  }

  // Where an answer goes on: behind a call, where one may begin, and behind an item of a list of them; within a fence, too.
  struct Places {
    Node call, begin, item, word, fenced_call, fenced_begin, fenced_item;
  };
  Node literal(std::string_view text, Node to) { return of_.then(builder_.literal(text), to); }
  Node calls(uint32_t rule, Node to) { return of_.then(builder_.call(rule), to); }
  // A call or a list of calls behind `space`, the first by `object`; then the nodes of `to`.
  Node object_or_list(uint32_t object, uint32_t space, Node call, Node item, Node word) {
    const Node items = of_.either({calls(object, item), word == kNone ? kNone : calls(word_, word)});
    return of_.either({calls(object, call), literal("[", calls(space, items))});
  }
  Node unit(uint32_t object, uint32_t space, const Places& to) {
    const Node fenced = object_or_list(object, space, to.fenced_call, to.fenced_item, kNone);
    const Node fence = literal(reply::kFenceMark, of_.either({calls(space, fenced), literal("json", calls(space, fenced))}));
    return of_.either({object_or_list(object, space, to.call, to.item, words_.empty() ? kNone : to.word), fence});
  }
  // `to`: with a call less; null: no call may follow.
  void link(const Places& at, const Places* to) {
    const auto next = [&](Node begin) { return to == nullptr ? kNone : of_.either({begin, of_.bytes_to(",;", calls(gap_, begin))}); };
    const auto item = [&](Node node, Node done, uint32_t rule, Node again) {
      const Node more = to == nullptr ? kNone : literal(",", calls(gap_, calls(rule, again)));
      builder_.link(node, calls(gap_, of_.either({literal("]", done), more})));
    };
    builder_.link(at.call, calls(gap_, of_.either({of_.end_, next(at.begin)})));
    builder_.link(at.fenced_call, calls(gap_, of_.either({literal(reply::kFenceMark, at.call), next(at.fenced_begin)})));
    item(at.item, at.call, next_, to == nullptr ? kNone : to->item);
    item(at.fenced_item, at.fenced_call, next_, to == nullptr ? kNone : to->fenced_item);
    if (!words_.empty()) item(at.word, at.call, word_, to == nullptr ? kNone : to->word);
    if (to == nullptr) return;
    builder_.link(at.begin, unit(next_, gap_, *to));
    builder_.link(at.fenced_begin, object_or_list(next_, gap_, to->fenced_call, to->fenced_item, kNone));
  }
  Node first_call() {
    const auto places = [this] {
      return Places{builder_.join(), builder_.join(), builder_.join(), words_.empty() ? kNone : builder_.join(),
                    builder_.join(), builder_.join(), builder_.join()};
    };
    Places at = places();
    if (of_.rules_.calls_max == 0) link(at, &at);
    for (uint32_t left = 0; left < std::min(of_.rules_.calls_max, kCallsMax); ++left) {
      const Places less = at;
      if (left > 0) at = places();
      link(at, left > 0 ? &less : nullptr);
    }
    return unit(first_, any_, at);
  }

  AnswerBuilder& of_;
  GrammarBuilder& builder_;
  FreeText::Text& text_;
  std::vector<std::string> names_, words_, keys_;                 // sorted; words_: of Python's calls
  Node object_ = kNone, objects_ = kNone;                         // free text behind { and, of objects alone, behind [
  uint32_t gap_ = 0, any_ = 0, first_ = 0, next_ = 0, word_ = 0;  // rules
};

AnswerBuilder::Node AnswerBuilder::bytes_to(std::string_view bytes, Node to) {
  std::vector<Node> ways;
  for (char c : bytes) ways.push_back(then(builder_.bytes(static_cast<uint8_t>(c), static_cast<uint8_t>(c)), to));
  if (ways.size() == 1) return ways[0];
  const Node join = builder_.join();
  builder_.link(join, ways);
  return join;
}

AnswerBuilder::Node AnswerBuilder::bare_text(FreeText::Text* text) { return BareCalls(this, text).answer(); }

}  // namespace kvrt
