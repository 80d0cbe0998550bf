// Edits of a conversation: they change its tokens and messages when a message is added, the turn is opened, a span is erased, or an answer
// ends. Values in, values out: no lock, no KV. The template's text decides; tokens that the model sampled are kept as they are. A call that
// fails may leave *said half changed: its caller drops it.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/conversation/conversation.h"
#include "runtime/engine/conversation/generation.h"
#include "runtime/engine/resources/loaded_model.h"

namespace kvrt {

// Keeps the first tokens, the messages that end within them, and of an answer that ends beyond what its tokens there say.
void truncate(const LoadedModel& model, const std::string& tools, uint64_t tokens, Conversation* said);
// Adds one message, which is normalized.
Status add_message(const LoadedModel& model, const TemplateArguments& arguments, std::string message, Conversation* said);
// Replaces all messages. Leading ones that are the same keep their tokens.
Status replace_messages(const LoadedModel& model, const TemplateArguments& arguments, std::vector<std::string> messages,
                        Conversation* said);
// Adds the template's generation prompt, unless the model's own turn goes on.
Status open_turn(const LoadedModel& model, const TemplateArguments& arguments, Conversation* said);
// Drops tokens [from, to), and with them tokens that only joined their messages to the next one (a newline, say): the rest then spells the
// template's text of the remaining messages. INVALID: the span is past the end, or cuts a message in two.
Status erase(const LoadedModel& model, const TemplateArguments& arguments, uint64_t from, uint64_t to, Conversation* said);
// Makes the answer, whose tokens end the conversation, a message: a new one, or the last one anew, if that turn went on.
void add_answer(const LoadedModel& model, const Generation& generation, Conversation* said);

}  // namespace kvrt
