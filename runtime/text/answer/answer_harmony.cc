// The answers of gpt-oss: messages <|channel|>channel<|message|>text<|end|>, of which the last is final, or a call.
#include <algorithm>
#include <map>

#include "runtime/text/answer/answer_builder.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt {

namespace {
constexpr size_t kRecipientsMax = 128;  // beside more tools there are no others
}

Result<AnswerBuilder::Node> AnswerBuilder::harmony() {
  const Node start = builder_.join();  // behind <|start|>assistant
  const Node next = then("<|start|>assistant", start);
  std::vector<FreeText::Exit> marks;
  for (std::string_view mark : reply::kHarmonyMarkers) marks.push_back({mark});
  marks.push_back({reply::kHarmonyMessage});
  Node content = kNone, preamble = kNone;
  if (rules_.kind != GrammarKind::kNone) {
    KVRT_ASSIGN(content, bound_content());
  } else if (!must_call()) {
    content = text_.text(marks, end_, true).begin();
  }
  for (FreeText::Exit& exit : marks) exit.to = exit.mark == "<|end|>" ? next : kNone;
  const Node thought = text_.text(marks, kNone, true).begin();  // any message that another follows
  if (rules_.kind == GrammarKind::kNone && content != kNone) preamble = then("<|channel|>commentary<|message|>", thought);
  const Node final = content == kNone
                         ? kNone
                         : then("<|channel|>final", either({then("<|message|>", content), then(" <|constrain|>json<|message|>", content)}));
  const Node analysis = rules_.reasoning_over ? kNone : then("<|channel|>analysis<|message|>", thought);
  const Node call = written_ != nullptr ? harmony_call() : kNone;
  Node other = kNone;
  if (written_ != nullptr && preamble != kNone && tools_.size() <= kRecipientsMax) {
    for (FreeText::Exit& exit : marks) exit.to = exit.mark == "<|call|>" ? end_ : exit.to;
    other = harmony_message([this](Node to) { return then(" to=", other_recipient(to)); },
                            then("<|message|>", text_.text(marks, kNone, true).begin()));
  }
  builder_.link(start, either({analysis, preamble, final, call, other}));
  if (rules_.reasoning_over) return then("<|end|>", next);
  if (rules_.place == AnswerPlace::kReasoning) return thought;
  if (rules_.place != AnswerPlace::kContent) return start;
  return content != kNone ? content : then("<|end|>", next);  // a call is asked for within content
}

// A message with a recipient, which stands before the channel, as the template writes it, or behind it, as models do. `text`: what follows
// the header.
AnswerBuilder::Node AnswerBuilder::harmony_message(const std::function<Node(Node)>& recipient, Node text) {
  const Node type =
      either({then(" <|constrain|>json", text), then("<|constrain|>json", text), then(" json", text), then(" code", text), text});
  const auto channel = [this](Node to) { return either({then("<|channel|>commentary", to), then("<|channel|>analysis", to)}); };
  return either({recipient(channel(type)), channel(recipient(type))});
}

// Models leave out the namespace of functions.
AnswerBuilder::Node AnswerBuilder::harmony_call() {
  std::vector<Node> calls;
  for (const Tool& tool : tools_) {
    const Node arguments = then("<|message|>", then(builder_.call(tool.arguments), then("<|call|>", spaced(end_))));
    const bool brief = tool.name != "user" && tool.name != "assistant" && !tool.name.starts_with("functions.");  // else read as another
    const auto recipient = [&](Node to) {
      return either({then(" to=functions." + tool.name, to), brief ? then(" to=" + tool.name, to) : kNone});
    };
    calls.push_back(harmony_message(recipient, arguments));
  }
  const Node join = builder_.join();
  builder_.link(join, calls);
  return join;
}

// A recipient that is none of the tools and not in their namespace: python, browser.open. What is said to it is no call of this session.
AnswerBuilder::Node AnswerBuilder::other_recipient(Node to) {
  constexpr std::string_view kNamespace = "functions.";
  std::map<std::string, bool> names;  // the beginnings of names that are taken; whether the name ends there
  for (const Tool& tool : tools_) {
    for (size_t size = 0; size < tool.name.size(); ++size) names.try_emplace(tool.name.substr(0, size), false);
    names[tool.name] = true;
  }
  for (size_t size = 0; size < kNamespace.size(); ++size) names.try_emplace(std::string(kNamespace.substr(0, size)), false);
  std::map<std::string, Node> nodes;
  for (const auto& [name, whole] : names) nodes[name] = builder_.join();
  const Node free = builder_.join();
  const auto bytes = [this](uint8_t lo, uint8_t hi, Node next) { return then(builder_.bytes(lo, hi), next); };
  builder_.link(free, either({bytes('-', '9', free), bytes('A', 'Z', free), bytes('_', '_', free), bytes('a', 'z', free), to}));
  for (const auto& [name, whole] : names) {
    std::vector<Node> ways;
    const auto next = [&, name = name](uint8_t c) {
      const std::string longer = name + static_cast<char>(c);
      const auto known = nodes.find(longer);
      return longer == kNamespace ? kNone : known != nodes.end() ? known->second : free;
    };
    for (const auto& [first, last] : {std::pair<uint8_t, uint8_t>('-', '9'), {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}) {
      for (uint8_t lo = first, hi; lo <= last; lo = hi + 1) {
        for (hi = lo; hi < last && next(hi + 1) == next(lo);) ++hi;
        if (next(lo) != kNone) ways.push_back(bytes(lo, hi, next(lo)));
      }
    }
    if (!name.empty() && !whole) ways.push_back(to);
    builder_.link(nodes[name], ways);
  }
  return nodes[""];
}

}  // namespace kvrt
