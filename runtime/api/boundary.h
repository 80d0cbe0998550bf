// The wall between C and C++: handles, arguments, option structs, the catch-all and the thread's last error. No logic.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "include/kvrt.h"
#include "runtime/engine/model_host.h"

// A handle's first words. The pid tells a child after fork(2) from its parent.
struct HandleHead {
  uint32_t magic;
  pid_t pid = getpid();
  std::atomic<uint32_t> refs{1};
};

inline constexpr uint32_t kRuntimeMagic = 0x6b767231, kModelMagic = 0x6b767232, kStoreMagic = 0x6b767233, kSessionMagic = 0x6b767234;

struct kvrt_runtime {
  HandleHead head{kRuntimeMagic};
  std::shared_ptr<kvrt::Engine> engine;
};
struct kvrt_model {
  HandleHead head{kModelMagic};
  std::shared_ptr<kvrt::ModelHost> host;
};
struct kvrt_store {
  HandleHead head{kStoreMagic};
  std::shared_ptr<kvrt::Store> store;
};
struct kvrt_session {
  HandleHead head{kSessionMagic};
  std::shared_ptr<kvrt::ModelHost> host;
  kvrt::Session* session = nullptr;
  std::mutex mu;  // guards the five below
  std::condition_variable idle;
  bool busy = false;
  std::thread::id owner;         // of the running call
  bool close_at_return = false;  // closed from inside its own callback
  uint32_t checkpoints = 0;      // running, beside the call
  kvrt::Event event;             // what the last kvrt_event points into
  kvrt_report report{};
};

namespace kvrt::api {

// Both remember the error for kvrt_last_error and copy it to `err`, which may be NULL.
kvrt_status report_error(const Status& status, kvrt_error* err) noexcept;
kvrt_status report_exception(kvrt_error* err) noexcept;  // inside a catch
Status check_output_struct(const void* out, const char* name);

// Runs one call: its Status, or an exception that came out of the STL, becomes the class, the thread's last error and `err`.
template <typename F>
kvrt_status guard(kvrt_error* err, const F& call) noexcept {
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
template <typename H>
Status check(const H* handle, const char* what) {
  return check_handle(handle ? &handle->head : nullptr,
                      std::is_same_v<H, kvrt_runtime> ? kRuntimeMagic
                      : std::is_same_v<H, kvrt_model> ? kModelMagic
                      : std::is_same_v<H, kvrt_store> ? kStoreMagic
                                                      : kSessionMagic,
                      what);
}
// false in a child after fork(2) and for NULL: release and close then do nothing.
bool owned_here(const HandleHead* head);

// The shared nouns' retain and release.
template <typename H>
void retain(H* handle) {
  if (owned_here(handle ? &handle->head : nullptr)) handle->head.refs.fetch_add(1);
}
template <typename H>
void release(H* handle) {
  if (!owned_here(handle ? &handle->head : nullptr) || handle->head.refs.fetch_sub(1) != 1) return;
  handle->head.magic = 0;
  delete handle;
}

Status check_not_null(const void* pointer, const char* name);
Status check_text(const char* text, size_t size, const char* name);                                       // non-null when size > 0
Status check_path(const char* path, size_t size, std::string* out, const char* what = "path");            // non-empty, no NUL
Status check_name(const char* name, size_t size, const char* what, bool may_be_empty, std::string* out);  // UTF-8, no NUL, ≤ 255 bytes

Status check_kv(uint32_t kv_format, uint32_t block_tokens);  // as options give them
KvFormat kv_format_of(uint32_t kv_format);                   // of one that check_kv has seen

Status check_option_struct(const void* options, size_t known, const char* name);

// Options: NULL is all zeros; shorter or longer structs as convention 5 says.
template <typename T>
Status read_options(const T* in, const char* name, T* out) {
  std::memset(out, 0, sizeof *out);
  if (!in) return {};
  Status status = check_option_struct(in, sizeof(T), name);
  if (!status.is_ok()) return status;
  std::memcpy(out, in, in->struct_size < sizeof(T) ? in->struct_size : sizeof(T));
  return {};
}

// What options give the chat template: tools, documents, variables.
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

// Writes at most out->struct_size bytes, which stays as it was. NULL is allowed where the header says so.
template <typename T>
void write_output(T* out, T value) {
  if (!out) return;
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, out->struct_size < sizeof(T) ? out->struct_size : sizeof(T));
}

// (buffer, capacity, &needed) of T.
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
