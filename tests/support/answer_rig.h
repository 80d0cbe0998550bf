// Answers of each family under their grammar, over a vocabulary of bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/answer/answer_grammar.h"
#include "runtime/text/reply/family.h"
#include "tests/support/byte_vocabulary.h"

namespace kvrt::answer_rig {

inline constexpr char kTools[] = R"([{"name":"f","parameters":{"type":"object","properties":{}}}])";

inline AnswerRules rules_of(std::string_view family, ToolChoice choice, AnswerPlace place) {
  AnswerRules rules;
  for (const reply::Family& one : reply::families()) {
    if (one.name != family) continue;
    rules.style.family = &one;
    rules.style.format = one.format;
  }
  rules.choice = choice;
  rules.place = place;
  rules.tools = kTools;
  return rules;
}

inline std::shared_ptr<const Grammar> grammar_of(const AnswerRules& rules) {
  static const auto tokenizer = byte_tokenizer({{"<|im_end|>", 3}});
  static const auto vocab = GrammarVocab::make(*tokenizer);
  auto made = answer_grammar(rules, *vocab);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return made.is_ok() ? made.value() : nullptr;
}

// One call as the family writes it, by its row.
inline std::string one_call(const reply::WrittenCalls& w, bool first, bool last, std::string_view name = "f") {
  using A = reply::WrittenCalls::Arguments;
  const std::string nothing = w.arguments == A::kJson || w.arguments == A::kQuoted ? "{}" : "";
  std::string text = std::string(first ? w.begin : w.between) + std::string(w.call) + std::string(name) + std::string(w.named) + nothing +
                     std::string(w.end) + std::string(last ? w.close : "");
  for (const auto& [number, is] : {std::pair{"%d", "0"}, {"%D", "1"}, {"%i", "a1B2c3D4e"}, {"%s", ""}})
    for (size_t at; (at = text.find(number)) != text.npos;) text.replace(at, 2, is);
  return text;
}

inline std::string calls_read(const ReplyStyle& style, std::string_view text) {
  ReplyParser parser(style);
  std::vector<ReplyPart> parts;
  parser.push(text, false, &parts);
  parser.finish(&parts);
  std::string out;
  for (const ReplyPart& part : parts)
    out += part.kind == ReplyPart::Kind::kToolCall ? part.text.substr(0, part.text.find(',')) : "other: " + part.text;
  return out;
}

}  // namespace kvrt::answer_rig
