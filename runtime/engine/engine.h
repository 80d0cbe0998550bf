// Engine: a model that runs. It owns weights, tokenizer, template, pool, sessions and the parts of a step, and makes them work together.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/engine/conversation/grammar_cache.h"
#include "runtime/engine/resources/loaded_model.h"
#include "runtime/engine/resources/memory_cost.h"
#include "runtime/engine/sources/kv_chunks.h"
#include "runtime/engine/step/step_parts.h"
#include "runtime/engine/step/step_runner.h"
#include "storage/store/store.h"

namespace kvrt {

struct SavePlan;

struct EngineOptions {
  uint32_t block_tokens = 0;              // 0: kBlockTokensDefault
  uint32_t prefill_chunk = 0;             // 0: kStepRowsMax
  uint64_t kv_bytes_max = 0;              // 0: see pool_blocks
  uint32_t step_ms_max = 0;               // 0: kStepMsDefault, and kLoneStepMs for a prompt alone
  bool kv_populate = false;               // take the pool's pages at once, not on their first use
  Windows windows = Windows::kFreed;      // kKept: of tests alone
  uint64_t boundary_every = kStateEvery;  // likewise another number
  LoadOptions load{};
};

struct EngineInfo {
  bool has_weights = false;
  std::string architecture, name;
  ModelDims dims;
  bool has_template = false;
  ModelKv kv;
  uint64_t file_bytes = 0, weight_bytes = 0, scratch_bytes = 0, pool_bytes = 0;  // scratch: with the logits of a step
  uint32_t blocks = 0, blocks_free = 0, blocks_cached = 0;
  uint64_t sessions = 0;
  double load_ms = 0;
  uint32_t step_ms_max = 0;
};

struct EngineMetrics {
  Counters counters;
  uint64_t sessions = 0, generating = 0, paused = 0;
  uint64_t blocks = 0, blocks_used = 0, blocks_cached = 0, evictions = 0;
};

struct SessionOptions {
  std::shared_ptr<Store> store;
  std::string domain;
  bool share = true;
  TemplateArguments arguments;  // resume: "" keeps what was saved
  std::shared_ptr<Wake> wake;   // null: none
  AutosavePolicy autosave;
  bool accept_foreign = false;  // resume: take another arithmetic's KV as it is
};

struct SessionInfo {
  SessionState state = SessionState::kIdle;
  uint64_t tokens = 0, kv_tokens = 0, kv_blocks = 0, kv_bytes = 0, unread = 0, messages = 0, revision = 0;
  bool awaits_accept = false, inexact = false;
  int32_t other_process = 0;  // that has the name open for saving, as Store::other_process
  SessionId id;
  std::string name;
  Status last_error;
};

// What kvrt_session_message gives.
struct MessageInfo : Message {
  bool ended = false;  // generated, and its last token ends a turn
};

struct AppendInfo {
  uint64_t appended = 0, rewritten = 0, rewritten_at = 0;
};

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

// Thread-safe. It has no thread of its own: a caller of next that finds no leader runs steps for all sessions, and the others sleep until
// they have an event. mu_ guards all sessions and the parts of a step. It is not held during a forward pass, a read or a write of chunks, or a
// callback; but it is while the store looks up which chunks it has (ChunkLoads::plan), while the device gives a save the tail, and while a name
// is opened for saving.
// It is wide because it has a method for each call of kvrt.h on a model or a session, and one lock guards all that these touch.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  static Result<std::shared_ptr<Engine>> open(std::shared_ptr<Runtime> runtime, const ModelSource& source, const EngineOptions& options,
                                              const Progress& progress);
  // `toy`: instead of the model's own forward pass; else null.
  static Result<std::shared_ptr<Engine>> assemble(std::shared_ptr<Runtime> runtime, std::unique_ptr<LoadedModel> model,
                                                  std::unique_ptr<ForwardPass> toy, const EngineOptions& options);
  ~Engine();

  const LoadedModel& model() const { return *model_; }
  const Runtime& runtime() const { return *runtime_; }
  EngineInfo info() const;
  EngineMetrics metrics() const;

  // The caller owns the session, and closes it. Calls on one session do not overlap, but for cancel and session_info.
  Result<Session*> open_session(const SessionOptions& options);
  void close(Session* session);
  Result<Session*> fork(Session* session, std::shared_ptr<Wake> wake);
  Status append(Session* session, std::span<const int32_t> tokens);
  Status append_text(Session* session, std::string_view text, bool parse_special);
  Result<AppendInfo> append_message(Session* session, std::string_view message_json);
  Result<AppendInfo> set_messages(Session* session, std::string_view messages_json);
  Status truncate(Session* session, uint64_t count);
  Status mark(Session* session, uint64_t tokens);  // 0: all of them
  Status erase(Session* session, uint64_t from, uint64_t to);
  std::vector<int32_t> tokens(const Session* session) const;
  std::optional<MessageInfo> message(const Session* session, uint64_t index) const;
  SessionInfo session_info(const Session* session) const;

  Status begin(Session* session, GenerateOptions options);
  // timeout_ms < 0: no limit. Gives an event of type kNone if there was none in time, kIdle if the session does not generate.
  Result<Event> next(Session* session, int32_t timeout_ms);
  Status accept(Session* session, int32_t token);
  void cancel(Session* session);
  void cancel(const Cancel& fired) noexcept;  // the generations that were begun with it
  void abandon(Session* session) noexcept;    // an exception left the call that began it
  // Runs steps for at most `ms`, but at least one. Gives the count of sessions that can go on.
  uint32_t step(uint32_t ms);

  Result<SaveReport> save(Session* session, std::string_view name, const SaveOptions& options);
  Result<Session*> resume(const SessionOptions& options, std::string_view name, const Progress& progress, Report* report);
  uint64_t autosave(Session* session);  // for the Autosaver

 private:
  friend struct Probe;  // tests/sim reads everything after every step
  class SaveTurn;
  Engine(std::shared_ptr<Runtime> runtime, std::unique_ptr<LoadedModel> model);
  Status make_pool(const EngineOptions& options, std::unique_ptr<ForwardPass> toy);
  Result<BlockKey> root_for(const SessionOptions& options, const char* numerics = nullptr);  // null: the backend's
  Status adopt_foreign(const SessionOptions& options, const SessionOut& saved, Session* session);
  Status check_room(uint64_t tokens, uint64_t more) const KVRT_REQUIRES(mu_);
  Status enlist(Session* session) KVRT_REQUIRES(mu_);
  Status require_ready(const Session& session, const char* call) const KVRT_REQUIRES(mu_);  // idle or suspended, else BUSY or INVALID
  Status enter(Session* session, const char* call) KVRT_REQUIRES(mu_);                      // begins a host's call that needs that
  void settle(Session* session) KVRT_REQUIRES(mu_) {
    if (session->generation && session->generation->abandoned) take_abandoned(session);
  }
  void take_abandoned(Session* session) KVRT_REQUIRES(mu_);
  Result<AppendInfo> edit(Session* session, const char* call, const std::function<Status(Conversation*)>& change);
  AppendInfo become(Session* session, Conversation said) noexcept KVRT_REQUIRES(mu_);
  void cut_kv(Session* session, uint64_t count) KVRT_REQUIRES(mu_);
  bool run_step(uint64_t patience_ns) KVRT_REQUIRES(mu_);
  bool lead(uint64_t patience_ns) KVRT_REQUIRES(mu_);
  void end_step() noexcept KVRT_REQUIRES(mu_);
  void ring() KVRT_REQUIRES(mu_);
  void stop(Session* session) KVRT_REQUIRES(mu_);
  void end(Session* session) KVRT_REQUIRES(mu_);
  bool take_event(Session* session, Event* event, Status* failure) KVRT_REQUIRES(mu_);
  void take_done(Session* session) KVRT_REQUIRES(mu_);

  bool warm_cold(Session* first, uint64_t deadline_ns) KVRT_REQUIRES(mu_);
  bool warm(Session* session, uint64_t deadline_ns) KVRT_REQUIRES(mu_);
  // The outcome of loading the store's chunks for the session's missing blocks. If progress stops the load, it may have come nearer to its
  // end or not; kStoppedInPlace: trying again would do the same for ever.
  enum class Loaded { kNothing, kAll, kStoppedNearer, kStoppedInPlace };
  void tell_store(Session* session) KVRT_REQUIRES(mu_);
  Loaded load_stored(Session* session, const Progress& progress) KVRT_REQUIRES(mu_);

  Status copy_out(uint32_t group, std::span<const BlockId> units, std::vector<uint8_t>* to) const;  // from the device
  Status put_chunk(Store::Save* save, const SavePlan& plan, size_t i, ChunkCodec codec, std::vector<uint8_t>* buffer);
  // The count of chunks that it put and that a resume does not need: of a second window.
  Result<uint64_t> put_chunks(Session* session, Store::Save* save, const SavePlan& plan, const SaveOptions& options, SaveReport* report);
  Result<Saved> write_once(Session* session, const SavePlan& plan, const SaveOptions& options, const SessionIn& in, bool reuse_chunks,
                           SaveReport* report);
  Result<Saved> write(Session* session, SavePlan* plan, const SaveOptions& options, std::string_view name, const Hash256& model,
                      SaveReport* report) KVRT_REQUIRES(mu_);
  SessionIn session_in(const Session& session, const SavePlan& plan, const SaveOptions& options, std::string_view name) const;
  Status set_autosave(const SessionOptions& options, Session* session);
  static bool has_grown(Session* session);
  void touched(Session* session) KVRT_REQUIRES(mu_) {
    if (session->autosave) note_activity(session);
  }
  void note_activity(Session* session) KVRT_REQUIRES(mu_);
  void save_unasked(Session* session) noexcept;
  void give_way(Session* session, uint64_t worked_ns);
  void last_save(Session* session);
  std::unique_ptr<Session> restore(const SessionOut& saved, const SessionOptions& options, Status* status);
  void mark_restored(Session* session) const;
  Status bring_back(Session* session, const Progress& progress, Report* report) KVRT_REQUIRES(mu_);

  uint8_t* unit_data(BlockId unit) const { return pool_buffer_->data() + static_cast<uint64_t>(unit) * kv_.unit_bytes(); }

  const std::shared_ptr<Runtime> runtime_;
  const std::unique_ptr<const LoadedModel> model_;
  GrammarCache grammars_;
  ModelKv kv_;
  std::vector<KvChunk> chunks_;  // by number
  double load_ms_ = 0;
  uint32_t step_ms_max_ = 0;
  std::unique_ptr<Buffer> pool_buffer_;
  std::unique_ptr<StepRunner> runner_;  // null: a vocabulary alone, without sessions. The leader uses it

  mutable Mutex mu_;
  std::unique_ptr<KvCache> cache_ KVRT_PT_GUARDED_BY(mu_);
  std::unique_ptr<StepParts> step_ KVRT_PT_GUARDED_BY(mu_);
  bool leader_ KVRT_GUARDED_BY(mu_) = false;
  uint64_t steps_led_ KVRT_GUARDED_BY(mu_) = 0;  // counts the leaders that are done
  Condition step_over_;                          // a step or a save is over
  Condition pressed_;                            // a save or a close waits for an autosave
  StepPlan plan_;                                // the leader's
};

}  // namespace kvrt
