// Autosaver: a store's one thread that saves sessions by their policy. It sleeps while none is due.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>

#include "runtime/base/env.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace kvrt {

struct Session;

inline constexpr uint64_t kNever = UINT64_MAX;

// Thread-safe. Its lock may be taken under an Engine's, never the other way round. The destructor ends the thread.
class Autosaver {
 public:
  static Result<std::shared_ptr<Autosaver>> start(Env* env);
  ~Autosaver();
  Autosaver(const Autosaver&) = delete;
  Autosaver& operator=(const Autosaver&) = delete;

  // Saves a session if a save is due. Gives the time of the next look.
  using Save = std::function<uint64_t(Session*)>;
  void add(Session* session, Save save);
  void remove(Session* session);                // waits for a running save of it
  void look(Session* session, uint64_t at_ns);  // no later than that time of the Env's clock

 private:
  struct Entry {
    Save save;
    uint64_t look_ns;
  };
  explicit Autosaver(Env* env) : env_(env) {}
  void run();

  Env* const env_;
  Mutex mu_;
  Condition changed_, worked_;
  std::unordered_map<Session*, Entry> entries_ KVRT_GUARDED_BY(mu_);
  Session* working_ KVRT_GUARDED_BY(mu_) = nullptr;  // the thread saves it now
  uint64_t sleeps_until_ KVRT_GUARDED_BY(mu_) = 0;
  bool stop_ KVRT_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvrt
