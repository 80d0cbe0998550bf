#include "runtime/api/boundary.h"
#include "runtime/engine/describe/show.h"
#include "runtime/engine/snapshot/manifest.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Status;

namespace {

kvrt_store_entry to_entry(const kvrt::SessionStat& s) {
  kvrt_store_entry e{};
  e.struct_size = sizeof e;
  copy_text(e.name, s.name);
  copy_text(e.domain, s.domain);
  format_id(s.id, e.id);
  e.revision = s.revision;
  e.tokens = s.tokens;
  e.chunks = s.chunks;
  e.chunks_missing = s.chunks_missing;
  e.bytes = s.bytes;
  e.bytes_shared = s.bytes_shared;
  e.created_unix_ms = s.created_unix_ms;
  e.saved_unix_ms = s.saved_unix_ms;
  e.expires_unix_ms = s.expires_unix_ms;
  e.pinned = s.pinned;
  return e;
}

// Reads the domain and the name of a call's session.
Status check_session(const char* domain, size_t domain_size, const char* name, size_t name_size, std::string* scope, std::string* session) {
  KVRT_TRY(check_name(domain, domain_size, "domain", true, scope));
  return check_name(name, name_size, "name", false, session);
}

Status stopped(const char* call) { return error(Code::kCancelled, Detail::kNone, "%s: stopped by its callback", call); }

}  // namespace

extern "C" {

kvrt_status kvrt_store_open(kvrt_runtime* runtime, const char* path, size_t path_size, const kvrt_store_options* options, kvrt_store** out,
                            kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    KVRT_TRY(check_not_null(out, "out"));
    std::string directory;
    KVRT_TRY(check_path(path, path_size, &directory));
    kvrt_store_options o;
    KVRT_TRY(read_options(options, "kvrt_store_options", &o));
    if (o.read_only > 1 || o.must_exist > 1 || o.reserved) {
      return error(Code::kInvalid, Detail::kNone,
                   "kvrt_store_options: read_only is %u, must_exist %u, reserved %u, expected 0 or 1, 0 or 1, 0", o.read_only, o.must_exist,
                   o.reserved);
    }
    KVRT_ASSIGN(auto opened, held->open_store(held, directory, {o.read_only != 0, o.must_exist != 0, o.disk_bytes_max, o.free_bytes_min}));
    *out = new kvrt_store(std::move(opened));
    return {};
  });
}

void kvrt_store_retain(kvrt_store* store) { retain(store); }
void kvrt_store_release(kvrt_store* store) { release(store); }

kvrt_status kvrt_store_info(const kvrt_store* store, kvrt_store_props* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    KVRT_TRY(check_output_struct(out, "out"));
    KVRT_ASSIGN(kvrt::StoreInfo i, open->info());
    kvrt_store_props p{};
    p.read_only = i.waits_for_room ? 2 : i.read_only;
    p.format = i.format;
    p.sessions = i.sessions;
    p.chunks = i.chunks;
    p.segments = i.segments;
    p.chunk_bytes = i.chunk_bytes;
    p.chunk_raw_bytes = i.chunk_raw_bytes;
    p.disk_bytes = i.disk_bytes;
    p.chunks_damaged = i.chunks_damaged;
    p.chunks_evicted = i.chunks_evicted;
    p.old_bytes = i.old_bytes;
    p.bytes_free = i.bytes_free;
    p.resumes_evicted = i.loads_evicted;
    write_output(out, p);
    return {};
  });
}

kvrt_status kvrt_store_list(const kvrt_store* store, const char* domain, size_t domain_size, kvrt_event_fn callback, void* user,
                            kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    if (!callback) return error(Code::kInvalid, Detail::kNone, "callback is NULL");
    std::string scope;
    KVRT_TRY(check_name(domain, domain_size, "domain", true, &scope));
    KVRT_ASSIGN(auto sessions, open->list(scope, domain == nullptr));
    for (const kvrt::SessionStat& s : sessions) {
      kvrt_store_entry entry = to_entry(s);
      kvrt_event event{};
      event.struct_size = sizeof event;
      event.type = KVRT_EVENT_ENTRY;
      event.entry = &entry;
      if (callback(user, &event)) return stopped("store_list");
    }
    return {};
  });
}

kvrt_status kvrt_store_stat(const kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                            kvrt_store_entry* out, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    KVRT_TRY(check_output_struct(out, "out"));
    std::string scope, session;
    KVRT_TRY(check_session(domain, domain_size, name, name_size, &scope, &session));
    KVRT_ASSIGN(kvrt::SessionStat s, open->stat(scope, session));
    write_output(out, to_entry(s));
    return {};
  });
}

kvrt_status kvrt_store_show(const kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size, char* json,
                            size_t capacity, size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    std::string scope, session;
    KVRT_TRY(check_session(domain, domain_size, name, name_size, &scope, &session));
    KVRT_TRY(check_buffer(json, capacity, needed));
    KVRT_ASSIGN(std::string shown, kvrt::show_session(open.get(), scope, session));
    return write_buffer(shown.data(), shown.size(), json, capacity, needed);
  });
}

