#include "runtime/engine/sources/kv_loader.h"

namespace kvrt {

KvLoader::Filled KvLoader::fill(EngineLock* lock, Session* session, ChunkSource* source, const Progress& progress) {
  Session& s = *session;
  KVRT_CHECK(s.use.in_step() || s.use.pinned());
  cache_->adopt(&s.kv, s.tokens);
  if (!source) return {};
  ChunkLookUp found(s);
  if (!found.empty()) {
    {
      Unlocked unlocked(lock->mu);
      found.ask(source);
    }
    cache_->adopt(&s.kv, s.tokens);  // what others sealed meanwhile
    found.take(s, memory_.groups());
  }
  Filled filled{Loaded::kNothing, s.kv.reusable(s.tokens.size())};
  ChunkLoads loads(memory_, cache_);
  loads.plan(session, found, supply_);
  if (loads.empty()) return filled;
  const uint64_t had = s.kv.units_held();
  bool complete = false;
  {
    Unlocked unlocked(lock->mu);
    complete = loads.read(runtime_, source, progress);
  }
  const bool forgot = loads.put_into(session, runtime_.log());
  const bool nearer = forgot || s.kv.units_held() != had;
  filled.loaded = complete ? Loaded::kAll : nearer ? Loaded::kStoppedNearer : Loaded::kStoppedInPlace;
  return filled;
}

}  // namespace kvrt
