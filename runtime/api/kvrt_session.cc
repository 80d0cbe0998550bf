#include <cmath>

#include "runtime/api/boundary.h"
#include "runtime/api/session_call.h"
#include "runtime/base/limits.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Status;

namespace {

static_assert(static_cast<int>(kvrt::SessionState::kFailed) == KVRT_STATE_FAILED);
static_assert(static_cast<int>(kvrt::ReuseStop::kWindow) == KVRT_REUSE_WINDOW);
static_assert(static_cast<int>(kvrt::Durability::kKv) == KVRT_DURABILITY_KV);
static_assert(static_cast<int>(kvrt::ChunkCodec::kZstd) == KVRT_CODEC_ZSTD);

// The host's wake callback. Its user data is freed once, when no session can ring any more; never if the call that took it fails.
class HostWake final : public kvrt::Wake {
 public:
  explicit HostWake(const kvrt_session_options& o) : wake_(o.wake), user_(o.wake_user), free_(o.wake_user_free) {}
  // Null if the host gave nothing to ring or to free.
  static std::shared_ptr<HostWake> from(const kvrt_session_options& o) {
    return o.wake || o.wake_user_free ? std::make_shared<HostWake>(o) : nullptr;
  }
  ~HostWake() override {
    if (armed_ && free_) free_(user_);
  }
  void ring() override {
    if (wake_) wake_(user_);
  }
  void arm() { armed_ = true; }

 private:
  kvrt_wake_fn wake_;
  void* user_;
  kvrt_free_fn free_;
  bool armed_ = false;
};

void arm(const std::shared_ptr<kvrt::Wake>& wake) {
  if (wake) static_cast<HostWake*>(wake.get())->arm();
}

Status read_session_options(const kvrt_session_options* options, bool resume, kvrt::SessionOptions* out) {
  kvrt_session_options o;
  KVRT_TRY(read_options(options, "kvrt_session_options", &o));
  if (o.no_prefix_cache > 1) return error(Code::kInvalid, Detail::kNone, "no_prefix_cache is %u, expected 0 or 1", o.no_prefix_cache);
  KVRT_TRY(check_name(o.domain, o.domain_size, "domain", true, &out->domain));
  KVRT_TRY(read_arguments(o, &out->arguments));
  KVRT_TRY(check_name(o.autosave_name, o.autosave_name_size, "autosave_name", true, &out->autosave.name));
  if (o.autosave_turn > 1 || o.autosave_idle_ms > kvrt::kAutosaveIdleMsMax || o.foreign_kv > KVRT_FOREIGN_KV_ACCEPT) {
    return error(Code::kInvalid, Detail::kNone,
                 "kvrt_session_options: autosave_turn is %u, autosave_idle_ms %u, foreign_kv %u, expected 0 or 1, "
                 "at most %u, 0 to 2",
                 o.autosave_turn, o.autosave_idle_ms, o.foreign_kv, kvrt::kAutosaveIdleMsMax);
  }
  out->accept_foreign = resume && o.foreign_kv == KVRT_FOREIGN_KV_ACCEPT;
  out->autosave.every_turn = o.autosave_turn;
  out->autosave.every_tokens = o.autosave_tokens;
  out->autosave.idle_ms = o.autosave_idle_ms;
  if (out->autosave.on() && !o.store && !resume) return error(Code::kInvalid, Detail::kNone, "autosave without a store");
  out->share = !o.no_prefix_cache;
  out->wake = HostWake::from(o);
  if (o.store && !resume) {
    KVRT_ASSIGN(out->store, hold(o.store, "store"));
  }
  return {};
}

kvrt_session* wrap(const std::shared_ptr<kvrt::Engine>& engine, kvrt::Session* session) {
  auto handle = new (std::nothrow) kvrt_session;
  if (!handle) {
    engine->sessions().close(session);
    throw std::bad_alloc();
  }
  handle->engine = engine;
  handle->session = session;
  return handle;
}

Status save(kvrt_session* handle, bool suspend, const char* name, size_t name_size, const kvrt_save_options* options,
            kvrt_save_report* report) {
  SessionCall call(handle);
  BesideCall beside(handle);
  KVRT_TRY(suspend ? call.enter("suspend") : beside.enter());
  std::string as;
  KVRT_TRY(check_name(name, name_size, "name", false, &as));
  kvrt_save_options o;
  KVRT_TRY(read_options(options, "kvrt_save_options", &o));
  if (o.durability > KVRT_DURABILITY_KV || o.overwrite > 1 || o.pin > 255 || o.codec > KVRT_CODEC_ZSTD || o.reserved) {
    return error(
        Code::kInvalid, Detail::kNone,
        "kvrt_save_options: durability is %u, overwrite %u, pin %u, codec %u, reserved %u, expected 0 to 4, 0 or 1, 0 to 255, 0 to 2, 0",
        o.durability, o.overwrite, o.pin, o.codec, o.reserved);
  }
  if (o.ttl_seconds > kvrt::kTtlSecondsMax) {
    return error(Code::kInvalid, Detail::kNone, "kvrt_save_options: ttl_seconds is %llu, expected at most %llu (100 years)",
                 static_cast<unsigned long long>(o.ttl_seconds), static_cast<unsigned long long>(kvrt::kTtlSecondsMax));
  }
  if (report) KVRT_TRY(check_output_struct(report, "report"));
  KVRT_ASSIGN(kvrt::SaveReport saved,
              handle->engine->saver().save(handle->session, as,
                                           {static_cast<kvrt::Durability>(o.durability), o.overwrite != 0, suspend,
                                            static_cast<uint8_t>(o.pin), o.ttl_seconds, static_cast<kvrt::ChunkCodec>(o.codec)}));
  kvrt_save_report r{};
  r.revision = saved.revision;
  r.tokens = saved.tokens;
  r.chunks = saved.chunks;
  r.chunks_written = saved.chunks_written;
  r.bytes_written = saved.bytes_written;
  r.ms = saved.ms;
  r.chunks_missing = saved.chunks_missing;
  write_output(report, r);
  return {};
}

}  // namespace

