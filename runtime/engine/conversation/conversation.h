// Conversation: a session's tokens, its messages, and the grammar of the answer that goes on. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/text/answer/answer_grammar.h"

namespace kvrt {

enum class ReplyKind : uint32_t { kNone, kAuto, kPlain, kHermes, kLlama3, kMistral, kGemma, kDeepSeek };

// What an answer must match, and where it began: so its tokens can be taken again.
struct AnswerGrammar {
  GrammarKind kind = GrammarKind::kNone;  // not kContinue
  std::string source{};
  uint64_t begin = 0;                       // the answer's first token
  bool bound = false;                       // false: nothing has to match
  AnswerPlace place = AnswerPlace::kBegin;  // at `begin`
  ReplyKind reply = ReplyKind::kNone;       // by which the model's marks are known; kNone: as its template shows
  ToolChoice choice = ToolChoice::kDefault;
  std::string tool_name{};
  uint32_t calls_max = 0, reasoning_tokens_max = 0;  // 0: no limit
};

// A message and its tokens [begin, end). A generated one keeps its sampled tokens.
struct Message {
  std::string json;
  uint64_t begin = 0, end = 0;
  bool generated = false;
};

// The state that a failed call may have to put back.
struct Conversation {
  std::vector<int32_t> tokens;
  std::vector<Message> messages;
  AnswerGrammar grammar;
  // Leading tokens that are the same whatever the user says first: of tools and a system message. Templates may put these into the user's
  // turn (Gemma), so that no message ends there. 0: not known.
  uint64_t preamble = 0;
  uint64_t dropped = 0;  // bytes of text that the last edit left out, as the vocabulary has no token for them; not saved
};

}  // namespace kvrt