kvrt_status kvrt_store_remove(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                              kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    std::string scope, session;
    KVRT_TRY(check_session(domain, domain_size, name, name_size, &scope, &session));
    return open->remove(scope, session);
  });
}

kvrt_status kvrt_store_rename(kvrt_store* store, const char* domain, size_t domain_size, const char* from, size_t from_size, const char* to,
                              size_t to_size, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    std::string scope, before, after;
    KVRT_TRY(check_session(domain, domain_size, from, from_size, &scope, &before));
    KVRT_TRY(check_name(to, to_size, "to", false, &after));
    return open->rename(scope, before, after);
  });
}

kvrt_status kvrt_store_pin(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size, uint32_t pinned,
                           kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    std::string scope, session;
    KVRT_TRY(check_session(domain, domain_size, name, name_size, &scope, &session));
    if (pinned > 255) return error(Code::kInvalid, Detail::kNone, "pinned is %u, expected 0 to 255", pinned);
    return open->pin(scope, session, static_cast<uint8_t>(pinned));
  });
}

kvrt_status kvrt_store_set_ttl(kvrt_store* store, const char* domain, size_t domain_size, const char* name, size_t name_size,
                               uint64_t seconds, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    std::string scope, session;
    KVRT_TRY(check_session(domain, domain_size, name, name_size, &scope, &session));
    return open->set_ttl(scope, session, seconds);
  });
}

kvrt_status kvrt_store_gc(kvrt_store* store, kvrt_event_fn callback, void* user, kvrt_gc_report* report, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    KVRT_ASSIGN(kvrt::GcReport g, open->gc(as_progress(callback, user)));
    kvrt_gc_report r{};
    r.sessions_removed = g.sessions_removed;
    r.chunks_removed = g.chunks_removed;
    r.segments_removed = g.segments_removed;
    r.bytes_freed = g.bytes_freed;
    r.ms = g.ms;
    r.bytes_rewritten = g.bytes_rewritten;
    r.bytes_punched = g.bytes_punched;
    r.log_bytes_kept = g.log_bytes_kept;
    write_output(report, r);
    return {};
  });
}

kvrt_status kvrt_store_remove_old(kvrt_store* store, uint64_t* bytes, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    KVRT_ASSIGN(const uint64_t removed, open->remove_old());
    if (bytes) *bytes = removed;
    return {};
  });
}

kvrt_status kvrt_store_verify(kvrt_store* store, kvrt_event_fn callback, void* user, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto open, hold(store, "store"));
    kvrt::Progress progress = as_progress(callback, user);
    if (!progress) progress = [](uint64_t, uint64_t) { return true; };
    KVRT_ASSIGN(auto faults, open->verify(progress, kvrt::check_manifest));
    for (const kvrt::VerifyFault& fault : faults) {
      std::string text = fault.where + ": " + fault.what + (fault.session.empty() ? "" : "; session " + fault.session);
      kvrt_event event{};
      event.struct_size = sizeof event;
      event.type = KVRT_EVENT_FAULT;
      event.text = text.data();
      event.text_size = text.size();
      if (callback && callback(user, &event)) return stopped("store_verify");
    }
    if (faults.empty()) return {};
    return error(Code::kCorrupt, Detail::kFormat, "%zu faults, the first: %s: %s", faults.size(), faults[0].where.c_str(),
                 faults[0].what.c_str());
  });
}

kvrt_status kvrt_store_repair(kvrt_runtime* runtime, const char* path, size_t path_size, kvrt_event_fn callback, void* user,
                              kvrt_repair_report* report, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    KVRT_ASSIGN(const auto held, hold(runtime, "runtime"));
    std::string directory;
    KVRT_TRY(check_path(path, path_size, &directory));
    if (report) KVRT_TRY(check_output_struct(report, "report"));
    // A repair that has changed something goes on, but a callback that has stopped it gets no further event.
    bool stopped = false;
    const auto unless_stopped = [&](const auto& tell) { return !stopped && !(stopped = !tell()); };
    const kvrt::Progress progress = as_progress(callback, user);
    kvrt::RepairWatch watch;
    watch.progress = [&](uint64_t done, uint64_t total) { return unless_stopped([&] { return !progress || progress(done, total); }); };
    watch.note = [&](const std::string& line) {
      kvrt_event event{};
      event.struct_size = sizeof event;
      event.type = KVRT_EVENT_FAULT;
      event.text = line.data();
      event.text_size = line.size();
      return unless_stopped([&] { return !callback || callback(user, &event) == 0; });
    };
    KVRT_ASSIGN(kvrt::RepairReport done, held->repair_store(directory, watch));
    kvrt_repair_report r{};
    r.outcome = static_cast<uint32_t>(done.outcome);
    r.sessions_kept = done.sessions_kept;
    r.sessions_with_holes = done.sessions_with_holes;
    r.sessions_recovered = done.sessions_recovered;
    r.sessions_lost = done.sessions_lost;
    r.chunks_kept = done.chunks_kept;
    r.chunks_lost = done.chunks_lost;
    r.bytes_kept = done.bytes_kept;
    r.ms = done.ms;
    r.chunks_orphaned = done.chunks_orphaned;
    write_output(report, r);
    return {};
  });
}

}  // extern "C"
