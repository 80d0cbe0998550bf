// TurnLock: a mutex that is given in the order in which it was asked for. Mutex mostly goes back to the thread that has just let it go, so
// that a loop of long holds (one model's steps) keeps others (another model's step, a load) out for many rounds.
#pragma once

#include <cstdint>

#include "runtime/base/mutex.h"

namespace kvrt {

class KVRT_THREAD_SAFETY(capability("mutex")) TurnLock {
 public:
  void lock() KVRT_THREAD_SAFETY(acquire_capability()) {
    Lock lock(mu_);
    const uint64_t turn = asked_++;
    while (turn != given_) changed_.wait(mu_);
  }
  void unlock() KVRT_THREAD_SAFETY(release_capability()) {
    {
      Lock lock(mu_);
      ++given_;
    }
    changed_.notify_all();
  }
  // True while somebody has the lock, or waits for it.
  bool wanted() {
    Lock lock(mu_);
    return asked_ != given_;
  }

 private:
  Mutex mu_;
  Condition changed_;
  uint64_t asked_ KVRT_GUARDED_BY(mu_) = 0, given_ KVRT_GUARDED_BY(mu_) = 0;
};

}  // namespace kvrt
