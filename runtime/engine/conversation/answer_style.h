// The style in which a model writes its answers: its marks for reasoning and tool calls.
#pragma once

#include "runtime/engine/generation.h"
#include "runtime/engine/loaded_model.h"

namespace kvrt {

// The style of the next answer in a conversation: as `kind` says, else as the model's template shows. `tools`: JSON, "" where the
// conversation has none.
ReplyStyle answer_style(const LoadedModel& model, const Conversation& said, const std::string& tools, ReplyKind kind);

}  // namespace kvrt
