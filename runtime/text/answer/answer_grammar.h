// The grammar of a whole answer: reasoning, which is free, then content that a grammar or a JSON schema binds, or the calls of tools as the
// model's family writes them, with arguments that fit the tools' schemas.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/text/grammar/grammar.h"
#include "runtime/text/reply/reply_parser.h"

namespace kvrt {

// kDefault: as kAuto where the session has tools and the model's family is known to call them as its template does (ReplyStyle::fits), else as
// free.
enum class ToolChoice : uint32_t { kDefault, kNone, kAuto, kRequired, kNamed };

// What an application asks of an answer.
struct AnswerAsk {
  // Of the content: kNone is free. With another there are calls by kAuto alone: the answer is calls, or content that fits.
  GrammarKind kind = GrammarKind::kNone;
  std::string source{};
  // kNone: the marks of calls do not come. kAuto: a call is bound from its first mark on. kRequired: there is one. kNamed: of this tool.
  // A call ends the answer, or another follows it, each behind white space or none.
  ToolChoice choice = ToolChoice::kDefault;
  std::string tool_name{};
  uint32_t calls_max = 0, reasoning_tokens_max = 0;  // 0: no limit. The second is AnswerGuide's, not the grammar's
};

struct AnswerRules : AnswerAsk {  // its kind is not kContinue
  ReplyStyle style{};
  AnswerPlace place = AnswerPlace::kBegin;
  std::string tools{};          // JSON, as templates have it
  bool reasoning_over = false;  // the rest of an answer whose reasoning has to end here
};

// False: nothing binds such an answer, at no place.
bool may_bind(const AnswerRules& rules);

// Null: nothing is bound. The grammar is of this vocabulary alone. INVALID (kGrammarError), UNSUPPORTED and LIMIT (kGrammarLimit): the grammar
// or schema, as Grammar's; a tool's schema, which the message names; tools that are no list of functions; no such tool; a family that is not
// known to call tools. With kDefault none of these: a schema that cannot be had binds its tool to an object, other tools than those are not bound.
Result<std::shared_ptr<const Grammar>> answer_grammar(const AnswerRules& rules, const GrammarVocab& vocab);

}  // namespace kvrt
