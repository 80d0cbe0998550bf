// One thread that looks after the generations of all requests: it ends those whose client has gone, those that take too long, and at the end
// of the server all. It watches the sockets, so a client that leaves is noticed during a prompt, too.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <thread>

#include "kvrt.hpp"

class Watcher {
 public:
  enum Reason { kNone, kGone, kLate, kStopping };

  // A request, from its generation's begin to its end.
  class Watch {
   public:
    Watch(Watcher& watcher, int socket, std::chrono::seconds limit);
    ~Watch();
    Watch(const Watch&) = delete;
    const kvrt::Cancel& cancel() const { return cancel_; }
    Reason reason() const { return reason_; }  // for which it was ended

   private:
    friend class Watcher;
    void end(Reason reason);

    Watcher& watcher_;
    const int socket_;
    const std::chrono::steady_clock::time_point deadline_;
    kvrt::Cancel cancel_;
    std::atomic<Reason> reason_{kNone};
    std::list<Watch*>::iterator place_;
  };

  Watcher();
  ~Watcher();
  void stop_all();  // and all that come later

 private:
  void run();
  void look();
  void wake();

  int wake_fd_;
  std::mutex mu_;
  std::list<Watch*> watches_;
  bool stopping_ = false, over_ = false;
  std::thread thread_;
};
