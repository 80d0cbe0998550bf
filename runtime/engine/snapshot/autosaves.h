// Autosaves: the saves that nobody asked for, by a session's policy: which are due, and the last one before a close.
#pragma once

#include "runtime/engine/session/session_options.h"
#include "runtime/engine/snapshot/saver.h"

namespace kvrt {

// Thread-safe.
class Autosaves {
 public:
  Autosaves(EngineLock* lock, Runtime* runtime, Saver* saver) : lock_(lock), runtime_(*runtime), saver_(saver) {}

  Status set_policy(const SessionOptions& options, Session* session);
  // From now on the store's Autosaver looks at the session, if it has a policy. Under the lock.
  void begin(Session* session);
  // Saves the rest of a session before it is closed, unless it has failed. Its Autosaver looks at it no more.
  void last_save(Session* session);
  // The Autosaver's look at a session: saves it if a save is due. Gives the time of the next look.
  uint64_t look(Session* session);

 private:
  void save_unasked(Session* session) noexcept;

  EngineLock* const lock_;
  Runtime& runtime_;
  Saver* const saver_;
};

}  // namespace kvrt
