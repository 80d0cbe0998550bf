#include "runtime/engine/snapshot/warmer.h"

namespace kvrt {

// The session's chunks made logits that are not finite, though their checksums are right. The store forgets them, so that nobody loads them
// again; the KV that the session computes now is saved in their place.
void Warmer::tell_store(EngineLock* lock, Session* session) {
  Session& s = *session;
  s.stored.suspect = false;
  const std::vector<std::vector<NodeIn>> chains = stored_chains(s);
  s.stored.tail_begin = s.stored.tail_end = s.stored.foreign_tokens = s.saved.blocks = 0;
  if (s.saved.mark) *s.saved.mark = {};
  const std::string name = s.saved.name;  // a save beside this may change it
  Unlocked unlocked(lock->mu);
  uint64_t dropped = 0;
  for (const auto& chain : chains) dropped += s.store->discard(chain, "KV from it made logits that are not finite");
  logf(runtime_.log(), LogLevel::kWarn,
       "session \"%s\": KV that was reused made logits that are not finite: all of it is computed again; %llu chunks of it are forgotten",
       name.c_str(), static_cast<unsigned long long>(dropped));
}

// Brings back the KV of a generation that exists, until the deadline; the rest next time. Blocks that are still missing then are computed.
// False: it read nothing from the store.
bool Warmer::warm(EngineLock* lock, Session* session, uint64_t deadline_ns) {
  Session& s = *session;
  bool again = !s.generation->progress.accounted.empty();
  if (s.stored.suspect) tell_store(lock, session);
  if (s.kv.own_only) {
    cache_->extend(&s.kv, s.tokens);
    s.generation->warmed = true;
    return false;
  }
  using Loaded = KvLoader::Loaded;
  Loaded loaded = Loaded::kNothing;
  if (s.generation->progress.recompute_all && !again) {
    cache_->release(&s.kv, 0);
    cache_->extend(&s.kv, s.tokens);
  } else {
    const auto in_time = [&](uint64_t, uint64_t) { return runtime_.env()->now_ns() < deadline_ns; };
    loaded = loader_->fill(lock, session, s.store.get(), in_time).loaded;
  }
  if (loaded == Loaded::kStoppedNearer) return true;
  if (s.generation->progress.recompute_all && again) {
    s.stored.disk_tokens = 0;  // it reuses nothing: these tokens' KV was its own
  } else {
    reports_->count_reuse(session);
  }
  s.generation->warmed = true;
  return loaded != Loaded::kNothing;
}

bool Warmer::warm_cold(EngineLock* lock, Session* first, uint64_t deadline_ns) {
  bool any = false;
  for (Session* s = first; s; s = queue_->next_cold()) {
    {
      struct InStep {  // leaves also if memory runs out half-way
        Session* session;
        explicit InStep(Session* s) : session(s) { s->use.enter_step(); }
        ~InStep() { session->use.leave_step(); }
      } in_step(s);
      any |= warm(lock, s, deadline_ns);
    }
    if (s->generation->cancel) generations_->finish(s, Reason::kCancelled, runtime_.env()->now_ns());
    if (runtime_.env()->now_ns() >= deadline_ns) break;
  }
  return any;
}

}  // namespace kvrt
