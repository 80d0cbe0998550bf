// Conversation: what a session says: tokens, the messages they are, and the grammar of the answer that goes on. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvrt {

enum class GrammarKind : uint32_t { kNone, kGbnf, kJsonSchema, kContinue };

// What an answer has to be. Its place among the tokens is all that a matcher needs besides: it takes them again.
struct AnswerGrammar {
  GrammarKind kind = GrammarKind::kNone;
  std::string source;
  uint64_t begin = 0;  // the answer's first token
};

// A message and the tokens [begin, end) that it became. A generated one keeps its sampled tokens.
struct Message {
  std::string json;
  uint64_t begin = 0, end = 0;
  bool generated = false;
};

// What a session says: all that a call may have to put back.
struct Conversation {
  std::vector<int32_t> tokens;
  std::vector<Message> messages;
  AnswerGrammar grammar;
};

}  // namespace kvrt
