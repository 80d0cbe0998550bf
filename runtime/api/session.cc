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
static_assert(static_cast<int>(kvrt::EventType::kDone) == KVRT_EVENT_DONE &&
              static_cast<int>(kvrt::EventType::kLogits) == KVRT_EVENT_LOGITS);
static_assert(static_cast<int>(kvrt::Reason::kFailed) == KVRT_REASON_FAILED && static_cast<int>(kvrt::Reason::kStop) == KVRT_REASON_STOP);
static_assert(static_cast<int>(kvrt::ReuseStop::kOtherNumerics) == KVRT_REUSE_OTHER_NUMERICS);
static_assert(static_cast<int>(kvrt::WantLogits::kAll) == KVRT_LOGITS_ALL);
static_assert(static_cast<int>(kvrt::Durability::kKv) == KVRT_DURABILITY_KV);

Status read_session_options(const kvrt_session_options* options, bool resume, kvrt::SessionOptions* out) {
  kvrt_session_options o;
  KVRT_TRY(read_options(options, "kvrt_session_options", &o));
  if (o.no_prefix_cache > 1) return error(Code::kInvalid, Detail::kNone, "no_prefix_cache is %u, expected 0 or 1", o.no_prefix_cache);
  KVRT_TRY(check_name(o.domain, o.domain_size, "domain", true, &out->domain));
  out->share = !o.no_prefix_cache;
  if (o.store && !resume) {
    KVRT_TRY(check(o.store, "store"));
    out->store = o.store->store;
  }
  return {};
}

kvrt_session* wrap(const std::shared_ptr<kvrt::ModelHost>& host, kvrt::Session* session) {
  auto handle = new (std::nothrow) kvrt_session;
  if (!handle) {
    host->close(session);
    throw std::bad_alloc();
  }
  handle->host = host;
  handle->session = session;
  return handle;
}

Status read_generate_options(const kvrt_generate_options* options, const kvrt::Tokenizer& tokenizer, kvrt::GenerateOptions* out) {
  kvrt_generate_options o;
  KVRT_TRY(read_options(options, "kvrt_generate_options", &o));
  if (!(o.temperature >= 0 && o.temperature <= 100))
    return error(Code::kInvalid, Detail::kNone, "temperature is %g, expected 0 to 100", o.temperature);
  if (!(o.top_p >= 0 && o.top_p <= 1)) return error(Code::kInvalid, Detail::kNone, "top_p is %g, expected 0 to 1", o.top_p);
  if (o.ignore_eos > 1 || o.emit_logits > 1 || o.no_generation_prompt > 1) {
    return error(Code::kInvalid, Detail::kNone, "ignore_eos is %u, emit_logits %u, no_generation_prompt %u, expected 0 or 1", o.ignore_eos,
                 o.emit_logits, o.no_generation_prompt);
  }
  out->max_tokens = o.max_tokens;
  out->sampling = {o.temperature, o.top_k, o.top_p, o.seed};
  out->ignore_eos = o.ignore_eos;
  out->emit_logits = o.emit_logits;
  out->generation_prompt = !o.no_generation_prompt;
  if (o.stop_token_count) KVRT_TRY(check_not_null(o.stop_tokens, "stop_tokens"));
  if (o.stop_token_count > tokenizer.vocab_size()) {
    return error(Code::kInvalid, Detail::kNone, "stop_token_count is %zu, the vocabulary has %u", o.stop_token_count,
                 tokenizer.vocab_size());
  }
  for (size_t i = 0; i < o.stop_token_count; ++i) {
    if (o.stop_tokens[i] < 0 || static_cast<uint32_t>(o.stop_tokens[i]) >= tokenizer.vocab_size()) {
      return error(Code::kInvalid, Detail::kNone, "stop_tokens[%zu] is %d, the vocabulary has %u", i, o.stop_tokens[i],
                   tokenizer.vocab_size());
    }
  }
  out->stop_tokens.assign(o.stop_tokens, o.stop_tokens + o.stop_token_count);
  KVRT_TRY(check_text(o.stop_strings, o.stop_strings_size, "stop_strings"));
  if (o.stop_strings_size && o.stop_strings[o.stop_strings_size - 1] != '\0') {
    return error(Code::kInvalid, Detail::kNone, "stop_strings: the last one is not ended by a NUL");
  }
  for (size_t at = 0; at < o.stop_strings_size;) {
    std::string stop(o.stop_strings + at);
    at += stop.size() + 1;
    if (stop.empty() || stop.size() > kvrt::kStopBytesMax || out->stop_strings.size() == kvrt::kStopStringsMax) {
      return error(Code::kInvalid, Detail::kNone, "stop_strings: number %zu has %zu bytes, expected 1 to %u bytes in at most %u strings",
                   out->stop_strings.size(), stop.size(), kvrt::kStopBytesMax, kvrt::kStopStringsMax);
    }
    out->stop_strings.push_back(std::move(stop));
  }
  return {};
}

