// Mutex and its kin: those of the standard library, with the attributes of clang's thread safety analysis (-Wthread-safety). They say which
// member a mutex guards and which function wants it held. clang checks them (./dev lint); other compilers pass over them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define KVRT_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define KVRT_THREAD_SAFETY(attribute)
#endif
// Of a member: it is used with `mu` held; of a pointer: the object that it points to.
#define KVRT_GUARDED_BY(mu) KVRT_THREAD_SAFETY(guarded_by(mu))
#define KVRT_PT_GUARDED_BY(mu) KVRT_THREAD_SAFETY(pt_guarded_by(mu))
// Of a function: its caller holds the mutex, and it does on return.
#define KVRT_REQUIRES(...) KVRT_THREAD_SAFETY(requires_capability(__VA_ARGS__))
// Of a mutex: its place in the order of locks.
#define KVRT_ACQUIRED_BEFORE(...) KVRT_THREAD_SAFETY(acquired_before(__VA_ARGS__))
// Of a function whose locks clang cannot follow. The reason stands beside it.
#define KVRT_NO_THREAD_SAFETY_ANALYSIS KVRT_THREAD_SAFETY(no_thread_safety_analysis)

namespace kvrt {

// Hears of each time that a mutex is held, from the thread that holds it. A Condition's wait is between two of them.
class HoldWatch {
 public:
  virtual ~HoldWatch() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
};

class KVRT_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  explicit Mutex(HoldWatch* watch) : watch_(watch) {}
  void watch(HoldWatch* watch) { watch_ = watch; }  // null: none. While no thread uses the mutex

  void lock() KVRT_THREAD_SAFETY(acquire_capability()) {
    mu_.lock();
    if (watch_) watch_->begin();
  }
  void unlock() KVRT_THREAD_SAFETY(release_capability()) {
    if (watch_) watch_->end();
    mu_.unlock();
  }
  bool try_lock() KVRT_THREAD_SAFETY(try_acquire_capability(true)) {
    if (!mu_.try_lock()) return false;
    if (watch_) watch_->begin();
    return true;
  }

 private:
  friend class Condition;
  std::mutex mu_;
  HoldWatch* watch_ = nullptr;
};

// Holds a Mutex or a TurnLock from here to the end of its scope.
template <typename M>
class KVRT_THREAD_SAFETY(scoped_lockable) Lock {
 public:
  explicit Lock(M& mu) KVRT_THREAD_SAFETY(acquire_capability(mu)) : mu_(mu) { mu_.lock(); }
  // Of a mutex that is held already.
  Lock(M& mu, std::adopt_lock_t) KVRT_REQUIRES(mu) : mu_(mu) {}
  ~Lock() KVRT_THREAD_SAFETY(release_capability()) { mu_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  M& mu_;
};

// The contrary: lets a Mutex that is held go until the end of its scope, also when that is an exception.
class KVRT_THREAD_SAFETY(scoped_lockable) Unlocked {
 public:
  explicit Unlocked(Mutex& mu) KVRT_THREAD_SAFETY(release_capability(mu)) : mu_(mu) { mu_.unlock(); }
  ~Unlocked() KVRT_THREAD_SAFETY(release_capability()) { mu_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Mutex& mu_;
};

// A condition variable of a Mutex. Its waiters look again in a loop: a wait may end without a notification.
class Condition {
 public:
  void wait(Mutex& mu) KVRT_REQUIRES(mu) {
    std::unique_lock lock(mu.mu_, std::adopt_lock);
    if (mu.watch_) mu.watch_->end();
    changed_.wait(lock);
    if (mu.watch_) mu.watch_->begin();
    (void)lock.release();
  }
  // False: the time came.
  bool wait_until(Mutex& mu, std::chrono::steady_clock::time_point until) KVRT_REQUIRES(mu) {
    std::unique_lock lock(mu.mu_, std::adopt_lock);
    if (mu.watch_) mu.watch_->end();
    const bool notified = changed_.wait_until(lock, until) == std::cv_status::no_timeout;
    if (mu.watch_) mu.watch_->begin();
    (void)lock.release();
    return notified;
  }
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace kvrt
