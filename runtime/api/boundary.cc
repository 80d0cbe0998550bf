#include "runtime/api/boundary.h"

#include <cstdio>

#include "runtime/base/limits.h"
#include "runtime/base/utf8.h"

namespace kvrt::api {

namespace {

thread_local kvrt_error last_error{};  // the only state outside of a handle: convention 4

// Ends the message where the host's struct ends: with a NUL, after a whole code point.
void end_text(kvrt_error* err) {
  if (err->struct_size >= sizeof *err || err->struct_size <= offsetof(kvrt_error, message)) return;
  size_t end = err->struct_size - offsetof(kvrt_error, message) - 1;
  while (end > 0 && (static_cast<uint8_t>(err->message[end]) & 0xc0) == 0x80) end--;
  err->message[end] = 0;
}

kvrt_status remember(kvrt_status status, int32_t detail, int32_t os_code, std::string_view message, kvrt_error* err) {
  last_error.status = status;
  last_error.detail = detail;
  last_error.os_code = os_code;
  copy_text(last_error.message, message);
  for (std::string_view rest = last_error.message; !rest.empty();) {  // a path may be any bytes; a message is UTF-8
    size_t bad = find_invalid_utf8(rest);
    if (bad == std::string_view::npos) break;
    last_error.message[static_cast<size_t>(rest.data() - last_error.message) + bad] = '?';
    rest.remove_prefix(bad + 1);
  }
  write_output(err, last_error);
  if (err) end_text(err);
  return status;
}

}  // namespace

kvrt_status report_error(const Status& status, kvrt_error* err) noexcept {
  return remember(static_cast<kvrt_status>(status.code()), static_cast<int32_t>(status.detail()), status.os_code(), status.message(), err);
}

kvrt_status report_exception(kvrt_error* err) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return remember(KVRT_NO_MEMORY, 0, 0, "the system gave no memory", err);
  } catch (const std::exception& e) {
    return remember(KVRT_INTERNAL, 0, 0, e.what(), err);
  } catch (...) {
    return remember(KVRT_INTERNAL, 0, 0, "an unknown exception", err);
  }
}

Status check_handle(const HandleHead* head, uint32_t magic, const char* what) {
  if (!head) return error(Code::kInvalid, Detail::kNone, "%s is NULL", what);
  if (head->magic != magic) return error(Code::kInvalid, Detail::kNone, "%s is no open handle of its kind", what);
  if (head->pid != process_id()) {
    return error(Code::kUnsupported, Detail::kForked, "%s was opened by process %d, this is its child %d after fork: open it anew here",
                 what, head->pid, process_id());
  }
  return {};
}

bool is_live(const HandleHead* head, uint32_t magic) {
  mind_fork();
  return head && head->magic == magic && head->pid == process_id();
}

Status check_not_null(const void* pointer, const char* name) {
  return pointer ? Status() : error(Code::kInvalid, Detail::kNone, "%s is NULL", name);
}

Status check_text(const char* text, size_t size, const char* name) {
  if (!text && size) return error(Code::kInvalid, Detail::kNone, "%s is NULL with a size of %zu", name, size);
  if (size > kTextBytesMax) return error(Code::kLimit, Detail::kNone, "%s has %zu bytes, at most %zu are taken", name, size, kTextBytesMax);
  return {};
}

Status check_path(const char* path, size_t size, std::string* out, const char* what) {
  KVRT_TRY(check_text(path, size, what));
  std::string_view view(path ? path : "", size);
  if (view.empty() || view.size() > 4095) return error(Code::kInvalid, Detail::kNone, "%s has %zu bytes, expected 1 to 4095", what, size);
  size_t nul = view.find('\0');
  if (nul != std::string_view::npos) return error(Code::kInvalid, Detail::kNone, "%s has a NUL at byte %zu", what, nul);
  *out = view;
  return {};
}

Status check_name(const char* name, size_t size, const char* what, bool may_be_empty, std::string* out) {
  KVRT_TRY(check_text(name, size, what));
  std::string_view view(name ? name : "", size);
  if ((view.empty() && !may_be_empty) || view.size() > kNameBytesMax) {
    return error(Code::kInvalid, Detail::kNone, "%s has %zu bytes, expected %d to %zu", what, size, may_be_empty ? 0 : 1, kNameBytesMax);
  }
  if (view.find('\0') != std::string_view::npos || find_invalid_utf8(view) != std::string_view::npos) {
    return error(Code::kInvalid, Detail::kNone, "%s is not UTF-8 without NUL", what);
  }
  *out = view;
  return {};
}

Status check_kv(uint32_t kv_format, uint32_t kv_format_v, uint32_t block_tokens) {
  for (const auto& [field, value] : {std::pair{"kv_format", kv_format}, std::pair{"kv_format_v", kv_format_v}}) {
    if (value <= KVRT_KV_INT4) continue;
    return error(Code::kInvalid, Detail::kNone, "%s is %u, expected KVRT_KV_DEFAULT, _F16, _BF16, _F32, _INT8, _FP8 or _INT4", field,
                 value);
  }
  const bool power = block_tokens && !(block_tokens & (block_tokens - 1));
  if (block_tokens && (!power || block_tokens < kBlockTokensMin || block_tokens > kBlockTokensMax)) {
    return error(Code::kInvalid, Detail::kNone, "block_tokens is %u, expected 16, 32, 64, 128, 256 or 0", block_tokens);
  }
  return {};
}

KvFormats kv_formats_of(uint32_t kv_format, uint32_t kv_format_v) {
  constexpr KvFormat kFormats[] = {KvFormat::kF16, KvFormat::kF16, KvFormat::kBF16, KvFormat::kF32,
                                   KvFormat::kI8,  KvFormat::kF8,  KvFormat::kI4};
  return {kFormats[kv_format], kFormats[kv_format_v ? kv_format_v : kv_format]};
}

