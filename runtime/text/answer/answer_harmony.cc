// The answers of gpt-oss: messages <|channel|>channel<|message|>text<|end|>, of which the last is final, or a call.
#include <algorithm>

#include "runtime/text/answer/answer_builder.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt {

Result<AnswerBuilder::Node> AnswerBuilder::harmony() {
  const Node start = builder_.join();  // behind <|start|>assistant
  const Node next = then("<|start|>assistant", start);
  std::vector<FreeText::Exit> marks;
  for (std::string_view mark : reply::kHarmonyMarkers) marks.push_back({mark});
  marks.push_back({reply::kHarmonyMessage});
  Node content = kNone, preamble = kNone;
  if (rules_.kind != GrammarKind::kNone) {
    KVRT_ASSIGN(content, bound_content());
  } else if (rules_.choice != ToolChoice::kRequired && rules_.choice != ToolChoice::kNamed) {
    content = text_.until(marks, end_);
  }
  for (FreeText::Exit& exit : marks) exit.to = exit.mark == "<|end|>" ? next : kNone;
  const Node thought = text_.until(marks);  // any message that another follows
  if (rules_.kind == GrammarKind::kNone && content != kNone) preamble = then("<|channel|>commentary<|message|>", thought);
  const Node final = content == kNone
                         ? kNone
                         : then("<|channel|>final", either({then("<|message|>", content), then(" <|constrain|>json<|message|>", content)}));
  const Node analysis = rules_.reasoning_over ? kNone : then("<|channel|>analysis<|message|>", thought);
  const Node call = written_ != nullptr ? harmony_call() : kNone;
  builder_.link(start, either({analysis, preamble, final, call}));
  if (rules_.reasoning_over) return then("<|end|>", next);
  if (rules_.place == AnswerPlace::kReasoning) return thought;
  if (rules_.place != AnswerPlace::kContent) return start;
  return content != kNone ? content : then("<|end|>", next);  // a call is asked for within content
}

// A recipient stands before the channel, as the template writes it, or behind it, as models do.
AnswerBuilder::Node AnswerBuilder::harmony_call() {
  std::vector<Node> calls;
  for (const Tool& tool : tools_) {
    const Node arguments = then(builder_.call(tool.arguments), then("<|call|>", spaced(end_)));
    const Node message = then("<|message|>", arguments);
    calls.push_back(then(" to=functions." + tool.name + "<|channel|>commentary json", message));
    const Node json = either({then(" <|constrain|>json", message), then(" json", message), message});
    calls.push_back(then("<|channel|>commentary to=functions." + tool.name, json));
  }
  const Node join = builder_.join();
  builder_.link(join, calls);
  return join;
}

}  // namespace kvrt
