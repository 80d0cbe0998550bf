// Conversations: the calls that change a session's tokens and messages, or read them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/engine/session/engine_lock.h"
#include "runtime/engine/session/session_gate.h"

namespace kvrt {

// What kvrt_session_message gives.
struct MessageInfo : Message {
  bool ended = false;  // generated, and its last token ends a turn
};

// Thread-safe; calls on one session do not overlap. They compute nothing. One that fails changes nothing.
class Conversations {
 public:
  Conversations(EngineLock* lock, Env* env, const LoadedModel* model, KvCache* cache, SessionGate* gate)
      : lock_(lock), env_(env), model_(*model), cache_(cache), gate_(gate) {}

  Status append(Session* session, std::span<const int32_t> tokens);
  Status append_text(Session* session, std::string_view text, bool parse_special);
  Result<AppendInfo> append_message(Session* session, std::string_view message_json);
  Result<AppendInfo> set_messages(Session* session, std::string_view messages_json);
  Status truncate(Session* session, uint64_t count);
  Status erase(Session* session, uint64_t from, uint64_t to);
  Status mark(Session* session, uint64_t tokens);  // 0: all of them
  std::vector<int32_t> tokens(const Session* session) const;
  std::optional<MessageInfo> message(const Session* session, uint64_t index) const;

 private:
  Result<AppendInfo> edit(Session* session, const char* call, const std::function<Status(Conversation*)>& change);

  EngineLock* const lock_;
  Env* const env_;
  const LoadedModel& model_;
  KvCache* const cache_ KVRT_PT_GUARDED_BY(lock_->mu);
  SessionGate* const gate_ KVRT_PT_GUARDED_BY(lock_->mu);
};

}  // namespace kvrt
