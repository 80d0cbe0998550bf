// Answers under their grammar, for answers.py, reply_families.py and written_turns.py in this folder.
// usage: answer_dump TOOLS < requests  TOOLS: a JSON array. A request is a line of JSON: family (a name) and reasoning ([begin, end]), or template
//   (a file); place, choice, tool_name, kind, source, calls_max, over: as AnswerRules has them; controls: 1, marks are control tokens, 2, ordinary
//   ones; and
//     text: how many of its bytes the grammar takes, each token by its mask, whether the answer may end there, and its parts as the reply
//       parser has them;
//     seed: an answer that is drawn by the grammar's masks, with its parts. scripts: texts that it likes to write.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>

#include "runtime/text/answer/answer_grammar.h"
#include "runtime/text/answer/template_calls.h"
#include "runtime/text/reply/family.h"
#include "runtime/text/reply/syntax.h"
#include "runtime/text/template/chat_template.h"
#include "tests/support/byte_vocabulary.h"

using namespace kvrt;
using nlohmann::json;

namespace {

// All texts of marks that look like control tokens; the last is an end token.
std::vector<std::pair<std::string, int64_t>> controls() {
  static const std::regex kControl(R"(<[|｜][^<>]*>|<[^<>|]*[|｜]>|\[[A-Z_/]+\]|\]<\]minimax\[>\[)");
  std::set<std::string> found{"<think>", "</think>", "[THINK]", "[/THINK]"};
  std::string all;
  for (const auto& f : reply::families())
    for (std::string_view part : {f.written.begin, f.written.call, f.written.named, f.written.end, f.written.between, f.written.close})
      all.append(part).append("\n");
  for (const auto& s : reply::syntaxes()) all.append(s.begin).append("\n");
  all += "<|\"|>\n<|start|>\n<|channel|>\n<|constrain|>\n<|end|>\n<|message|>\n";
  for (std::sregex_iterator at(all.begin(), all.end(), kControl), end; at != end; ++at)
    if (at->str().find('%') == std::string::npos) found.insert(at->str());
  for (const char* part : {"<|return|>", "<|call|>", "<|open|>", "<|close|>", "<|sep|>", "<｜DSML｜"}) found.insert(part);
  std::vector<std::pair<std::string, int64_t>> out;
  for (const std::string& text : found) out.emplace_back(text, 3);
  return out;
}

enum Marks { kBytes, kControl, kOrdinary };

// Beside the bytes: the marks, and for kOrdinary tokens that reach over the ends of marks, as vocabularies have them.
std::vector<std::pair<std::string, int64_t>> more_tokens(Marks marks) {
  if (marks == kBytes) return {};
  auto out = controls();
  if (marks == kControl) return out;
  for (auto& [text, type] : out) type = 4;
  for (const char* text :
       {"\n\n", ">\n", ">\n\n", "\n<", " {\"", "{\"", "\": \"", "\", \"", "\"}", "}}\n", "}}", "}\n", "\">\n", "</", " [", "[{\""})
    out.emplace_back(text, 4);
  return out;
}

class Vocabulary {
 public:
  explicit Vocabulary(Marks marks) {
    auto more = more_tokens(marks);
    more.emplace_back("<|im_end|>", 3);
    tokenizer = byte_tokenizer(more);
    vocab = GrammarVocab::make(*tokenizer);
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer->vocab_size()); ++id) {
      const std::string_view text = tokenizer->piece(id, true);
      by_first_[static_cast<uint8_t>(text[0])].push_back(id);
    }
    for (auto& ids : by_first_) std::ranges::sort(ids, std::greater(), [&](int32_t id) { return tokenizer->piece(id, true).size(); });
  }
  // The tokens of a text: its longest ones, or bytes.
  std::vector<int32_t> tokens(std::string_view text) const {
    std::vector<int32_t> out;
    while (!text.empty()) {
      const auto& ids = by_first_[static_cast<uint8_t>(text[0])];
      out.push_back(*std::ranges::find_if(ids, [&](int32_t id) { return text.starts_with(tokenizer->piece(id, true)); }));
      text.remove_prefix(tokenizer->piece(out.back(), true).size());
    }
    return out;
  }
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const GrammarVocab> vocab;

 private:
  std::vector<int32_t> by_first_[256];
};

