// Every call of a session is one of these two, which keep the handle until the call returns. One call at a time: a concurrent or re-entrant
// one is detected, and is BUSY.
#pragma once

#include "runtime/api/boundary.h"

namespace kvrt::api {

inline void destroy(kvrt_session* handle) {
  handle->engine->sessions().close(handle->session);
  handle->head.magic = 0;
  delete handle;
}

// One call at a time on a session. A close from inside a callback takes effect when the call returns.
class SessionCall {
 public:
  explicit SessionCall(kvrt_session* handle) : handle_(handle) {}
  SessionCall(const SessionCall&) = delete;
  SessionCall& operator=(const SessionCall&) = delete;
  ~SessionCall() {
    if (!entered_) return;
    if (leave()) destroy(handle_);
  }
  Status enter(const char* name) {
    KVRT_TRY(check_handle(handle_ ? &handle_->head : nullptr, kSessionMagic, "session"));
    Lock lock(handle_->mu);
    if (handle_->busy) {
      bool mine = handle_->owner == std::this_thread::get_id();
      return error(Code::kBusy, mine ? Detail::kReentrant : Detail::kConcurrent,
                   mine ? "%s: called from inside a callback of the same session" : "%s: another thread is inside a call on this session",
                   name);
    }
    handle_->busy = true;
    handle_->cancel_asked = false;
    handle_->owner = std::this_thread::get_id();
    entered_ = true;
    return {};
  }

 private:
  // True: a callback closed the session, and the handle is this call's to destroy.
  bool leave() {
    Lock lock(handle_->mu);
    if (handle_->close_at_return) {
      while (handle_->beside > 0) handle_->idle.wait(handle_->mu);
      return true;
    }
    handle_->busy = false;
    handle_->owner = std::thread::id();
    handle_->idle.notify_all();  // under the lock: a close takes the lock before it destroys the handle
    return false;
  }

  kvrt_session* handle_;
  bool entered_ = false;
};

// A call that may run beside the session's one call, on any thread: cancel, accept, checkpoint and calls that read. A close waits for it.
class BesideCall {
 public:
  explicit BesideCall(const kvrt_session* handle) : handle_(handle) {}
  BesideCall(const BesideCall&) = delete;
  BesideCall& operator=(const BesideCall&) = delete;
  ~BesideCall() {
    if (!entered_) return;
    Lock lock(handle_->mu);
    --handle_->beside;
    handle_->idle.notify_all();
  }
  Status enter() {
    KVRT_TRY(check_handle(handle_ ? &handle_->head : nullptr, kSessionMagic, "session"));
    Lock lock(handle_->mu);
    ++handle_->beside;
    entered_ = true;
    return {};
  }

 private:
  const kvrt_session* handle_;
  bool entered_ = false;
};

}  // namespace kvrt::api
