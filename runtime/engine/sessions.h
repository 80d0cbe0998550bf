// Sessions: a model's sessions come and go here: open, fork, close, info. Those of snapshots come by Resumer.
#pragma once

#include <memory>

#include "runtime/engine/session/session_options.h"
#include "runtime/engine/snapshot/autosaves.h"
#include "runtime/engine/sources/kv_memory.h"
#include "runtime/engine/step/generations.h"

namespace kvrt {

struct SessionInfo {
  SessionState state = SessionState::kIdle;
  uint64_t tokens = 0, kv_tokens = 0, kv_units = 0, kv_bytes = 0, unread = 0, messages = 0, revision = 0;
  bool awaits_accept = false, inexact = false;
  int32_t other_process = 0;  // that has the name open for saving, as Store::other_process
  SessionId id;
  std::string name;
  Status last_error;
};

// Thread-safe; calls on one session do not overlap, but for info.
class Sessions {
 public:
  Sessions(EngineLock* lock, const Runtime* runtime, const LoadedModel* model, const ModelKv* kv, KvCache* cache, Queue* queue,
           Generations* generations, Mailboxes* mailboxes, SessionGate* gate, Autosaves* autosaves)
      : lock_(lock),
        runtime_(*runtime),
        model_(*model),
        kv_(*kv),
        cache_(cache),
        queue_(queue),
        generations_(generations),
        mailboxes_(mailboxes),
        gate_(gate),
        autosaves_(autosaves) {}

  // The caller owns the session, and closes it.
  Result<Session*> open(const SessionOptions& options);
  Result<Session*> fork(Session* session, std::shared_ptr<Wake> wake);
  void close(Session* session);
  SessionInfo info(const Session* session) const;

 private:
  Status enlist(Session* session) KVRT_REQUIRES(lock_->mu);

  EngineLock* const lock_;
  const Runtime& runtime_;
  const LoadedModel& model_;
  const ModelKv& kv_;
  KvCache* const cache_ KVRT_PT_GUARDED_BY(lock_->mu);
  Queue* const queue_ KVRT_PT_GUARDED_BY(lock_->mu);
  Generations* const generations_ KVRT_PT_GUARDED_BY(lock_->mu);
  Mailboxes* const mailboxes_ KVRT_PT_GUARDED_BY(lock_->mu);
  SessionGate* const gate_ KVRT_PT_GUARDED_BY(lock_->mu);
  Autosaves* const autosaves_;
};

}  // namespace kvrt