Status check_option_struct(const void* options, size_t known, size_t alignment, const char* name) {
  uint32_t size;
  std::memcpy(&size, options, sizeof size);
  if (size < sizeof size || size > 65536) {
    return error(Code::kInvalid, Detail::kNone, "%s.struct_size is %u: set it to sizeof the struct", name, size);
  }
  if (size % alignment != 0) {  // no compiler gives such a size, and half a pointer is none
    return error(Code::kInvalid, Detail::kNone, "%s.struct_size is %u, expected a multiple of the struct's alignment, %zu", name, size,
                 alignment);
  }
  auto bytes = static_cast<const unsigned char*>(options);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i]) {
      return error(Code::kUnsupported, Detail::kStructTail,
                   "%s: byte %zu is set, this library knows %zu: it is older than the caller's header", name, i, known);
    }
  }
  return {};
}

Status check_output_struct(const void* out, const char* name) {
  if (!out) return error(Code::kInvalid, Detail::kNone, "%s is NULL", name);
  uint32_t size;
  std::memcpy(&size, out, sizeof size);
  if (size < sizeof size || size > 65536) {
    return error(Code::kInvalid, Detail::kNone, "%s.struct_size is %u: set it to sizeof the struct", name, size);
  }
  return {};
}

Status check_buffer(const void* out, size_t capacity, const size_t* needed) {
  KVRT_TRY(check_not_null(needed, "needed"));
  if (!out && capacity) return error(Code::kInvalid, Detail::kNone, "the buffer is NULL with a capacity of %zu", capacity);
  return {};
}

Progress as_progress(kvrt_event_fn callback, void* user) {
  if (!callback) return nullptr;
  return [=](uint64_t done, uint64_t total) {
    kvrt_event event{};
    event.struct_size = sizeof event;
    event.type = KVRT_EVENT_PROGRESS;
    event.done = done;
    event.total = total;
    return callback(user, &event) == 0;
  };
}

kvrt_report to_report(const Report& r) {
  kvrt_report out{};
  out.struct_size = sizeof out;
  out.reason = static_cast<uint32_t>(r.reason);
  out.prompt_tokens = r.prompt_tokens;
  out.reused_memory = r.reused_memory;
  out.reused_disk = r.reused_disk;
  out.prefilled = r.prefilled;
  out.generated = r.generated;
  out.reuse_stopped = static_cast<uint32_t>(r.reuse_stopped);
  out.reuse_stopped_at = r.reuse_stopped_at;
  out.stop_string_tokens = r.stop_string_tokens;
  out.seed = r.seed;
  out.queue_ms = r.queue_ms;
  out.ttft_ms = r.ttft_ms;
  out.prefill_ms = r.prefill_ms;
  out.decode_ms = r.decode_ms;
  if (r.generated > 1) {
    out.tpot_ms = r.decode_ms / static_cast<double>(r.generated - 1);
    if (r.decode_ms > 0) out.decode_tokens_per_s = 1e3 / out.tpot_ms;
  }
  if (r.prefill_ms > 0) out.prefill_tokens_per_s = 1e3 * static_cast<double>(r.prefilled) / r.prefill_ms;
  out.pool_bytes_begin = r.pool_bytes.begin;
  out.pool_bytes_prefilled = r.pool_bytes.prefilled;
  out.pool_bytes_end = r.pool_bytes.end;
  out.recomputed = r.recomputed;
  out.drafted = r.drafted;
  out.accepted = r.accepted;
  out.kv_units = r.kv_units;
  out.kv_bytes = r.kv_bytes;
  return out;
}

void format_id(const SessionId& id, char (&out)[40]) {
  std::memset(out, 0, sizeof out);
  for (size_t i = 0; i < sizeof id.bytes; ++i) std::snprintf(out + 2 * i, 3, "%02x", id.bytes[i]);
}

static_assert(static_cast<int>(Code::kInternal) == KVRT_INTERNAL && static_cast<int>(Code::kConflict) == KVRT_CONFLICT &&
              static_cast<int>(Code::kCorrupt) == KVRT_CORRUPT && static_cast<int>(Code::kNoSpace) == KVRT_NO_SPACE);
static_assert(static_cast<int>(Detail::kStructTail) == KVRT_DETAIL_STRUCT_TAIL &&
              static_cast<int>(Detail::kModelMismatch) == KVRT_DETAIL_MODEL_MISMATCH &&
              static_cast<int>(Detail::kTemplateLimit) == KVRT_DETAIL_TEMPLATE_LIMIT &&
              static_cast<int>(Detail::kGrammarLimit) == KVRT_DETAIL_GRAMMAR_LIMIT);

}  // namespace kvrt::api

using namespace kvrt::api;

extern "C" {

uint32_t kvrt_version(void) { return KVRT_VERSION_MAJOR << 16 | KVRT_VERSION_MINOR << 8 | KVRT_VERSION_PATCH; }
uint32_t kvrt_abi_version(void) { return KVRT_ABI_VERSION; }

const char* kvrt_status_name(kvrt_status status) { return kvrt::code_name(static_cast<kvrt::Code>(status)); }

kvrt_status kvrt_last_error(kvrt_error* out) {
  kvrt_error found = last_error;  // before a mistake in `out` takes its place
  return guard(nullptr, [&] {
    KVRT_TRY(check_output_struct(out, "out"));
    write_output(out, found);
    end_text(out);
    return kvrt::Status();
  });
}

}  // extern "C"