// The event for the host; its pointers lead into the handle, until the next event.
kvrt_event show(kvrt_session* handle, kvrt::Event event) {
  handle->event = std::move(event);
  const kvrt::Event& e = handle->event;
  kvrt_event out{};
  out.struct_size = sizeof out;
  out.type = static_cast<uint32_t>(e.type);
  out.token = e.token;
  out.position = e.position;
  out.text = e.text.data();
  out.text_size = e.text.size();
  out.logprob = e.logprob;
  out.done = e.done;
  out.total = e.total;
  if (!e.logits.empty()) {
    out.logits = e.logits.data();
    out.logits_count = e.logits.size();
  }
  if (e.type == kvrt::EventType::kDone) {
    handle->report = to_report(e.report);
    out.reason = handle->report.reason;
    out.report = &handle->report;
  }
  return out;
}

// begin and next until DONE, events to the callback.
Status run_to_done(kvrt_session* handle, kvrt::GenerateOptions options, kvrt_event_fn callback, void* user, kvrt_report* report) {
  kvrt::ModelHost& host = *handle->host;
  KVRT_TRY(host.begin(handle->session, std::move(options)));
  bool stopped = false;
  for (;;) {
    auto next = host.next(handle->session, -1);
    if (!next.is_ok()) return next.take_status();
    kvrt_event event = show(handle, std::move(next).value());
    bool done = event.type == KVRT_EVENT_DONE;
    if (callback && !stopped && callback(user, &event) && !done) {
      stopped = true;
      host.cancel(handle->session);
    }
    if (!done) continue;
    if (stopped || event.reason == KVRT_REASON_CANCELLED) {
      return error(Code::kCancelled, Detail::kNone, stopped ? "stopped by the callback" : "cancelled by kvrt_session_cancel");
    }
    write_output(report, handle->report);
    return {};
  }
}

Status save(kvrt_session* handle, bool suspend, const char* name, size_t name_size, const kvrt_save_options* options,
            kvrt_save_report* report) {
  SessionCall call(handle);
  KVRT_TRY(call.enter(suspend ? "suspend" : "checkpoint"));
  std::string as;
  KVRT_TRY(check_name(name, name_size, "name", false, &as));
  kvrt_save_options o;
  KVRT_TRY(read_options(options, "kvrt_save_options", &o));
  if (o.durability > KVRT_DURABILITY_KV || o.overwrite > 1 || o.reserved) {
    return error(Code::kInvalid, Detail::kNone,
                 "kvrt_save_options: durability is %u, overwrite %u, reserved %u, expected 0 to 4, 0 or 1, 0", o.durability, o.overwrite,
                 o.reserved);
  }
  if (report) KVRT_TRY(check_output_struct(report, "report"));
  KVRT_ASSIGN(kvrt::SaveReport saved,
              handle->host->save(handle->session, as, {static_cast<kvrt::Durability>(o.durability), o.overwrite != 0, suspend}));
  kvrt_save_report r{};
  r.generation = saved.gen;
  r.tokens = saved.tokens;
  r.chunks = saved.chunks;
  r.chunks_written = saved.chunks_written;
  r.bytes_written = saved.bytes_written;
  r.ms = saved.ms;
  write_output(report, r);
  return {};
}

}  // namespace

