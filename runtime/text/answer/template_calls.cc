#include "runtime/text/answer/template_calls.h"

#include <memory>
#include <optional>
#include <string_view>

#include "runtime/base/limits.h"
#include "runtime/text/answer/answer_grammar.h"
#include "runtime/text/grammar/grammar_states.h"
#include "runtime/text/grammar/vocab.h"
#include "runtime/text/reply/literals.h"
#include "runtime/text/reply/pattern.h"

namespace kvrt {

namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"get_weather","description":"The weather of a city","parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string","description":"Its name"}},"required":["city"]}}}])";
constexpr const char* kAsked = R"({"role":"user","content":"How is the weather in Rome?"})";
constexpr const char* kSaid = R"({"role":"assistant","content":"Sunny."})";

std::string called(const char* arguments) {
  return std::string(R"({"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function","function":)") +
         R"({"name":"get_weather","arguments":)" + arguments + "}}]}";
}

bool drop_end(std::string_view mark, std::string_view* text) {
  const bool ends = !mark.empty() && text->ends_with(mark);
  if (ends) text->remove_suffix(mark.size());
  return ends;
}

// The turn in the text of a conversation, and where it begins: a prompt may open or close reasoning that the history does not show.
struct Turn {
  std::string_view text;
  AnswerPlace place;
};
std::optional<Turn> turn_of(std::string_view prompt, std::string_view whole, const ReplyStyle& style) {
  if (whole.starts_with(prompt)) return Turn{whole.substr(prompt.size()), answer_place(style, prompt)};
  std::string_view bare = prompt;
  const auto drop_space = [&] {
    while (!bare.empty() && reply::is_space(bare.back())) bare.remove_suffix(1);
  };
  drop_space();
  if (drop_end(style.reasoning_end, &bare)) drop_space();
  (void)drop_end(style.reasoning_begin, &bare);
  if (!whole.starts_with(bare)) return std::nullopt;
  return Turn{whole.substr(bare.size()), AnswerPlace::kBegin};
}

// What stands behind the longest answer that the text begins with; nothing: it begins with none.
std::optional<std::string_view> behind_answer(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar.automaton());
  std::optional<std::string_view> rest;
  auto at = states.begin();
  for (size_t i = 0; i < text.size() && !states.dead(at); ++i) {
    at = states.step(at, static_cast<uint8_t>(text[i]));
    if (states.may_end(at)) rest = text.substr(i + 1);
  }
  return rest;
}

// A mark by itself, such as <|eom_id|>; no end of what stands open.
bool is_mark(std::string_view text) {
  if (text.size() < 3 || (text[0] != '<' && text[0] != '[') || text[1] == '/') return false;
  const bool spaced = text.find_first_of(reply::kWhiteSpace) != std::string_view::npos;
  return !spaced && text.back() == (text[0] == '<' ? '>' : ']');
}

}  // namespace

bool writes_calls_as_family(const RenderMessages& render, const ReplyStyle& style) {
  const std::string asked = std::string("[") + kAsked;
  const auto prompt = render(asked + "]", true, kTools);
  const auto said = render(asked + "," + kSaid + "]", false, kTools);
  if (!prompt.is_ok()) return false;
  for (const char* arguments : {R"({"city":"Rome"})", R"("{\"city\": \"Rome\"}")"}) {
    const auto whole = render(asked + "," + called(arguments) + "]", false, kTools);
    if (!whole.is_ok()) continue;
    const std::optional<Turn> turn = turn_of(prompt.value(), whole.value(), style);
    if (!turn) continue;
    AnswerRules rules;
    rules.style = style;
    rules.place = turn->place;
    rules.choice = ToolChoice::kRequired;
    rules.tools = kTools;
    const GrammarVocab bytes(std::make_unique<const GrammarVocab::Impl>());
    const auto grammar = answer_grammar(rules, bytes);
    if (!grammar.is_ok()) return false;
    auto behind = behind_answer(*grammar.value(), turn->text);
    if (!behind) behind = behind_answer(*grammar.value(), reply::trimmed(turn->text));  // white space before a call is content
    if (!behind) continue;
    const std::string_view rest = reply::trimmed(*behind);
    if (rest.empty() || is_mark(rest) || (said.is_ok() && reply::trimmed(said.value()).ends_with(rest))) return true;
  }
  return false;
}

}  // namespace kvrt