json parts_of(const ReplyStyle& style, const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  ReplyParser parser(style);
  std::vector<ReplyPart> parts;
  for (int32_t id : tokens) {
    if (!tokenizer.is_end(id)) parser.push(tokenizer.piece(id, true), tokenizer.is_control(id), &parts);
  }
  parser.finish(&parts);
  json out = json::array();
  for (const ReplyPart& part : parts) {
    const std::string kind(1, "CRT"[static_cast<int>(part.kind)]);
    if (!out.empty() && out.back()[0] == kind && kind != "T") {
      out.back()[1] = out.back()[1].get<std::string>() + part.text;
    } else {
      out.push_back({kind, part.text});
    }
  }
  return out;
}

class Walk {
 public:
  Walk(const Vocabulary& v, const json& request) : v_(v), random_(request["seed"].get<uint64_t>()) {
    for (const auto& text : request["scripts"]) scripts_.push_back(v.tokens(text.get<std::string>()));
  }
  // False: the grammar left no token.
  bool run(GrammarMatcher* matcher, std::vector<int32_t>* out) {
    const size_t length = 20 + random_() % 300;
    while (out->size() < 6000) {
      const auto mask = matcher->mask();
      allowed_.clear();
      for (int32_t id = 0; id < static_cast<int32_t>(v_.tokenizer->vocab_size()); ++id)
        if (has(mask, id)) allowed_.push_back(id);
      if (allowed_.empty()) return false;
      const int32_t token = choose(mask, out->size() > length);
      if (!matcher->accept(token)) return false;
      out->push_back(token);
      if (v_.tokenizer->is_end(token)) return true;
    }
    return true;
  }

 private:
  int32_t choose(std::span<const uint64_t> mask, bool over) {
    const int32_t end = static_cast<int32_t>(v_.tokenizer->vocab_size()) - 1;
    if (has(mask, end) && (over || random_() % 40 == 0)) return end;
    if (script_ != nullptr && at_ < script_->size() && has(mask, (*script_)[at_])) return (*script_)[at_++];
    script_ = nullptr;
    if (over) {
      for (const char* text : {"</think>", "<|end|>", "}", "]", "\"", ")", "<", "|"}) {
        const int32_t id = v_.vocab->find(text);
        if (id >= 0 && has(mask, id) && random_() % 3) return id;
      }
    }
    if (random_() % 3 == 0 && !scripts_.empty()) {
      const auto& script = scripts_[random_() % scripts_.size()];
      if (!script.empty() && has(mask, script[0])) {
        script_ = &script;
        at_ = 1;
        return script[0];
      }
    }
    for (int i = 0; i < 8; ++i) {
      const int32_t id = allowed_[random_() % allowed_.size()];
      const std::string_view piece = v_.tokenizer->piece(id, true);
      if (v_.tokenizer->is_control(id) || (piece[0] >= 0x20 && piece[0] < 0x7F)) return id;
    }
    return allowed_[random_() % allowed_.size()];
  }

  const Vocabulary& v_;
  std::mt19937_64 random_;
  std::vector<std::vector<int32_t>> scripts_;
  const std::vector<int32_t>* script_ = nullptr;
  size_t at_ = 0;
  std::vector<int32_t> allowed_;
};

// As a model with this template answers.
const ReplyStyle& style_of(const std::string& file) {
  static std::map<std::string, ReplyStyle> kept;
  const auto [at, fresh] = kept.try_emplace(file);
  if (!fresh) return at->second;
  std::ifstream in(file);
  const std::string source(std::istreambuf_iterator<char>(in), {});
  ReplyStyle& style = at->second = detect_reply_style(source);
  const auto made = ChatTemplate::parse(source);
  style.fits = made.is_ok() && writes_calls_as_family(
                                   [&](const std::string& messages, bool generation_prompt, const std::string& tools) {
                                     const TemplateArguments arguments{.tools = tools, .documents = {}, .variables = {}, .now = 1};
                                     return made.value()->render(messages, {generation_prompt, "<s>", "</s>", arguments});
                                   },
                                   style);
  return style;
}

