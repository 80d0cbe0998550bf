// What Ctrl-C means in a chat.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string_view>
#include <thread>

#include "include/kvrt.h"

namespace cli {

// Takes SIGINT on a thread of its own, where calling kvrt is allowed; every other thread has it blocked (made before the runtime, whose
// threads inherit that). What Ctrl-C means depends on what runs: loading stops, an answer is cancelled, a prompt gets a hint.
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, &old_);
    thread_ = std::thread([this] { loop(); });
  }
  ~Interrupts() {
    quit_ = true;
    pthread_kill(thread_.native_handle(), SIGINT);
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  void answering(kvrt_session* session) {
    std::lock_guard lock(mutex_);
    session_ = session;
  }
  void ready() { loading_ = false; }
  const std::atomic<bool>* stop_loading() const { return &stop_; }

 private:
  void loop() {
    for (int signal = 0; sigwait(&set_, &signal) == 0 && !quit_;) {
      std::lock_guard lock(mutex_);
      if (session_) {
        kvrt_session_cancel(session_, nullptr);
      } else if (loading_) {
        stop_ = true;
      } else {
        constexpr std::string_view hint = "\n(/quit or Ctrl-D leaves)\n> ";
        if (write(STDERR_FILENO, hint.data(), hint.size()) < 0) return;
      }
    }
  }

  sigset_t set_{}, old_{};
  std::atomic<bool> quit_ = false, loading_ = true, stop_ = false;
  std::mutex mutex_;
  kvrt_session* session_ = nullptr;  // under mutex_: the one that generates
  std::thread thread_;
};

}  // namespace cli
