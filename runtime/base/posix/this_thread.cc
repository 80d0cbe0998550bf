#include "runtime/base/this_thread.h"

#include <pthread.h>

#include <cerrno>
#include <ctime>

namespace kvrt {

namespace {
sigset_t only_file_size() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}
}  // namespace

NoFileSizeSignal::NoFileSizeSignal() {
  const sigset_t set = only_file_size();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
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
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = err;
}

}  // namespace kvrt
