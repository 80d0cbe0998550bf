// SessionGate: what every call on a session needs first, and how the session takes a changed conversation or a generation that is over.
#pragma once

#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/session/session.h"

namespace kvrt {

// What an edit of the conversation did to its tokens.
struct AppendInfo {
  uint64_t appended = 0, rewritten = 0, rewritten_at = 0;
};

// Guarded by Engine's lock.
class SessionGate {
 public:
  SessionGate(Env* env, const LoadedModel* model, KvCache* cache) : env_(env), model_(*model), cache_(cache) {}

  // Where a host's call begins that needs a session which is idle or suspended; else BUSY or INVALID.
  Status enter(Session* session, const char* call);
  // The same of a save, which is no activity: it would be saved again.
  Status check_idle(const Session& session, const char* call) const;
  // After a generation whose caller has gone its session is idle.
  void settle(Session* session);
  // LIMIT if a session of `tokens` tokens and `more` could not be computed, whatever others hold.
  Status check_room(uint64_t tokens, uint64_t more) const;

  // Replaces the session's conversation. Keeps the KV of the leading tokens that are the same.
  AppendInfo become(Session* session, Conversation said) noexcept;
  // After DONE: the session is idle again, and the answer is a message; or all is as before begin.
  void take_done(Session* session);

 private:
  void cut_kv(Session* session, uint64_t count);

  Env* const env_;
  const LoadedModel& model_;
  KvCache* const cache_;
};

}  // namespace kvrt
