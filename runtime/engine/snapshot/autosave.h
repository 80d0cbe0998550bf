// Autosaver: a store's one thread that saves sessions by their policy. It sleeps while none is due.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "runtime/base/env.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace kvrt {

class Engine;
struct Session;

struct AutosavePolicy {
  bool every_turn = false;
  uint32_t every_tokens = 0, idle_ms = 0;  // 0: off
  std::string name;                        // for a session that has none yet
  bool on() const { return every_turn || every_tokens || idle_ms; }
};

inline constexpr uint64_t kNever = UINT64_MAX;

// Thread-safe. Its lock may be taken under an Engine's, never the other way round. The destructor ends the thread.
class Autosaver {
 public:
  static Result<std::shared_ptr<Autosaver>> start(Env* env);
  ~Autosaver();
  Autosaver(const Autosaver&) = delete;
  Autosaver& operator=(const Autosaver&) = delete;

  void add(Engine* engine, Session* session);
  void remove(Session* session);                // waits for a running save of it
  void look(Session* session, uint64_t at_ns);  // no later than that time of the Env's clock

 private:
  struct Entry {
    Engine* engine;
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

// A session's policy and state for its Autosaver. Guarded by its Engine's lock.
struct Autosave {
  AutosavePolicy policy;
  std::shared_ptr<Autosaver> saver;
  bool turn_over = false;                 // since the last look
  uint64_t seen_tokens = 0, seen_kv = 0;  // its tokens at the last save, done or tried, and those of them with KV
  bool left_out = false;                  // the last save left KV out, and the log has a line of it
  uint64_t active_ns = 0;                 // its last activity; 0: none since it was saved for being idle
};

}  // namespace kvrt
