// The wall between C and C++: handles, arguments, option structs, the catch-all and the thread's last error. No logic.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "include/kvrt.h"
#include "runtime/base/fork.h"
#include "runtime/base/mutex.h"
#include "runtime/base/this_thread.h"
#include "runtime/engine/cancel.h"
#include "runtime/engine/engine.h"

// A handle's first words. The pid tells a child after fork(2) from its parent.
struct HandleHead {
  uint32_t magic;
  int32_t pid = kvrt::process_id();
};

namespace kvrt::api {

// A handle that is retained and released. Its object is reached through hold() alone, so that a call keeps the object until it returns,
// whatever becomes of the handle meanwhile: a callback of that call, or another thread, may release it.
template <typename T, uint32_t kMagic>
class Retained {
 public:
  using Held = std::shared_ptr<T>;
  explicit Retained(Held held) : held_(std::move(held)) {}

 private:
  template <typename H>
  friend Result<typename H::Held> hold(const H* handle, const char* what);
  template <typename H>
  friend typename H::Held hold_quietly(const H* handle);
  template <typename H>
  friend void retain(H* handle);
  template <typename H>
  friend void release(H* handle);

  static constexpr uint32_t kKind = kMagic;
  HandleHead head_{kMagic};
  std::atomic<uint32_t> refs_{1};
  const Held held_;
};

inline constexpr uint32_t kSessionMagic = 0x6b767234;

}  // namespace kvrt::api

struct kvrt_runtime : kvrt::api::Retained<kvrt::Runtime, 0x6b767231> {
  using Retained::Retained;
};
struct kvrt_model : kvrt::api::Retained<kvrt::Engine, 0x6b767232> {
  using Retained::Retained;
};
struct kvrt_store : kvrt::api::Retained<kvrt::Store, 0x6b767233> {
  using Retained::Retained;
};
struct kvrt_cancel : kvrt::api::Retained<kvrt::Cancel, 0x6b767235> {
  using Retained::Retained;
};
struct kvrt_session {
  HandleHead head{kvrt::api::kSessionMagic};
  std::shared_ptr<kvrt::Engine> engine;
  kvrt::Session* session = nullptr;
  mutable kvrt::Mutex mu;
  mutable kvrt::Condition idle;
  bool busy KVRT_GUARDED_BY(mu) = false;
  bool cancel_asked KVRT_GUARDED_BY(mu) = false;     // since the running call has entered
  std::thread::id owner KVRT_GUARDED_BY(mu);         // of the running call
  bool close_at_return KVRT_GUARDED_BY(mu) = false;  // closed from inside its own callback
  mutable uint32_t beside KVRT_GUARDED_BY(mu) = 0;   // running calls that go beside it
  kvrt::Event event;                                 // the last kvrt_event points into it
  kvrt_report report{};
};

