// What the calling thread asks of the system.
#pragma once

#include <cstddef>

namespace kvrt {

// A set of signals as the system has it.
struct SignalSet {
  alignas(std::max_align_t) unsigned char bytes[128];
};

// While it lives, the thread takes no signal, and a thread that it starts never will: signals are for the host's threads.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  SignalSet before_;
};

// While it lives, the thread gets no SIGXFSZ, and one that its own writes cause is taken back: a write past the limit of a file's size
// (RLIMIT_FSIZE) is an error of the call, EFBIG, and not the end of the host. Handlers and dispositions are the host's, and stay as they are.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal();
  ~NoFileSizeSignal();
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  SignalSet before_;
  bool pending_;  // the host's own signal was pending before
};

// While it lives, a pthread_cancel of the thread waits: it would unwind the call half-way, and glibc ends a process that catches it.
class NotCancelled {
 public:
  NotCancelled();
  ~NotCancelled();
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_;
};

// Threads that compute come before this one from now on.
void be_nice(int niceness);

}  // namespace kvrt
