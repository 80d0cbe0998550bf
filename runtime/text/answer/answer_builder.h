// The insides of answer_grammar.cc: an answer as one rule, whose nodes are made from its end to its begin.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/answer/answer_grammar.h"
#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/free_text.h"
#include "runtime/text/reply/family.h"
#include "runtime/text/reply/syntax.h"

namespace kvrt {

struct BoundTool {
  std::string name;
  std::string parameters;  // a JSON schema; "": none
};
// The functions of a list of tools, as templates have it. INVALID: it is none. UNSUPPORTED: a name that reply parsers do not read.
Result<std::vector<BoundTool>> bound_tools(std::string_view json);

class AnswerBuilder {
 public:
  AnswerBuilder(const AnswerRules& rules, const GrammarVocab& vocab);
  Result<std::unique_ptr<const Automaton>> build();  // null: nothing is bound

 private:
  using Part = GrammarBuilder::Part;
  using Node = uint32_t;  // where the answer goes on
  struct Tool {
    std::string name;
    uint32_t arguments, json, python;  // rules; the latter two of calls without a mark, kNone: there are none
  };
  static constexpr Node kNone = FreeText::kNone;

  Node then(Part part, Node to);
  Node then(std::string_view mark, Node to) { return then(text_.mark(mark), to); }
  Node either(std::initializer_list<Node> nodes);  // kNone: no such way
  Node spaced(Node node);                          // with white space before it, as the reader takes it next to a mark

  Result<Node> answer();
  Result<Node> bound_content();
  Node free_content();
  Node framed(Node node);
  std::vector<FreeText::Exit> exits() const;

  // reasoning.cc
  class Mentions;
  Node reasoning(Node after);
  std::vector<FreeText::Exit> reasoning_exits(Node after, bool read, bool mentioned, bool tools) const;

  // bare_text.cc: free text that may begin with a call without its mark
  class BareCalls;
  Node bytes_to(std::string_view bytes, Node to);  // one of them
  Node bare_text(FreeText::Text* text);

  // answer_calls.cc
  bool must_call() const;
  const reply::CallSyntax* bare_syntax() const;
  Status add_tools();
  Status check_content_is_no_call() const;
  Status add_tool(const reply::WrittenCalls& written, const BoundTool& tool);
  bool may_be_word(std::string_view name) const;  // of a bare call that is Python's
  Result<uint32_t> arguments_rule(const reply::WrittenCalls& written, const BoundTool& tool);
  Node first_call();
  Node behind_call(Node next);  // kNone: none may follow
  uint32_t call_rule();
  bool is_mark(const reply::CallSyntax& syntax) const;  // that the family's calls begin by
  Node begun(std::string_view text, Node to);
  Node behind_mark(const reply::CallSyntax& mark, std::string_view text, Node to);
  Part call_from_name(const Tool& tool);
  Part pattern(std::string_view pattern);
  Part frame_space();

  // answer_harmony.cc
  Result<Node> harmony();
  Node harmony_call();
  Node harmony_message(const std::function<Node(Node)>& recipient, Node text);
  Node other_recipient(Node to);

  const AnswerRules& rules_;
  const GrammarVocab& vocab_;
  GrammarBuilder builder_;
  FreeText text_;
  bool calls_matter_ = false;                     // their marks do not come unbound
  const reply::WrittenCalls* written_ = nullptr;  // of the calls that are bound; null: none are
  const reply::CallSyntax* first_ = nullptr;      // the syntax that they begin by; null: another than by a mark
  std::string_view mark_;                         // its own, "": none
  std::string_view prompted_, opening_;           // a mark that the prompt ends with; what follows it where content begins
  std::vector<Tool> tools_;
  const reply::CallSyntax* bare_ = nullptr;  // of calls without their mark, where such may come
  Node end_ = kNone;                         // of the answer
  Node calls_ = kNone;                       // behind the calls' first mark
  Node behind_first_ = kNone;                // behind the first of them
  std::optional<uint32_t> space_;            // the rule of spaced()
  uint32_t frame_space_ = kNone;             // that of frame_space()
};

}  // namespace kvrt