namespace kvrt::api {

// Both remember the error for kvrt_last_error and copy it to `err`, which may be NULL.
kvrt_status report_error(const Status& status, kvrt_error* err) noexcept;
kvrt_status report_exception(kvrt_error* err) noexcept;  // inside a catch
Status check_output_struct(const void* out, const char* name);

// Runs one call. Its Status, or an exception of the STL, becomes the result, the thread's last error and `err`.
template <typename F>
kvrt_status guard(kvrt_error* err, const F& call) noexcept {
  const NotCancelled not_cancelled;
  mind_fork();
  try {
    if (err) {  // before anything is done: an error that cannot be written would be lost
      Status status = check_output_struct(err, "err");
      if (!status.is_ok()) return report_error(status, nullptr);
    }
    Status status = call();
    return status.is_ok() ? KVRT_OK : report_error(status, err);
  } catch (...) {
    return report_exception(err);
  }
}

Status check_handle(const HandleHead* head, uint32_t magic, const char* what);
// True for an open handle of this kind and process. For any other, and for NULL, retain, release and close do nothing.
bool is_live(const HandleHead* head, uint32_t magic);

template <typename H>
Result<typename H::Held> hold(const H* handle, const char* what) {
  KVRT_TRY(check_handle(handle ? &handle->head_ : nullptr, H::kKind, what));
  return handle->held_;
}
// Null if the handle is not live: for calls that never fail.
template <typename H>
typename H::Held hold_quietly(const H* handle) {
  return is_live(handle ? &handle->head_ : nullptr, H::kKind) ? handle->held_ : nullptr;
}
template <typename H>
void retain(H* handle) {
  if (is_live(handle ? &handle->head_ : nullptr, H::kKind)) handle->refs_.fetch_add(1);
}
template <typename H>
void release(H* handle) {
  const NotCancelled not_cancelled;
  if (!is_live(handle ? &handle->head_ : nullptr, H::kKind) || handle->refs_.fetch_sub(1) != 1) return;
  handle->head_.magic = 0;
  delete handle;
}

Status check_not_null(const void* pointer, const char* name);
Status check_text(const char* text, size_t size, const char* name);                                       // non-null when size > 0
Status check_path(const char* path, size_t size, std::string* out, const char* what = "path");            // non-empty, no NUL
Status check_name(const char* name, size_t size, const char* what, bool may_be_empty, std::string* out);  // UTF-8, no NUL, ≤ 255 bytes

Status check_kv(uint32_t kv_format, uint32_t kv_format_v, uint32_t block_tokens);  // as in options
KvFormats kv_formats_of(uint32_t kv_format, uint32_t kv_format_v);                 // of values that passed check_kv

Status check_option_struct(const void* options, size_t known, size_t alignment, const char* name);

// Reads options: NULL is all zeros; convention 5 has the rule for shorter and longer structs.
template <typename T>
Status read_options(const T* in, const char* name, T* out) {
  std::memset(out, 0, sizeof *out);
  if (!in) return {};
  Status status = check_option_struct(in, sizeof(T), alignof(T), name);
  if (!status.is_ok()) return status;
  std::memcpy(out, in, in->struct_size < sizeof(T) ? in->struct_size : sizeof(T));
  return {};
}

// Reads the options for the chat template: tools, documents, variables.
template <typename T>
Status read_arguments(const T& options, TemplateArguments* out) {
  const auto read = [](const char* text, size_t size, const char* name, std::string* to) {
    Status status = check_text(text, size, name);
    if (status.is_ok()) to->assign(text ? text : "", size);
    return status;
  };
  Status status = read(options.tools, options.tools_size, "tools", &out->tools);
  if (status.is_ok()) status = read(options.documents, options.documents_size, "documents", &out->documents);
  if (status.is_ok()) status = read(options.variables, options.variables_size, "variables", &out->variables);
  return status;
}

// Writes at most out->struct_size bytes, and keeps that size. `out` may be NULL where the header allows it.
template <typename T>
void write_output(T* out, T value) {
  if (!out) return;
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, out->struct_size < sizeof(T) ? out->struct_size : sizeof(T));
}

// Fills the arguments (buffer, capacity, &needed) of a call that gives an array of T.
template <typename T>
Status write_buffer(const T* data, size_t count, T* out, size_t capacity, size_t* needed) {
  *needed = count;
  if (count > capacity) {
    return error(Code::kTooSmall, Detail::kNone, "the buffer holds %zu, %zu are needed", capacity, count);
  }
  if (count) std::memcpy(out, data, count * sizeof(T));
  return {};
}
Status check_buffer(const void* out, size_t capacity, const size_t* needed);

template <size_t N>
void copy_text(char (&to)[N], std::string_view text) {  // NUL-terminated, cut at a whole code point
  size_t n = text.size() < N ? text.size() : N - 1;
  while (n < text.size() && n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  std::memcpy(to, text.data(), n);
  std::memset(to + n, 0, N - n);
}

// A callback as a Progress; an empty one for NULL.
Progress as_progress(kvrt_event_fn callback, void* user);
kvrt_report to_report(const Report& report);
void format_id(const SessionId& id, char (&out)[40]);  // 32 hex digits

}  // namespace kvrt::api
