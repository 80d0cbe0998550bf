// The style in which a model writes its answers: its marks for reasoning and tool calls.
#pragma once

#include "runtime/engine/generation.h"
#include "runtime/engine/loaded_model.h"

namespace kvrt {

// The style of the next answer in a conversation: as `kind` says, else as the model's template shows. `tools`: the conversation has some.
ReplyStyle answer_style(const LoadedModel& model, const Conversation& said, bool tools, ReplyKind kind);

}  // namespace kvrt