extern "C" {

kvrt_status kvrt_session_open(kvrt_model* model, const kvrt_session_options* options, kvrt_session** out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    KVRT_TRY(check_not_null(out, "out"));
    kvrt::SessionOptions o;
    KVRT_TRY(read_session_options(options, false, &o));
    KVRT_TRY(engine->check_sessions());
    KVRT_ASSIGN(kvrt::Session * session, engine->sessions().open(o));
    *out = wrap(engine, session);
    arm(o.wake);
    return {};
  });
}

void kvrt_session_close(kvrt_session* session) {
  const kvrt::NotCancelled not_cancelled;
  if (!is_live(session ? &session->head : nullptr, kSessionMagic)) return;
  try {
    bool busy, own;  // own: called inside its own callback
    {
      kvrt::Lock lock(session->mu);
      busy = session->busy;
      own = busy && session->owner == std::this_thread::get_id();
      session->close_at_return = own;
      session->cancel_asked = true;
    }
    if (busy) session->engine->driver().cancel(session->session);  // without the lock: it rings the host
    if (own) return;
    {
      kvrt::Lock lock(session->mu);
      while (session->busy || session->beside > 0) session->idle.wait(session->mu);
      session->busy = true;  // no other call enters
    }
    destroy(session);
  } catch (...) {  // no memory for the cancel: the session stays until the process ends
  }
}

kvrt_status kvrt_session_info(const kvrt_session* session, kvrt_session_props* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    BesideCall call(session);
    KVRT_TRY(call.enter());
    KVRT_TRY(check_output_struct(out, "out"));
    kvrt::SessionInfo i = session->engine->sessions().info(session->session);
    kvrt_session_props p{};
    p.state = static_cast<uint32_t>(i.state);
    p.tokens = i.tokens;
    p.kv_tokens = i.kv_tokens;
    p.kv_units = i.kv_units;
    p.kv_bytes = i.kv_bytes;
    p.events_unread = i.unread;
    p.messages = i.messages;
    p.awaits_accept = i.awaits_accept;
    p.inexact = i.inexact;
    p.other_process = i.other_process;
    p.revision = i.revision;
    format_id(i.id, p.id);
    copy_text(p.name, i.name);
    p.last_error_status = static_cast<kvrt_status>(i.last_error.code());
    p.last_error_detail = static_cast<int32_t>(i.last_error.detail());
    copy_text(p.last_error_message, i.last_error.message());
    write_output(out, p);
    return {};
  });
}

kvrt_status kvrt_session_fork(kvrt_session* session, const kvrt_session_options* options, kvrt_session** out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("fork"));
    KVRT_TRY(check_not_null(out, "out"));
    kvrt_session_options o;
    KVRT_TRY(read_options(options, "kvrt_session_options", &o));
    auto wake = HostWake::from(o);
    KVRT_ASSIGN(kvrt::Session * copy, session->engine->sessions().fork(session->session, wake));
    *out = wrap(session->engine, copy);
    arm(wake);
    return {};
  });
}

kvrt_status kvrt_session_checkpoint(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                    kvrt_save_report* report, kvrt_error* err) {
  return guard(err, [&] { return save(session, false, name, name_size, options, report); });
}

kvrt_status kvrt_session_suspend(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                 kvrt_save_report* report, kvrt_error* err) {
  return guard(err, [&] { return save(session, true, name, name_size, options, report); });
}

kvrt_status kvrt_session_resume(kvrt_model* model, kvrt_store* store, const char* name, size_t name_size,
                                const kvrt_session_options* options, kvrt_event_fn callback, void* user, kvrt_report* report,
                                kvrt_session** out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto engine, hold(model, "model"));
    KVRT_ASSIGN(const auto from_store, hold(store, "store"));
    KVRT_TRY(check_not_null(out, "out"));
    std::string from;
    KVRT_TRY(check_name(name, name_size, "name", false, &from));
    kvrt::SessionOptions o;
    KVRT_TRY(read_session_options(options, true, &o));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    o.store = from_store;
    kvrt::Report counted;
    KVRT_TRY(engine->check_sessions());
    KVRT_ASSIGN(kvrt::Session * session, engine->resumer().resume(o, from, as_progress(callback, user), &counted));
    *out = wrap(engine, session);
    arm(o.wake);
    write_output(report, to_report(counted));
    return {};
  });
}

}  // extern "C"
