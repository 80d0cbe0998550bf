#include "runtime/engine/sessions.h"

#include "runtime/engine/resources/autosaver.h"
#include "runtime/engine/session/kv_root.h"
#include "runtime/engine/snapshot/manifest.h"

namespace kvrt {

Result<Session*> Sessions::open(const SessionOptions& options) {
  auto session = std::make_unique<Session>(kv_.shape);
  runtime_.env()->random(session->saved.id.bytes);
  session->store = options.store;
  session->domain = options.domain;
  session->kv.share = options.share;
  session->drafts = options.drafts;
  KVRT_ASSIGN(session->arguments, normalize_arguments(options.arguments));
  session->arguments.now = runtime_.env()->unix_ms() / 1000;
  Hash256 model;
  if (options.store) {
    KVRT_ASSIGN(model, model_.id(runtime_, options.store));
  }
  session->kv.root = kv_root(model, kv_, runtime_.backend()->numerics(), options.domain);
  session->wake = options.wake;
  KVRT_TRY(autosaves_->set_policy(options, session.get()));
  if (session->autosave) {
    // Of no tokens: no autosave of an empty session.
    session->saved.mark.reset(new SavedSession::Mark{session->kv.root, 0, hash_rest(*session, session->arguments)});
    const std::string& name = session->autosave->policy.name;
    if (!name.empty()) session->open_name = session->store->open_name(session->domain, name);
  }
  Lock lock(lock_->mu);
  KVRT_TRY(enlist(session.get()));
  return session.release();
}

// Adds the session to the queue, and to its saver's. After a failure it is in neither, and its caller's.
Status Sessions::enlist(Session* session) {
  KVRT_TRY(queue_->check_count());
  autosaves_->begin(session);
  try {
    queue_->add(session);
  } catch (...) {
    if (session->autosave) session->autosave->saver->remove(session);
    throw;
  }
  return {};
}

void Sessions::close(Session* session) {
  // Destroyed without the lock: its end may end the saver's thread, close the store, or call the host to free the user data of `wake`.
  const std::unique_ptr<Session> ended(session);
  Lock lock(lock_->mu);
  if (session->state == SessionState::kGenerating && !session->generation->finished) {
    generations_->stop(session, runtime_.env()->now_ns());
  }
  while (session->use.in_step()) lock_->step_over.wait(lock_->mu);  // at most one step: once stopped, it enters no other
  session->use.close();
  if (session->autosave) {
    lock_->pressed.notify_all();
    Unlocked unlocked(lock_->mu);
    autosaves_->last_save(session);
  }
  mailboxes_->forget(session);
  queue_->remove(session);
}

Result<Session*> Sessions::fork(Session* session, std::shared_ptr<Wake> wake) {
  Lock lock(lock_->mu);  // held until the copy is destroyed, on failure: keys are shared
  KVRT_TRY(gate_->enter(session, "fork"));
  cache_->boundaries().mark(&session->kv, session->tokens.size());
  cache_->boundaries().mark_end(&session->kv, session->tokens);
  auto copy = std::make_unique<Session>(session->kv);
  static_cast<SessionValue&>(*copy) = *session;
  runtime_.env()->random(copy->saved.id.bytes);
  if (session->autosave) {
    copy->autosave = std::make_unique<Autosave>(*session->autosave);
    copy->autosave->policy.name.clear();  // the name belongs to the original
    copy->saved.mark = std::make_unique<SavedSession::Mark>();
  }
  KVRT_TRY(enlist(copy.get()));  // nothing fails from here on
  copy->wake = std::move(wake);  // not before: the end of the host's user data calls the host, which may not be under the lock
  cache_->share(copy->kv);
  queue_->touch(copy.get());
  return copy.release();
}

SessionInfo Sessions::info(const Session* session) const {
  SessionInfo info;
  std::string name;
  {
    Lock lock(lock_->mu);
    info.state = session->generation && session->generation->abandoned ? SessionState::kIdle : session->state;
    info.tokens = session->tokens.size();
    info.kv_tokens = session->kv.computed(session->tokens.size());
    info.kv_units = session->kv.units_held();
    info.kv_bytes = info.kv_units * kv_.unit_bytes();
    info.unread = session->mailbox.size();
    info.messages = session->messages.size();
    info.awaits_accept = session->generation && !session->generation->awaited.empty();
    info.inexact = session->stored.inexact;
    info.revision = session->saved.revision;
    info.id = session->saved.id;
    info.name = session->saved.name;
    name = info.name.empty() && session->autosave ? session->autosave->policy.name : info.name;
    info.last_error = session->last_error.clone();
  }
  // The store and the domain are the session's for life.
  if (session->store && !name.empty()) info.other_process = session->store->other_process(session->domain, name);
  return info;
}

}  // namespace kvrt
