// Answer: what binds a generation's answer, and what splits it into parts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/conversation/generation.h"
#include "runtime/engine/conversation/grammar_cache.h"
#include "runtime/engine/resources/loaded_model.h"

namespace kvrt {

struct Answer {
  std::unique_ptr<AnswerGuide> guide;  // null: any token may come
  std::optional<ReplyParser> parser;   // none: parts are not wanted
  uint64_t begin = 0;                  // its first token
  ReplyStyle style{};                  // by which its message is read, too
};

// Of the answer that the conversation's next tokens are. It may be the rest of one: then both have taken its tokens. Sets said->grammar for a
// new answer, and takes the texts of `options`. `tools`: the session's, JSON, or "".
Result<Answer> begin_answer(const LoadedModel& model, GrammarCache* grammars, const std::string& tools, Conversation* said,
                            GenerateOptions* options);

// The style of the answer that begins at token `begin`, by the model's template, or as `kind` says.
ReplyStyle answer_style(const LoadedModel& model, std::span<const int32_t> tokens, const std::string& tools, ReplyKind kind,
                        uint64_t begin);
// Tokens [begin, tokens.size()) as an assistant's message. `bytes_cut`: so much of their text is not in it, at its end.
std::string answer_message(const LoadedModel& model, ReplyStyle style, std::span<const int32_t> tokens, uint64_t begin,
                           size_t bytes_cut = 0);

// The bytes at the begin of `text` that say what the generated message says, in other words; 0: it does not begin so. Its last token
// ends the turn: the text up to the same mark must say the same.
size_t size_of_same(const LoadedModel& model, const std::string& tools, std::span<const int32_t> tokens, const Message& m,
                    std::string_view text);

}  // namespace kvrt
