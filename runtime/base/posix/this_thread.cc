#include "runtime/base/this_thread.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

namespace kvrt {

namespace {

static_assert(sizeof(sigset_t) <= sizeof(SignalSet::bytes));

sigset_t& posix(SignalSet& set) { return *reinterpret_cast<sigset_t*>(set.bytes); }

sigset_t only_file_size() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &posix(before_));
}
SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &posix(before_), nullptr); }

NoFileSizeSignal::NoFileSizeSignal() {
  const sigset_t set = only_file_size();
  pthread_sigmask(SIG_BLOCK, &set, &posix(before_));
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  pending_ = sigismember(&pending, SIGXFSZ) == 1;
}

NoFileSizeSignal::~NoFileSizeSignal() {
  const int err = errno;
  if (!pending_) {
    const sigset_t set = only_file_size();
    const timespec now{};
    while (sigtimedwait(&set, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &posix(before_), nullptr);
  errno = err;
}

NotCancelled::NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
NotCancelled::~NotCancelled() { pthread_setcancelstate(before_, nullptr); }

#ifdef __linux__
void be_nice(int niceness) { setpriority(PRIO_PROCESS, 0, niceness); }  // of this thread only, against POSIX
#else
void be_nice(int) {}
#endif

}  // namespace kvrt