extern "C" {

kvrt_status kvrt_session_open(kvrt_model* model, const kvrt_session_options* options, kvrt_session** out) {
  return guard([&]() -> Status {
    KVRT_TRY(check(model, "model"));
    KVRT_TRY(check_not_null(out, "out"));
    kvrt::SessionOptions o;
    KVRT_TRY(read_session_options(options, false, &o));
    KVRT_ASSIGN(kvrt::Session * session, model->host->open_session(o));
    *out = wrap(model->host, session);
    return {};
  });
}

void kvrt_session_close(kvrt_session* session) {
  if (!owned_here(session ? &session->head : nullptr)) return;
  (void)guard([&]() -> Status {
    std::unique_lock lock(session->mu);
    if (session->busy && session->owner == std::this_thread::get_id()) {  // inside its own callback
      session->close_at_return = true;
      session->host->cancel(session->session);
      return {};
    }
    if (session->busy) session->host->cancel(session->session);
    session->idle.wait(lock, [&] { return !session->busy; });
    session->busy = true;  // nobody else enters
    lock.unlock();
    destroy(session);
    return {};
  });
}

kvrt_status kvrt_session_info(const kvrt_session* session, kvrt_session_props* out) {
  return guard([&]() -> Status {
    KVRT_TRY(check(session, "session"));
    KVRT_TRY(check_output_struct(out, "out"));
    kvrt::SessionInfo i = session->host->session_info(session->session);
    kvrt_session_props p{};
    p.state = static_cast<uint32_t>(i.state);
    p.tokens = i.tokens;
    p.kv_tokens = i.kv_tokens;
    p.kv_blocks = i.kv_blocks;
    p.kv_bytes = i.kv_bytes;
    p.events_unread = i.unread;
    p.generation = i.gen;
    format_id(i.id, p.id);
    copy_text(p.name, i.name);
    p.last_status = static_cast<kvrt_status>(i.last_error.code());
    p.last_detail = static_cast<int32_t>(i.last_error.detail());
    copy_text(p.last_message, i.last_error.message());
    write_output(out, p);
    return {};
  });
}

kvrt_status kvrt_session_append(kvrt_session* session, const int32_t* tokens, size_t count) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("append"));
    if (count) KVRT_TRY(check_not_null(tokens, "tokens"));
    return session->host->append(session->session, {tokens, count});
  });
}

kvrt_status kvrt_session_append_text(kvrt_session* session, const char* text, size_t text_size, uint32_t flags) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("append_text"));
    KVRT_TRY(check_text(text, text_size, "text"));
    if (flags & ~uint32_t{KVRT_TEXT_SPECIAL}) return error(Code::kInvalid, Detail::kNone, "flags is %u, unknown bits are set", flags);
    return session->host->append_text(session->session, {text ? text : "", text_size}, flags & KVRT_TEXT_SPECIAL);
  });
}

kvrt_status kvrt_session_append_message(kvrt_session* session, const char* message, size_t message_size, kvrt_append_info* info) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("append_message"));
    KVRT_TRY(check_text(message, message_size, "message"));
    if (info) KVRT_TRY(check_output_struct(info, "info"));
    KVRT_ASSIGN(kvrt::AppendInfo appended, session->host->append_message(session->session, {message ? message : "", message_size}));
    kvrt_append_info out{};
    out.appended = appended.appended;
    out.rewritten = appended.rewritten;
    write_output(info, out);
    return {};
  });
}

