// One call at a time on a session, detected: concurrent and re-entrant calls are BUSY.
#pragma once

#include "runtime/api/boundary.h"

namespace kvrt::api {

inline void destroy(kvrt_session* handle) {
  handle->host->close(handle->session);
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
    std::unique_lock lock(handle_->mu);
    if (handle_->close_at_return) {
      handle_->idle.wait(lock, [&] { return handle_->checkpoints == 0; });
      lock.unlock();
      destroy(handle_);
      return;
    }
    handle_->busy = false;
    handle_->owner = std::thread::id();
    handle_->idle.notify_all();  // under the lock: whoever closes destroys the handle after it has had the lock
  }
  Status enter(const char* name) {
    KVRT_TRY(check(handle_, "session"));
    std::lock_guard lock(handle_->mu);
    if (handle_->busy) {
      bool mine = handle_->owner == std::this_thread::get_id();
      return error(Code::kBusy, mine ? Detail::kReentrant : Detail::kConcurrent,
                   mine ? "%s: called from inside a callback of the same session" : "%s: another thread is inside a call on this session",
                   name);
    }
    handle_->busy = true;
    handle_->owner = std::this_thread::get_id();
    entered_ = true;
    return {};
  }

 private:
  kvrt_session* handle_;
  bool entered_ = false;
};

// A checkpoint goes beside the session's one call, on any thread.
class CheckpointCall {
 public:
  explicit CheckpointCall(kvrt_session* handle) : handle_(handle) {}
  CheckpointCall(const CheckpointCall&) = delete;
  CheckpointCall& operator=(const CheckpointCall&) = delete;
  ~CheckpointCall() {
    if (!entered_) return;
    std::lock_guard lock(handle_->mu);
    --handle_->checkpoints;
    handle_->idle.notify_all();
  }
  Status enter() {
    KVRT_TRY(check(handle_, "session"));
    std::lock_guard lock(handle_->mu);
    ++handle_->checkpoints;
    entered_ = true;
    return {};
  }

 private:
  kvrt_session* handle_;
  bool entered_ = false;
};

}  // namespace kvrt::api
