// TurnLock: a mutex that is given in the order in which it was asked for. std::mutex mostly goes back to the thread that has just let it
// go, so that a loop of long holds (one model's steps) keeps others (another model's step, a load) out for many rounds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kvrt {

// Locked by std::lock_guard and its like.
class TurnLock {
 public:
  void lock() {
    std::unique_lock lock(mu_);
    const uint64_t turn = asked_++;
    changed_.wait(lock, [&] { return turn == given_; });
  }
  void unlock() {
    {
      std::lock_guard lock(mu_);
      ++given_;
    }
    changed_.notify_all();
  }
  // True while somebody has the lock, or waits for it.
  bool wanted() {
    std::lock_guard lock(mu_);
    return asked_ != given_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  uint64_t asked_ = 0, given_ = 0;
};

}  // namespace kvrt