kvrt_status kvrt_session_prefill(kvrt_session* session, uint32_t logits, kvrt_event_fn callback, void* user, kvrt_report* report) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("prefill"));
    if (logits > KVRT_LOGITS_ALL)
      return error(Code::kInvalid, Detail::kNone, "logits is %u, expected KVRT_LOGITS_NONE to KVRT_LOGITS_ALL", logits);
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    kvrt::GenerateOptions options;
    options.prefill_only = true;
    options.logits = static_cast<kvrt::WantLogits>(logits);
    return run_to_done(session, std::move(options), callback, user, report);
  });
}

kvrt_status kvrt_session_begin(kvrt_session* session, const kvrt_generate_options* options) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("begin"));
    kvrt::GenerateOptions o;
    KVRT_TRY(read_generate_options(options, session->host->tokenizer(), &o));
    return session->host->begin(session->session, std::move(o));
  });
}

kvrt_status kvrt_session_next(kvrt_session* session, kvrt_event* event, int32_t timeout_ms) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("next"));
    KVRT_TRY(check_output_struct(event, "event"));
    KVRT_ASSIGN(kvrt::Event next, session->host->next(session->session, timeout_ms));
    write_output(event, show(session, std::move(next)));
    return {};
  });
}

kvrt_status kvrt_session_generate(kvrt_session* session, const kvrt_generate_options* options, kvrt_event_fn callback, void* user,
                                  kvrt_report* report) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("generate"));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    kvrt::GenerateOptions o;
    KVRT_TRY(read_generate_options(options, session->host->tokenizer(), &o));
    return run_to_done(session, std::move(o), callback, user, report);
  });
}

kvrt_status kvrt_session_cancel(kvrt_session* session) {
  return guard([&]() -> Status {
    KVRT_TRY(check(session, "session"));
    session->host->cancel(session->session);
    return {};
  });
}

kvrt_status kvrt_session_fork(kvrt_session* session, const kvrt_session_options* options, kvrt_session** out) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("fork"));
    KVRT_TRY(check_not_null(out, "out"));
    KVRT_ASSIGN(kvrt::Session * copy, session->host->fork(session->session));
    *out = wrap(session->host, copy);
    return {};
  });
}

kvrt_status kvrt_session_truncate(kvrt_session* session, uint64_t count) {
  return guard([&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("truncate"));
    return session->host->truncate(session->session, count);
  });
}

kvrt_status kvrt_session_tokens(const kvrt_session* session, int32_t* tokens, size_t capacity, size_t* needed) {
  return guard([&]() -> Status {
    KVRT_TRY(check(session, "session"));
    KVRT_TRY(check_buffer(tokens, capacity, needed));
    std::vector<int32_t> all = session->host->tokens(session->session);
    return write_buffer(all.data(), all.size(), tokens, capacity, needed);
  });
}

kvrt_status kvrt_session_checkpoint(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                    kvrt_save_report* report) {
  return guard([&] { return save(session, false, name, name_size, options, report); });
}

kvrt_status kvrt_session_suspend(kvrt_session* session, const char* name, size_t name_size, const kvrt_save_options* options,
                                 kvrt_save_report* report) {
  return guard([&] { return save(session, true, name, name_size, options, report); });
}

kvrt_status kvrt_session_resume(kvrt_model* model, kvrt_store* store, const char* name, size_t name_size,
                                const kvrt_session_options* options, kvrt_event_fn callback, void* user, kvrt_report* report,
                                kvrt_session** out) {
  return guard([&]() -> Status {
    KVRT_TRY(check(model, "model"));
    KVRT_TRY(check(store, "store"));
    KVRT_TRY(check_not_null(out, "out"));
    std::string from;
    KVRT_TRY(check_name(name, name_size, "name", false, &from));
    kvrt::SessionOptions o;
    KVRT_TRY(read_session_options(options, true, &o));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    o.store = store->store;
    kvrt::Report counted;
    KVRT_ASSIGN(kvrt::Session * session, model->host->resume(o, from, as_progress(callback, user), &counted));
    *out = wrap(model->host, session);
    write_output(report, to_report(counted));
    return {};
  });
}

}  // extern "C"
