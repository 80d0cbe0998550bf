// Resumer: makes a session of a snapshot. Tokens and messages come from the store; KV comes from memory if another session has it, else from
// chunks. If the pool could not hold that, the session is suspended.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/engine/resources/runtime.h"
#include "runtime/engine/session/session_gate.h"
#include "runtime/engine/session/session_options.h"
#include "runtime/engine/snapshot/autosaves.h"
#include "runtime/engine/sources/kv_loader.h"

namespace kvrt {

// Thread-safe.
class Resumer {
 public:
  Resumer(EngineLock* lock, const Runtime* runtime, const LoadedModel* model, const ModelKv* kv, KvCache* cache, Queue* queue,
          const Reports* reports, SessionGate* gate, KvLoader* loader, Autosaves* autosaves)
      : lock_(lock),
        runtime_(*runtime),
        model_(*model),
        kv_(*kv),
        cache_(cache),
        queue_(queue),
        reports_(reports),
        gate_(gate),
        loader_(loader),
        autosaves_(autosaves) {}

  // The caller owns the session, and closes it.
  Result<Session*> resume(const SessionOptions& options, std::string_view name, const Progress& progress, Report* report);

 private:
  Result<std::unique_ptr<Session>> restore(const SessionOut& saved, const SessionOptions& options);
  void note_other_root(const SessionOut& saved, uint32_t block_tokens, Session* session) const;
  void mark_restored(Session* session) const;
  Status bring_back(Session* session, const Progress& progress, Report* report) KVRT_REQUIRES(lock_->mu);

  EngineLock* const lock_;
  const Runtime& runtime_;
  const LoadedModel& model_;
  const ModelKv& kv_;
  KvCache* const cache_ KVRT_PT_GUARDED_BY(lock_->mu);
  Queue* const queue_ KVRT_PT_GUARDED_BY(lock_->mu);
  const Reports* const reports_ KVRT_PT_GUARDED_BY(lock_->mu);
  SessionGate* const gate_ KVRT_PT_GUARDED_BY(lock_->mu);
  KvLoader* const loader_ KVRT_PT_GUARDED_BY(lock_->mu);
  Autosaves* const autosaves_;
};

}  // namespace kvrt
