// Engine: the saves that nobody asked for, by a session's policy: which are due, and how they give way to sessions that compute.
#include <algorithm>
#include <chrono>

#include "runtime/base/limits.h"
#include "runtime/engine/engine.h"

namespace kvrt {

Status Engine::set_autosave(const SessionOptions& options, Session* session) {
  if (!options.autosave.on()) return {};
  session->autosave = std::make_unique<Autosave>();
  session->autosave->policy = options.autosave;
  KVRT_ASSIGN(session->autosave->saver, runtime_->autosaver(options.store.get()));
  return {};
}

// True where the session has so many more tokens than at the last save, or tokens with KV: these may have come before it was computed.
bool Engine::has_grown(Session* session) {
  Autosave& a = *session->autosave;
  if (!a.policy.every_tokens) return false;
  const uint64_t n = session->tokens.size(), kv = session->kv.ready(n);
  a.seen_tokens = std::min(a.seen_tokens, n);
  a.seen_kv = std::min(a.seen_kv, kv);
  return n - a.seen_tokens >= a.policy.every_tokens || kv - a.seen_kv >= a.policy.every_tokens;
}

// Notes activity of the session, and tells the saver when to look at it. Under mu_.
void Engine::note_activity(Session* session) {
  Autosave& a = *session->autosave;
  a.active_ns = runtime_->env()->now_ns();
  if (a.turn_over || has_grown(session)) {
    a.saver->look(session, 0);
  } else if (a.policy.idle_ms) {
    a.saver->look(session, a.active_ns + uint64_t{a.policy.idle_ms} * 1'000'000);
  }
}

// The saver's look at a session: saves it if a save is due. Gives the time of the next look.
uint64_t Engine::autosave(Session* session) {
  {
    Lock lock(mu_);
    Autosave& a = *session->autosave;
    const uint64_t idle_at = a.active_ns + uint64_t{a.policy.idle_ms} * 1'000'000;
    const bool idle = a.policy.idle_ms && a.active_ns && runtime_->env()->now_ns() >= idle_at;
    const bool grown = has_grown(session);
    if (idle) a.active_ns = 0;
    if (!idle && !grown && !a.turn_over) return a.policy.idle_ms && a.active_ns ? idle_at : kNever;
    a.turn_over = false;
    a.seen_tokens = session->tokens.size();
    a.seen_kv = session->kv.ready(a.seen_tokens);
  }
  save_unasked(session);
  Lock lock(mu_);
  const Autosave& a = *session->autosave;
  return a.policy.idle_ms && a.active_ns ? a.active_ns + uint64_t{a.policy.idle_ms} * 1'000'000 : kNever;
}

// Nobody waits for the status: it is logged, and in session_info. The next occasion tries again.
void Engine::save_unasked(Session* session) noexcept {
  try {
    SaveOptions options;
    options.autosave = true;
    auto saved = save(session, "", options);
    if (saved.is_ok() && saved->revision == 0) return;
    std::string name;  // another save may change the session's
    {
      Lock lock(mu_);
      if (saved.is_ok() && (std::exchange(session->autosave->left_out, saved->left_out) || !saved->left_out)) return;
      name = session->saved.name.empty() ? session->autosave->policy.name : session->saved.name;
    }
    logf(runtime_->log(), LogLevel::kWarn, "autosave of session \"%s\": %s", name.c_str(),
         saved.is_ok() ? "the store has no room for KV: its tokens are saved" : saved.status().message().c_str());
  } catch (...) {
    if (runtime_->log()) runtime_->log()->write(LogLevel::kWarn, "autosave: the system gave no memory");
  }
}

// Pauses between two portions of an autosave: sessions that compute have the machine for a while, unless somebody waits for the save.
void Engine::give_way(Session* session, uint64_t worked_ns) {
  Lock lock(mu_);
  if (step_->queue.runnable_count() == 0) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::min(kSaverPauseMaxNs, worked_ns * kSaverPause));
  while (!session->use.save_waits() && !session->use.closing() && !step_->queue.starved()) {
    if (!pressed_.wait_until(mu_, until)) break;
  }
}

// Saves the rest of a session before it is closed, unless it has failed.
void Engine::last_save(Session* session) {
  session->autosave->saver->remove(session);
  bool failed;
  {
    Lock lock(mu_);
    failed = session->state == SessionState::kFailed;
  }
  if (!failed) save_unasked(session);
}

}  // namespace kvrt
