// Any bytes as a session's tools, or as the schema of an answer behind reasoning, of any family: a Status that says why, or a grammar whose
// masks hold. The first three bytes choose.
#include "runtime/text/answer/answer_grammar.h"
#include "runtime/text/reply/family.h"
#include "tests/fuzz/grammar_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto families = kvrt::reply::families();
  const kvrt::reply::Family& family = families[data[0] % families.size()];
  kvrt::AnswerRules rules;
  rules.style.family = &family;
  rules.style.format = family.format;
  if (data[1] & 1) rules.style.reasoning_begin = "<think>", rules.style.reasoning_end = "</think>";
  rules.place = static_cast<kvrt::AnswerPlace>(data[1] >> 1 & 3);
  rules.choice = static_cast<kvrt::ToolChoice>((data[1] >> 3) % 5);
  rules.calls_max = data[2] & 15;
  rules.reasoning_over = (data[2] & 16) != 0 && (data[1] & 1) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  if (data[2] & 32) {
    rules.kind = data[2] & 64 ? kvrt::GrammarKind::kJsonSchema : kvrt::GrammarKind::kGbnf;
    rules.source = text;
  } else {
    rules.tools = text;
    rules.tool_name = "f";
  }
  const auto grammar = kvrt::answer_grammar(rules, *kvrt::fuzz::vocabulary().tries);
  require(grammar.is_ok() || !grammar.status().message().empty(), "a failure says why");
  require(grammar.is_ok() || rules.choice != kvrt::ToolChoice::kDefault || rules.kind != kvrt::GrammarKind::kNone,
          "by default nothing fails");
  if (grammar.is_ok() && grammar.value() != nullptr) kvrt::fuzz::walk(grammar.value(), size);
  return 0;
}
