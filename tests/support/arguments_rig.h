// Calls of each family whose arguments a grammar lets a walk make, and what the reply parser reads of them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/answer/arguments.h"
#include "runtime/text/reply/reply_parser.h"
#include "runtime/text/reply/syntax.h"
#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace kvrt::rig {

// The marks of families that are control tokens of their models.
inline constexpr const char* kControls[] = {"<tool_call>",
                                            "</tool_call>",
                                            "<arg_key>",
                                            "</arg_key>",
                                            "<arg_value>",
                                            "</arg_value>",
                                            "<arg_key:opensource>",
                                            "</arg_key:opensource>",
                                            "<arg_value:opensource>",
                                            "</arg_value:opensource>",
                                            "<tool_sep:opensource>",
                                            "｜DSML｜",
                                            "]<]minimax[>[",
                                            "<|open|>",
                                            "<|close|>",
                                            "<|sep|>",
                                            "<|\"|>",
                                            "<|tool_call>",
                                            "<tool_call|>",
                                            "<|channel|>",
                                            "<|message|>",
                                            "<|call|>",
                                            "[TOOL_CALLS]",
                                            "[ARGS]",
                                            "[CALL_ID]",
                                            "<|tool_call_start|>",
                                            "<|tool_call_end|>",
                                            "<seed:tool_call>",
                                            "</seed:tool_call>",
                                            "<｜tool▁calls▁begin｜>",
                                            "<｜tool▁call▁begin｜>",
                                            "<｜tool▁sep｜>",
                                            "<｜tool▁call▁end｜>",
                                            "<｜tool▁calls▁end｜>",
                                            "<|im_end|>"};

// All bytes, and the marks if `controls`.
inline std::unique_ptr<Tokenizer> marks_tokenizer(bool controls) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) append_code_point(byte_to_symbol(static_cast<uint8_t>(b)), &tokens.emplace_back());
  VocabSource s;
  s.model = "gpt2";
  s.pre = "gpt-2";
  s.types.assign(256, 1);
  for (const char* mark : kControls) {
    if (!controls) break;
    tokens.emplace_back(mark);
    s.types.push_back(3);
  }
  s.tokens.assign(tokens.begin(), tokens.end());
  return std::move(Tokenizer::create(s)).value();
}

struct Written {
  std::string text;
  bool control;
};

class CallWalk {
 public:
  CallWalk(const Tokenizer& tokenizer, const reply::Family& family, std::string parameters)
      : tokenizer_(tokenizer), family_(family), parameters_(std::move(parameters)) {}

  Status compile(const std::shared_ptr<const GrammarVocab>& vocab) {
    GrammarBuilder builder("arguments");
    const uint32_t root = builder.add_rule("root");
    KVRT_ASSIGN(const uint32_t rule, add_arguments(family_.written, parameters_, *vocab, &builder));
    builder.define(root, builder.call(rule));
    KVRT_ASSIGN(auto automaton, builder.build());
    masks_ = GrammarMasks::make(std::make_shared<const Grammar>(std::move(automaton)), vocab);
    style_.format = family_.format;
    style_.family = &family_;
    const std::string tool = parameters_.empty() ? "{}" : parameters_;
    style_.tools = read_reply_tools(R"([{"type":"function","function":{"name":"f","parameters":)" + tool + "}}]");
    add_hints();
    return Status::ok();
  }

  bool accepts(std::string_view text) const {
    GrammarMatcher matcher(masks_);
    for (int32_t token : tokens(text)) {
      const auto mask = matcher.mask();
      const bool may = (mask[static_cast<size_t>(token) / 64] >> (token % 64)) & 1;
      if (matcher.accept(token) != may) fail("mask and accept differ in " + std::string(text));
      if (!may) return false;
    }
    return matcher.may_end();
  }

  bool may_follow(std::string_view text, int32_t token) const {
    GrammarMatcher matcher(masks_);
    for (int32_t one : tokens(text))
      if (!matcher.accept(one)) return false;
    return (matcher.mask()[static_cast<size_t>(token) / 64] >> (token % 64)) & 1;
  }

  // None: it came to no end, in so many tokens. Where no token may come, a text ends.
  std::optional<std::vector<int32_t>> walk(uint64_t seed) const {
    std::mt19937_64 random(seed);
    GrammarMatcher matcher(masks_);
    std::vector<int32_t> out;
    const size_t soon = 20 + random() % 300;
    auto take = [&](int32_t token) { return matcher.accept(token) && (out.push_back(token), true); };
    while (out.size() < 4000) {
      if (matcher.may_end() && (matcher.complete() || out.size() > soon || random() % 8 == 0)) return out;
      const std::vector<int32_t> allowed = ids(matcher.mask());
      if (allowed.empty()) fail("no token may come behind " + text_of(out));
      const auto& hints = out.size() > soon ? ends_ : hints_;
      if (allowed.size() > 1 && random() % 8 < (out.size() > soon ? 7 : 4)) {
        const size_t before = out.size();
        for (int32_t token : hints[random() % hints.size()])
          if (!take(token)) break;
        if (out.size() > before) continue;
      }
      std::vector<int32_t> plain;
      for (int32_t token : allowed)
        if (token >= 256 || (token < 256 && is_plain(token))) plain.push_back(token);
      const auto& from = plain.empty() || random() % 8 == 0 ? allowed : plain;
      if (!take(from[random() % from.size()])) return std::nullopt;
    }
    return std::nullopt;
  }