AnswerRules rules_of(const json& request, const std::string& tools) {
  AnswerRules rules;
  if (request.contains("template")) rules.style = style_of(request["template"]);
  for (const auto& family : reply::families()) {
    if (request.contains("template") || family.name != request["family"].get<std::string>() || rules.style.family) continue;
    rules.style.family = &family;
    rules.style.format = family.format;
  }
  if (request.contains("reasoning"))
    rules.style.reasoning_begin = request["reasoning"][0], rules.style.reasoning_end = request["reasoning"][1];
  rules.place = static_cast<AnswerPlace>(request.value("place", 0));
  rules.style.begin = rules.place;
  rules.choice = static_cast<ToolChoice>(request.value("choice", 0));
  rules.tool_name = request.value("tool_name", "");
  rules.kind = static_cast<GrammarKind>(request.value("kind", 0));
  rules.source = request.value("source", "");
  rules.calls_max = request.value("calls_max", 0U);
  rules.reasoning_over = request.value("over", 0) != 0;
  rules.tools = request.value("tools", 1) ? tools : "";
  rules.style.bound = rules.kind != GrammarKind::kNone;
  rules.style.calls = !rules.tools.empty() && (!rules.style.bound || rules.choice == ToolChoice::kAuto);
  if (rules.style.calls) rules.style.tools = read_reply_tools(rules.tools);
  return rules;
}

// The masks of an answer by these rules; requests with the same ones follow each other. Null: nothing is bound.
Result<std::shared_ptr<GrammarMasks>> masks_of(const json& request, const AnswerRules& rules, const Vocabulary& v) {
  static std::shared_ptr<GrammarMasks> kept;
  static json of;
  json key = request;
  for (const char* other : {"text", "seed", "scripts", "about"}) key.erase(other);
  if (key == of) return kept;
  KVRT_ASSIGN(const auto grammar, answer_grammar(rules, *v.vocab));
  kept = grammar == nullptr ? nullptr : GrammarMasks::make(grammar, v.vocab);
  of = std::move(key);
  return kept;
}

// A text that comes token by token. `matcher`: null, any may.
json taken(const std::string& text, const AnswerRules& rules, const Vocabulary& v, GrammarMatcher* matcher) {
  const int32_t end = static_cast<int32_t>(v.tokenizer->vocab_size()) - 1;
  const std::vector<int32_t> tokens = v.tokens(text);
  size_t bytes = 0;
  for (int32_t id : tokens) {
    if (matcher != nullptr && !(has(matcher->mask(), id) && matcher->accept(id))) break;
    bytes += v.tokenizer->piece(id, true).size();
  }
  const bool may_end = matcher == nullptr || (matcher->may_end() && has(matcher->mask(), end));
  return {{"bound", matcher != nullptr},
          {"taken", bytes},
          {"all", bytes == text.size()},
          {"end", may_end},
          {"parts", parts_of(rules.style, *v.tokenizer, tokens)}};
}

json answer(const json& request, const std::string& tools, const Vocabulary& v) {
  const AnswerRules rules = rules_of(request, tools);
  const auto made = masks_of(request, rules, v);
  if (!made.is_ok()) return {{"status", static_cast<int>(made.status().code())}, {"message", made.status().message()}};
  if (made.value() == nullptr && !request.contains("text")) return {{"bound", false}};
  const auto matcher = made.value() == nullptr ? nullptr : std::make_unique<GrammarMatcher>(made.value());
  if (request.contains("text")) return taken(request["text"], rules, v, matcher.get());
  std::vector<int32_t> tokens;
  const bool ok = Walk(v, request).run(matcher.get(), &tokens);
  std::string text;
  for (int32_t id : tokens) text.append(v.tokenizer->piece(id, true));
  return {{"dead", !ok},
          {"text", text},
          {"parts", parts_of(rules.style, *v.tokenizer, tokens)},
          {"ended", !tokens.empty() && v.tokenizer->is_end(tokens.back())}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Vocabulary vocabularies[] = {Vocabulary(kBytes), Vocabulary(kControl), Vocabulary(kOrdinary)};
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    const json out = answer(request, argv[1], vocabularies[request.value("controls", 0)]);
    printf("%s\n", out.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  }
  return 0;
}
