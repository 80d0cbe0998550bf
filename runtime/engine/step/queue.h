// Queue: a model's sessions in the order of their turns: whose generation may take blocks, and who got none.
#pragma once

#include <vector>

#include "runtime/engine/session/session.h"
#include "runtime/kv/kv_cache.h"

namespace kvrt {

// Guarded by Engine's lock.
class Queue {
 public:
  explicit Queue(KvCache* cache) : cache_(cache) {}

  Status check_count() const;  // LIMIT if no more sessions may be open
  void add(Session* session);
  void remove(Session* session);  // gives its blocks and its chain back
  const std::vector<Session*>& sessions() const { return sessions_; }
  uint32_t open_count() const;  // of hosts
  uint32_t runnable_count() const;
  uint32_t generating_count() const;  // also those that wait for their host

  void begin(Session* session);  // its generation is the youngest
  void touch(Session* session) { session->last_used = ++clock_; }
  // A runnable session that is not warm yet, and for which there are blocks; null: there is none.
  Session* next_cold();
  // The runnable, warm sessions. Each time another is the first.
  std::vector<Session*> order();
  bool oldest(const Session& session) const;  // no runnable session began before it
  bool blocks_come_back() const;              // some are pinned: a save copies them out, or a resume reads into them

  // The session that got no block in the last plan, of these the first to begin; null: none. It is served first.
  Session* starved() const { return starved_; }
  void set_starved(Session* session) { starved_ = session; }

 private:
  bool admit(Session* session);

  KvCache* const cache_;
  std::vector<Session*> sessions_;
  Session* starved_ = nullptr;
  size_t turn_ = 0;     // rotates the first of the order
  uint64_t clock_ = 0;  // for Session::last_used
  uint64_t begun_ = 0;  // for Generation::order
};

}  // namespace kvrt
