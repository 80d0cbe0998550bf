#include "runtime/engine/snapshot/autosaves.h"

#include <utility>

#include "runtime/engine/resources/autosaver.h"
#include "runtime/engine/session/activity.h"

namespace kvrt {

Status Autosaves::set_policy(const SessionOptions& options, Session* session) {
  if (!options.autosave.on()) return {};
  session->autosave = std::make_unique<Autosave>();
  session->autosave->policy = options.autosave;
  KVRT_ASSIGN(session->autosave->saver, runtime_.autosaver(options.store.get()));
  return {};
}

void Autosaves::begin(Session* session) {
  if (session->autosave) session->autosave->saver->add(session, [this](Session* due) { return look(due); });
}

uint64_t Autosaves::look(Session* session) {
  {
    Lock lock(lock_->mu);
    Autosave& a = *session->autosave;
    const uint64_t idle_at = a.active_ns + uint64_t{a.policy.idle_ms} * 1'000'000;
    const bool idle = a.policy.idle_ms && a.active_ns && runtime_.env()->now_ns() >= idle_at;
    const bool grown = note_growth(session);
    if (idle) a.active_ns = 0;
    if (!idle && !grown && !a.turn_over) return a.policy.idle_ms && a.active_ns ? idle_at : kNever;
    a.turn_over = false;
    a.seen_tokens = session->tokens.size();
    a.seen_kv = session->kv.ready(a.seen_tokens);
  }
  save_unasked(session);
  Lock lock(lock_->mu);
  const Autosave& a = *session->autosave;
  return a.policy.idle_ms && a.active_ns ? a.active_ns + uint64_t{a.policy.idle_ms} * 1'000'000 : kNever;
}

// Nobody waits for the status: it is logged, and in session_info. The next occasion tries again.
void Autosaves::save_unasked(Session* session) noexcept {
  try {
    SaveOptions options;
    options.autosave = true;
    auto saved = saver_->save(session, "", options);
    if (saved.is_ok() && saved->revision == 0) return;
    std::string name;  // another save may change the session's
    {
      Lock lock(lock_->mu);
      if (saved.is_ok() && (std::exchange(session->autosave->left_out, saved->left_out) || !saved->left_out)) return;
      name = session->saved.name.empty() ? session->autosave->policy.name : session->saved.name;
    }
    logf(runtime_.log(), LogLevel::kWarn, "autosave of session \"%s\": %s", name.c_str(),
         saved.is_ok() ? "the store has no room for KV: its tokens are saved" : saved.status().message().c_str());
  } catch (...) {
    if (runtime_.log()) runtime_.log()->write(LogLevel::kWarn, "autosave: the system gave no memory");
  }
}

void Autosaves::last_save(Session* session) {
  session->autosave->saver->remove(session);
  bool failed;
  {
    Lock lock(lock_->mu);
    failed = session->state == SessionState::kFailed;
  }
  if (!failed) save_unasked(session);
}

}  // namespace kvrt
