#include "runtime/engine/session/session_gate.h"

#include <algorithm>
#include <utility>

#include "runtime/engine/conversation/edit.h"
#include "runtime/engine/session/activity.h"

namespace kvrt {

Status SessionGate::enter(Session* session, const char* call) {
  settle(session);
  note_activity(session, env_);
  return check_idle(*session, call);
}

Status SessionGate::check_idle(const Session& session, const char* call) const {
  switch (session.state) {
    case SessionState::kIdle:
    case SessionState::kSuspended:
      return {};
    case SessionState::kGenerating:
      return error(Code::kBusy, Detail::kState, "%s: the session is generating; take its events until DONE, or cancel", call);
    case SessionState::kFailed:
      return error(Code::kInvalid, Detail::kState, "%s: the session failed: %s", call, session.last_error.message().c_str());
  }
  return {};
}

void SessionGate::settle(Session* session) {
  if (!session->generation || !session->generation->abandoned) return;
  session->last_error = error(Code::kNoMemory, Detail::kNone, "the generation ended: the system gave no memory");
  session->mailbox.clear();
  session->failure = Status();
  take_done(session);
}

Status SessionGate::check_room(uint64_t tokens, uint64_t more) const {
  const uint64_t n = tokens + more;
  const uint32_t context = model_.dims().context;
  if (n > context || more > context) {
    return error(Code::kLimit, Detail::kNone,
                 "the session would have %llu tokens, the model's context is %u: truncate, or start another session",
                 static_cast<unsigned long long>(n), context);
  }
  const KvShape& shape = cache_->shape();
  const uint64_t units = shape.units_for(n);
  if (units > cache_->size()) {
    return error(Code::kLimit, Detail::kNone,
                 "%llu tokens need %llu units of KV, the pool has %u, which hold %llu tokens: truncate or erase, or raise kv_bytes_max of "
                 "model_open",
                 static_cast<unsigned long long>(n), static_cast<unsigned long long>(units), cache_->size(),
                 static_cast<unsigned long long>(shape.tokens_in(cache_->size())));
  }
  return {};
}

AppendInfo SessionGate::become(Session* session, Conversation said) noexcept {
  const auto &was = session->tokens, &is = said.tokens;
  const auto same = static_cast<uint64_t>(std::mismatch(was.begin(), was.end(), is.begin(), is.end()).first - was.begin());
  const AppendInfo info{is.size() - same, was.size() - same, same};
  if (info.rewritten) cut_kv(session, same);
  static_cast<Conversation&>(*session) = std::move(said);
  return info;
}

void SessionGate::cut_kv(Session* session, uint64_t count) {
  Session& s = *session;
  if (s.state == SessionState::kSuspended) s.kv.cut_known = std::max(s.kv.cut_known, s.stored.own_tokens);  // the store has their KV
  cache_->cut(&s.kv, count);
  s.marked = {};  // the marks behind the cut are gone
  if (s.stored.tail_end > count) s.stored.tail_begin = s.stored.tail_end = 0;
  s.stored.resumed_tokens = std::min(s.stored.resumed_tokens, count);
  s.stored.own_tokens = std::min(s.stored.own_tokens, count);
  const uint64_t T = cache_->block_tokens();
  if (s.stored.other_tokens > count) s.stored.other_tokens = count / s.stored.other->block_tokens * s.stored.other->block_tokens;
  if (s.stored.foreign_tokens > count) s.stored.foreign_tokens = count / T * T;
}

void SessionGate::take_done(Session* session) {
  Session& s = *session;
  Generation& g = *s.generation;
  Reason reason = g.report.reason;
  if (g.before && (reason == Reason::kCancelled || reason == Reason::kFailed)) {
    become(session, std::move(*g.before));
  } else if (!s.drafts) {
    add_answer(model_, g, &s);
  }
  s.generation.reset();
  s.state = SessionState::kIdle;
  if (s.autosave) s.autosave->turn_over |= s.autosave->policy.every_turn;
  note_activity(session, env_);
}

}  // namespace kvrt
