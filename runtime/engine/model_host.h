// ModelHost: a model that runs. Owns weights, tokenizer, template, pool, scheduler and sessions; the only orchestrator.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/scheduler.h"
#include "runtime/model/model.h"
#include "runtime/text/chat_template.h"
#include "storage/store.h"

namespace kvrt {

struct HostOptions {
  uint32_t block_tokens = 0;   // 0: kBlockTokensDefault
  uint32_t prefill_chunk = 0;  // 0: kStepRowsMax
  uint64_t kv_bytes_max = 0;   // 0: see default_kv_bytes
};

struct HostInfo {
  bool has_weights = false;
  std::string architecture, name;
  ModelDims dims;
  bool has_template = false;
  KvGeometry kv;
  uint64_t file_bytes = 0, weight_bytes = 0, scratch_bytes = 0, pool_bytes = 0;  // scratch: with the logits of a step
  uint32_t blocks = 0, blocks_free = 0, blocks_cached = 0;
  uint64_t sessions = 0;
  double load_ms = 0;
};

struct SessionOptions {
  std::shared_ptr<Store> store;
  std::string domain;
  bool share = true;
};

struct SessionInfo {
  SessionState state = SessionState::kIdle;
  uint64_t tokens = 0, kv_tokens = 0, kv_blocks = 0, kv_bytes = 0, unread = 0, gen = 0;
  SessionId id;
  std::string name;
  Status last_error;
};

struct AppendInfo {
  uint64_t appended = 0, rewritten = 0;
};

struct SaveOptions {
  Durability durability = Durability::kDefault;
  bool overwrite = false;
  bool suspend = false;
};

struct SaveReport {
  uint64_t gen = 0, tokens = 0, chunks = 0, chunks_written = 0, bytes_written = 0;
  double ms = 0;
};

// false stops the call (CANCELLED).
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

// Gives a lock back for a while, also when an exception ends it.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

// Thread-safe. No hidden thread: whichever caller of next finds no leader runs steps for all sessions, the others sleep until they have
// an event. mu_ guards all sessions and the scheduler; it is never held during compute, I/O or a callback.
class ModelHost {
 public:
  static Result<std::shared_ptr<ModelHost>> open(std::shared_ptr<Engine> engine, const std::string& path, const HostOptions& options,
                                                 const Progress& progress);
  ~ModelHost();

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const Engine& engine() const { return *engine_; }
  HostInfo info() const;
  Result<std::string> render(std::string_view messages_json, bool generation_prompt, std::string_view tools_json) const;

  // A session belongs to its caller, who closes it. Calls on one session do not overlap, but for cancel and session_info.
  Result<Session*> open_session(const SessionOptions& options);
  void close(Session* session);
  Result<Session*> fork(Session* session);
  Status append(Session* session, std::span<const int32_t> tokens);
  Status append_text(Session* session, std::string_view text, bool parse_special);
  Result<AppendInfo> append_message(Session* session, std::string_view message_json);
  Status truncate(Session* session, uint64_t count);
  std::vector<int32_t> tokens(const Session* session) const;
  SessionInfo session_info(const Session* session) const;

  Status begin(Session* session, GenerateOptions options);
  // timeout_ms < 0: no limit. An event of type kNone when there was none in time or the session does not generate.
  Result<Event> next(Session* session, int32_t timeout_ms);
  void cancel(Session* session);

  Result<SaveReport> save(Session* session, std::string_view name, const SaveOptions& options);
  Result<Session*> resume(const SessionOptions& options, std::string_view name, const Progress& progress, Report* report);

 private:
  struct ChunkLoad;
  ModelHost() = default;
  Status load(const std::string& path, const HostOptions& options, const Progress& progress);
  Status make_pool(const HostOptions& options);
  Result<BlockKey> root_for(const SessionOptions& options);
  Result<Hash256> model_id_for(Store* store);
  Status check_room(const Session& session, uint64_t more) const;
  Status require(const Session& session, const char* call) const;  // idle or suspended, else BUSY or INVALID
  void cut(Session* session, uint64_t count);                      // truncate, under mu_
  Status open_turn(Session* session);                              // the template's generation prompt, before a begin
  Result<AppendInfo> rewrite_to(Session* session, const std::string& text);

  void run_step(std::unique_lock<std::mutex>& lock);
  void stop(Session* session);
  void compute(StepPlan* plan);
  bool take_event(Session* session, Event* event, Status* failure);
  void take_done(Session* session);

  void warm(Session* session, std::unique_lock<std::mutex>& lock);
  // Loads what the store has for the session's missing blocks. false: stopped by progress.
  bool load_stored(Session* session, std::unique_lock<std::mutex>& lock, const Progress& progress);
  std::vector<ChunkLoad> loads_wanted(Session* session);
  bool read_chunks(Store* store, std::vector<ChunkLoad>& loads, const Progress& progress);

  struct SavePlan;
  SavePlan plan_save(Session* session);
  Status put_chunks(Store::Save* save, Store* store, const SavePlan& plan, SaveReport* report);
  std::unique_ptr<Session> restore(const SessionOut& saved, const SessionOptions& options, Status* status);

  uint8_t* block_data(BlockId block) const { return pool_buffer_->data() + static_cast<uint64_t>(block) * kv_.block_bytes(); }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<Model> model_;  // null for a vocabulary-only file
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;  // null without one
  Status template_status_;                  // why it could not be parsed
  Hash256 template_id_;
  KvGeometry kv_;
  double load_ms_ = 0;
  std::unique_ptr<Buffer> pool_buffer_;
  std::unique_ptr<ForwardScratch> scratch_;
  std::vector<float> logits_;  // of the running step; the leader's

  std::mutex model_id_mu_;
  Hash256 model_id_;  // zero until a store is used

  mutable std::mutex mu_;
  std::unique_ptr<Scheduler> scheduler_;  // guarded by mu_
  bool leader_ = false;                   // guarded by mu_
  std::condition_variable step_over_;
  StepPlan plan_;  // the leader's
};

}  // namespace kvrt