  std::vector<Written> call(const std::vector<int32_t>& arguments) const {
    const reply::WrittenCalls& w = family_.written;
    std::string before = filled(w.begin) + filled(w.call) + "f" + filled(w.named);
    if (family_.format == ReplyFormat::kRecipient) before.erase(0, 3);  // the prompt has it
    std::vector<int32_t> all = tokens(before);
    all.insert(all.end(), arguments.begin(), arguments.end());
    for (int32_t token : tokens(filled(w.end) + filled(w.close))) all.push_back(token);
    std::vector<Written> out;
    for (int32_t token : all) {
      const bool control = token >= 256;
      if (control || out.empty() || out.back().control) out.push_back({"", control});
      out.back().text += tokenizer_.piece(token, true);
    }
    return out;
  }

  std::vector<int32_t> tokens(std::string_view text) const {
    std::vector<int32_t> out;
    (void)tokenizer_.encode(text, true, &out);
    return out;
  }

  std::vector<ReplyPart> read(const std::vector<Written>& pieces) const {
    ReplyParser parser(style_);
    std::vector<ReplyPart> parts;
    for (const Written& piece : pieces) parser.push(piece.text, piece.control, &parts);
    parser.finish(&parts);
    return parts;
  }

 private:
  std::string text_of(const std::vector<int32_t>& ids) const {
    std::string text;
    for (int32_t id : ids) text += tokenizer_.piece(id, true);
    return text;
  }
  static void fail(const std::string& what) {
    fprintf(stderr, "arguments_rig: %s\n", what.c_str());
    abort();
  }
  static std::string filled(std::string_view text) {
    std::string out(text);
    for (const auto& [from, to] : {std::pair("%d", "0"), std::pair("%D", "1"), std::pair("%i", "Abc123xyz"), std::pair("%s", "")})
      for (size_t at; (at = out.find(from)) != std::string::npos;) out.replace(at, 2, to);
    return out;
  }
  bool is_plain(int32_t token) const {
    const auto c = static_cast<unsigned char>(tokenizer_.piece(token, true)[0]);
    return c >= 0x20 && c < 0x7F;
  }
  // Without those that would end the answer.
  std::vector<int32_t> ids(std::span<const uint64_t> mask) const {
    std::vector<int32_t> out;
    for (int32_t token = 0; token < static_cast<int32_t>(tokenizer_.vocab_size()); ++token) {
      const bool may = (mask[static_cast<size_t>(token) / 64] >> (token % 64)) & 1;
      if (may && !tokenizer_.is_end(token)) out.push_back(token);
    }
    return out;
  }
  void add_hints() {
    std::vector<std::string> ends{"\"", "}", "]", ", ", "\": ", "<|\"|>", "\n"}, all{"null",
                                                                                     "true",
                                                                                     "False",
                                                                                     "5",
                                                                                     "-1.5e3",
                                                                                     "\"x\"",
                                                                                     "[1]",
                                                                                     "{\"a\": 1}",
                                                                                     "None",
                                                                                     " ",
                                                                                     "Zürich 東京 👍",
                                                                                     "2024-02-29",
                                                                                     "https://example.org/x",
                                                                                     "</",
                                                                                     "<",
                                                                                     "\\u00e9\\/",
                                                                                     "<b>x</b>",
                                                                                     "]]>",
                                                                                     "a\"b'c"};
    if (const reply::TagForm* form = family_.written.tags) {
      const std::string close(form->close.substr(0, form->close.find("%k")));
      ends.push_back(std::string(form->pad) + close);
      ends.push_back(close);
      for (std::string_view mark : {form->begin(), form->quote, form->unquote}) ends.emplace_back(mark);
      all.push_back(close.substr(0, close.size() / 2));
      all.push_back("x" + close.substr(0, close.size() - 2));
    }
    for (const std::string& hint : ends)
      if (!hint.empty()) ends_.push_back(tokens(hint));
    hints_ = ends_;
    for (const std::string& hint : all) hints_.push_back(tokens(hint));
  }

  const Tokenizer& tokenizer_;
  const reply::Family& family_;
  std::string parameters_;
  ReplyStyle style_;
  std::shared_ptr<GrammarMasks> masks_;
  std::vector<std::vector<int32_t>> hints_, ends_;
};

}  // namespace kvrt::rig
