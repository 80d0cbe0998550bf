// The calls that change and read a session's conversation: tokens, text, messages. No compute.
#include "runtime/api/boundary.h"
#include "runtime/api/session_call.h"

using namespace kvrt::api;
using kvrt::Code;
using kvrt::Detail;
using kvrt::error;
using kvrt::Status;

namespace {

kvrt_append_info to_append_info(const kvrt::AppendInfo& i) {
  kvrt_append_info out{};
  out.appended = i.appended;
  out.rewritten = i.rewritten;
  out.rewritten_at = i.rewritten_at;
  return out;
}

}  // namespace

extern "C" {

kvrt_status kvrt_session_append(kvrt_session* session, const int32_t* tokens, size_t count, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("append"));
    if (count) KVRT_TRY(check_not_null(tokens, "tokens"));
    return session->engine->conversations().append(session->session, {tokens, count});
  });
}

kvrt_status kvrt_session_append_text(kvrt_session* session, const char* text, size_t text_size, uint32_t flags, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("append_text"));
    KVRT_TRY(check_text(text, text_size, "text"));
    if (flags & ~uint32_t{KVRT_TEXT_SPECIAL}) return error(Code::kInvalid, Detail::kNone, "flags is %u, unknown bits are set", flags);
    return session->engine->conversations().append_text(session->session, {text ? text : "", text_size}, flags & KVRT_TEXT_SPECIAL);
  });
}

kvrt_status kvrt_session_append_message(kvrt_session* session, const char* message, size_t message_size, kvrt_append_info* info,
                                        kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("append_message"));
    KVRT_TRY(check_text(message, message_size, "message"));
    if (info) KVRT_TRY(check_output_struct(info, "info"));
    KVRT_ASSIGN(kvrt::AppendInfo appended,
                session->engine->conversations().append_message(session->session, {message ? message : "", message_size}));
    write_output(info, to_append_info(appended));
    return {};
  });
}

kvrt_status kvrt_session_truncate(kvrt_session* session, uint64_t count, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("truncate"));
    return session->engine->conversations().truncate(session->session, count);
  });
}

kvrt_status kvrt_session_mark(kvrt_session* session, uint64_t tokens, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("mark"));
    return session->engine->conversations().mark(session->session, tokens);
  });
}

kvrt_status kvrt_session_tokens(const kvrt_session* session, int32_t* tokens, size_t capacity, size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    BesideCall call(session);
    KVRT_TRY(call.enter());
    KVRT_TRY(check_buffer(tokens, capacity, needed));
    std::vector<int32_t> all = session->engine->conversations().tokens(session->session);
    return write_buffer(all.data(), all.size(), tokens, capacity, needed);
  });
}

kvrt_status kvrt_session_set_messages(kvrt_session* session, const char* messages, size_t messages_size, kvrt_append_info* info,
                                      kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("set_messages"));
    KVRT_TRY(check_text(messages, messages_size, "messages"));
    if (info) KVRT_TRY(check_output_struct(info, "info"));
    KVRT_ASSIGN(kvrt::AppendInfo appended,
                session->engine->conversations().set_messages(session->session, {messages ? messages : "", messages_size}));
    write_output(info, to_append_info(appended));
    return {};
  });
}

kvrt_status kvrt_session_message(const kvrt_session* session, uint64_t index, kvrt_message_props* out, char* json, size_t capacity,
                                 size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    BesideCall call(session);
    KVRT_TRY(call.enter());
    if (out) KVRT_TRY(check_output_struct(out, "out"));
    const bool props_alone = out && !json && capacity == 0 && !needed;
    if (!props_alone) KVRT_TRY(check_buffer(json, capacity, needed));
    auto message = session->engine->conversations().message(session->session, index);
    if (!message)
      return error(Code::kNotFound, Detail::kNone, "message %llu: the session has fewer", static_cast<unsigned long long>(index));
    if (!props_alone) KVRT_TRY(write_buffer(message->json.data(), message->json.size(), json, capacity, needed));
    kvrt_message_props p{};
    p.generated = message->generated;
    p.begin = message->begin;
    p.end = message->end;
    p.ended = message->ended;
    write_output(out, p);
    return {};
  });
}

kvrt_status kvrt_session_erase(kvrt_session* session, uint64_t from, uint64_t to, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    SessionCall call(session);
    KVRT_TRY(call.enter("erase"));
    return session->engine->conversations().erase(session->session, from, to);
  });
}

kvrt_status kvrt_session_text(const kvrt_session* session, uint64_t from, uint64_t to, uint32_t flags, char* text, size_t capacity,
                              size_t* needed, kvrt_error* err) {
  return guard(err, [&]() -> Status {
    BesideCall call(session);
    KVRT_TRY(call.enter());
    KVRT_TRY(check_buffer(text, capacity, needed));
    if (flags & ~uint32_t{KVRT_TEXT_SPECIAL}) return error(Code::kInvalid, Detail::kNone, "flags is %u, unknown bits are set", flags);
    std::vector<int32_t> all = session->engine->conversations().tokens(session->session);
    if (to == UINT64_MAX) to = all.size();
    if (from > to || to > all.size()) {
      return error(Code::kInvalid, Detail::kNone, "text: tokens %llu to %llu, the session has %zu", static_cast<unsigned long long>(from),
                   static_cast<unsigned long long>(to), all.size());
    }
    std::string decoded = session->engine->model().tokenizer().decode(std::span(all).subspan(from, to - from), flags & KVRT_TEXT_SPECIAL,
                                                                      from ? all[from - 1] : -1);
    return write_buffer(decoded.data(), decoded.size(), text, capacity, needed);
  });
}

}  // extern "C"
