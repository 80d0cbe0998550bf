// A write past the limit of a file's size (RLIMIT_FSIZE) is an error of the call, EFBIG, and not the end of the host.
#pragma once

#include <csignal>

namespace kvrt {

// From here to the destructor the calling thread gets no SIGXFSZ; one that its own writes cause meanwhile is taken back. Handlers and
// dispositions are the host's, and stay as they are.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal();
  ~NoFileSizeSignal();
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t before_;
  bool pending_;  // the host's own signal was pending before
};

}  // namespace kvrt
