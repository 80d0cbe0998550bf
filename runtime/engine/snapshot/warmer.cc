// Engine: warm() brings back the KV of a session that exists: resident blocks first, then the store's chunks. An absent or damaged block
// stays a hole, which plan() computes. Resuming and sharing a prefix across restarts are this one loop.
#include "runtime/engine/engine.h"
#include "runtime/engine/sources/chunk_loads.h"

namespace kvrt {

Engine::Loaded Engine::load_stored(Session* session, const Progress& progress) {
  Session& s = *session;
  if (!s.store) return Loaded::kNothing;
  ChunkLoads loads(kv_.groups, chunks_, cache_.get());
  loads.plan(session, &step_->supply);
  if (loads.empty()) return Loaded::kNothing;
  const uint64_t had = s.kv.units_held();
  bool complete = false;
  {
    Unlocked unlocked(mu_);
    complete = loads.read(*runtime_, pool_buffer_->data(), s.store.get(), progress);
  }
  const bool forgot = loads.put_into(session, *runtime_);
  const bool nearer = forgot || s.kv.units_held() != had;
  return complete ? Loaded::kAll : nearer ? Loaded::kStoppedNearer : Loaded::kStoppedInPlace;
}

// The session's chunks made logits that are not finite, though their checksums are right. The store forgets them, so that nobody loads them
// again; the KV that the session computes now is saved in their place.
void Engine::tell_store(Session* session) {
  Session& s = *session;
  s.stored.suspect = false;
  const std::vector<std::vector<NodeIn>> chains = stored_chains(s);
  s.stored.tail_begin = s.stored.tail_end = s.stored.foreign_tokens = s.saved.blocks = 0;
  if (s.saved.mark) *s.saved.mark = {};
  const std::string name = s.saved.name;  // a save beside this may change it
  Unlocked unlocked(mu_);
  uint64_t dropped = 0;
  for (const auto& chain : chains) dropped += s.store->discard(chain, "KV from it made logits that are not finite");
  logf(runtime_->log(), LogLevel::kWarn,
       "session \"%s\": KV that was reused made logits that are not finite: all of it is computed again; %llu chunks of it are forgotten",
       name.c_str(), static_cast<unsigned long long>(dropped));
}

// Brings back the KV of a generation that exists, until the deadline; the rest next time. Blocks that are still missing then are computed.
// False: it read nothing from the store.
bool Engine::warm(Session* session, uint64_t deadline_ns) {
  Session& s = *session;
  bool again = !s.generation->progress.accounted.empty();
  if (s.stored.suspect) tell_store(session);
  if (s.kv.own_only) {
    cache_->extend(&s.kv, s.tokens);
    s.generation->warmed = true;
    return false;
  }
  Loaded loaded = Loaded::kNothing;
  if (s.generation->recompute_all && !again) {
    cache_->release(&s.kv, 0);
    cache_->extend(&s.kv, s.tokens);
  } else {
    cache_->adopt(&s.kv, s.tokens);
    loaded = load_stored(session, [&](uint64_t, uint64_t) { return runtime_->env()->now_ns() < deadline_ns; });
  }
  if (loaded == Loaded::kStoppedNearer) return true;
  if (s.generation->recompute_all && again) {
    s.stored.disk_tokens = 0;  // it reuses nothing: these tokens' KV was its own
  } else {
    step_->reports.count_reuse(session);
  }
  s.generation->warmed = true;
  return loaded != Loaded::kNothing;
}

// Warms this session and others that are not warm yet, until the deadline. False: it read nothing from the store. A session that only adopted
// resident blocks may have to give them up in the plan at once; if adopting counted as work, run_step could repeat for ever under the lock.
bool Engine::warm_cold(Session* first, uint64_t deadline_ns) {
  bool any = false;
  for (Session* s = first; s; s = step_->queue.next_cold()) {
    {
      struct InStep {  // leaves also if memory runs out half-way
        Session* session;
        explicit InStep(Session* s) : session(s) { s->use.enter_step(); }
        ~InStep() { session->use.leave_step(); }
      } in_step(s);
      any |= warm(s, deadline_ns);  // gives the lock back for a while: sessions come and go
    }
    if (s->generation->cancel) step_->generations.finish(s, Reason::kCancelled, runtime_->env()->now_ns());
    if (runtime_->env()->now_ns() >= deadline_ns) break;
  }
  return any;
}

}  // namespace kvrt
