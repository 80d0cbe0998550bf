#include "runtime/engine/session/activity.h"

#include <algorithm>

#include "runtime/engine/resources/autosaver.h"

namespace kvrt {

bool note_growth(Session* session) {
  Autosave& a = *session->autosave;
  if (!a.policy.every_tokens) return false;
  const uint64_t n = session->tokens.size(), kv = session->kv.ready(n);
  a.seen_tokens = std::min(a.seen_tokens, n);
  a.seen_kv = std::min(a.seen_kv, kv);
  return n - a.seen_tokens >= a.policy.every_tokens || kv - a.seen_kv >= a.policy.every_tokens;
}

void note_activity(Session* session, Env* env) {
  if (!session->autosave) return;
  Autosave& a = *session->autosave;
  a.active_ns = env->now_ns();
  if (a.turn_over || note_growth(session)) {
    a.saver->look(session, 0);
  } else if (a.policy.idle_ms) {
    a.saver->look(session, a.active_ns + uint64_t{a.policy.idle_ms} * 1'000'000);
  }
}

}  // namespace kvrt
