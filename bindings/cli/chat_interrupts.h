// The signals of a chat.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>

#include "bindings/cli/common.h"

namespace cli {

// Takes signals on a thread of its own; every other thread blocks them (it is made before the runtime, whose threads inherit that). Ctrl-C
// stops the answer or command that runs; at the prompt it shows a hint; before the first prompt it ends the chat as soon as what runs can be
// stopped, and a second one at once. SIGTERM, or SIGHUP from a terminal that closes, ends the chat whatever runs; a second SIGTERM ends it at
// once, but no second SIGHUP: a closing terminal sends two. Signals that the parent made ignored (nohup) stay so.
class Interrupts {
 public:
  Interrupts() : main_(pthread_self()) {
    sigemptyset(&set_);
    sigaddset(&set_, kQuit);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      if (!is_ignored(signal)) sigaddset(&set_, signal);  // one that is both ignored and blocked would reach sigwait
    }
    pthread_sigmask(SIG_BLOCK, &set_, &old_);
    struct sigaction wake {};  // without SA_RESTART: a read that waits for a key returns
    wake.sa_handler = [](int) {};
    sigaction(SIGUSR1, &wake, nullptr);
    watch_reader();
    thread_ = std::thread([this] { loop(); });
  }
  ~Interrupts() {
    quit_ = true;
    pthread_kill(thread_.native_handle(), kQuit);
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  // on: the thread that made this is about to wait for keys; it asks ended() before its first wait. A stop that came earlier is cleared.
  // off: a Ctrl-C just before is for the answer: the line editor was done with the line, and Ctrl-C a key no more.
  void reading(bool on) {
    if (on) {
      prompted_ = true;
      stop_ = false;
      interrupted_ = -kJustBefore;
    }
    reading_ = on;
    if (!on && Clock::now().time_since_epoch().count() - interrupted_ < kJustBefore) stop_ = true;
  }
  bool ended() const { return ended_; }
  // True from a Ctrl-C on until the next line is read, and from a kill on.
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  void loop() {
    sigset_t all;  // the line editor's signals are for the thread that reads: a stop that another one took would not redraw the line
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    for (int signal = 0; sigwait(&set_, &signal) == 0 && !quit_;) {
      if (signal == kQuit) continue;  // another program's
      if (signal != SIGINT) {
        end(signal);
        continue;
      }
      interrupted_ = Clock::now().time_since_epoch().count();
      if (!reading_) {
        if (stop_.exchange(true) && !prompted_) die(signal);
      } else if (!ended_) {
        constexpr std::string_view hint = "\n(/quit or Ctrl-D leaves)\n> ";
        if (write(STDERR_FILENO, hint.data(), hint.size()) < 0) continue;  // nobody reads hints
      }
    }
  }

  // The signal ends the program, as if nobody took it.
  void die(int signal) {
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    raise(signal);
  }

  void end(int signal) {
    if (ended_.exchange(true)) {
      if (signal == SIGHUP) return;
      die(signal);
    }
    stop_ = true;
    for (; reading_ && !quit_; usleep(10'000)) pthread_kill(main_, SIGUSR1);
  }

  static constexpr int kQuit = SIGUSR2;  // ends the thread
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kJustBefore = Clock::duration(std::chrono::seconds(1)).count();

  const pthread_t main_;
  sigset_t set_{}, old_{};
  std::atomic<int64_t> interrupted_ = -kJustBefore;  // when Ctrl-C came last, in this read or since
  std::atomic<bool> quit_ = false, stop_ = false, reading_ = false, ended_ = false;
  std::atomic<bool> prompted_ = false;  // the first prompt was there
  std::thread thread_;
};

}  // namespace cli
