// Saver: saves sessions into their stores. A session is its nodes (full blocks, then the tail that has KV) and a manifest with what comes
// after. A save waits for no generation, and none waits for it: it takes a copy of the conversation between two steps, and references to the
// blocks.
#pragma once

#include <string_view>

#include "runtime/engine/resources/runtime.h"
#include "runtime/engine/session/engine_lock.h"
#include "runtime/engine/session/session_gate.h"
#include "runtime/engine/snapshot/save_plan.h"
#include "runtime/engine/sources/kv_memory.h"
#include "runtime/engine/step/queue.h"

namespace kvrt {

struct SaveOptions {
  Durability durability = Durability::kDefault;
  bool overwrite = false;
  bool suspend = false;
  uint8_t pin = 0;           // the pin's priority; 0: unchanged
  uint64_t ttl_seconds = 0;  // 0: unchanged
  ChunkCodec codec = ChunkCodec::kDefault;
  bool autosave = false;  // tokens and full blocks alone, if there are new ones, in small portions, under the session's own name
};

struct SaveReport {
  uint64_t revision = 0, tokens = 0, chunks = 0, chunks_written = 0, bytes_written = 0, chunks_missing = 0;
  bool left_out = false;  // KV in memory was not saved: no room, or the device did not give it
  double ms = 0;
};

// Thread-safe.
class Saver {
 public:
  Saver(EngineLock* lock, const Runtime* runtime, const LoadedModel* model, const KvMemory* memory, KvCache* cache, const Queue* queue,
        SessionGate* gate)
      : lock_(lock), runtime_(*runtime), model_(*model), memory_(*memory), cache_(cache), queue_(queue), gate_(gate) {}

  Result<SaveReport> save(Session* session, std::string_view name, const SaveOptions& options);

 private:
  class Turn;
  Status copy_block(uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) const;
  Status copy_tail(Turn* turn, SavePlan* plan) KVRT_REQUIRES(lock_->mu);
  Status put_chunk(Store::Save* save, const SavePlan& plan, size_t i, ChunkCodec codec, std::vector<uint8_t>* buffer);
  // The count of chunks that it put and that a resume does not need: of a second window.
  Result<uint64_t> put_chunks(Session* session, Store::Save* save, const SavePlan& plan, const SaveOptions& options, SaveReport* report);
  Result<Saved> write_once(Session* session, const SavePlan& plan, const SaveOptions& options, const SessionIn& in, bool reuse_chunks,
                           SaveReport* report);
  Result<Saved> write(Session* session, SavePlan* plan, const SaveOptions& options, std::string_view name, const Hash256& model,
                      std::unique_ptr<Store::OpenName>* open_name, SaveReport* report) KVRT_REQUIRES(lock_->mu);
  SessionIn session_in(const Session& session, const SavePlan& plan, const SaveOptions& options, std::string_view name) const;
  void note_saved(Session* session, const SavePlan& plan, const Saved& saved, bool left_out) KVRT_REQUIRES(lock_->mu);
  void give_way(Session* session, uint64_t worked_ns);

  EngineLock* const lock_;
  const Runtime& runtime_;
  const LoadedModel& model_;
  const KvMemory& memory_;
  KvCache* const cache_ KVRT_PT_GUARDED_BY(lock_->mu);
  const Queue* const queue_ KVRT_PT_GUARDED_BY(lock_->mu);
  SessionGate* const gate_ KVRT_PT_GUARDED_BY(lock_->mu);
};

}  // namespace kvrt
