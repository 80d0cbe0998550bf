// Status and Result<T>: how every fallible function of kvrt reports. One pointer wide, null means OK.
// Outside data (files, arguments, the disk) is reported through these; an invariant is KVRT_CHECKed instead (check.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace kvrt {

// The status classes of kvrt.h, same numbers (asserted in api/boundary.cc).
enum class Code : int32_t {
  kOk = 0,
  kInvalid = 1,
  kNotFound = 2,
  kConflict = 3,
  kBusy = 4,
  kCancelled = 5,
  kNoMemory = 6,
  kTooSmall = 7,
  kLimit = 8,
  kCorrupt = 9,
  kIncompatible = 10,
  kIo = 11,
  kNoSpace = 12,
  kDevice = 13,
  kUnsupported = 14,
  kInternal = 15,
};

// Finer reasons under a class; the KVRT_DETAIL_* of kvrt.h, same numbers.
enum class Detail : int32_t {
  kNone = 0,
  kFormat = 1,           // bytes that break their format (GGUF, JSON, chunk)
  kCatalogCorrupt = 2,   // the store's catalog does not pass SQLite's or our checks
  kCatalogMissing = 3,   // a store directory without its catalog
  kStoreTooNew = 4,      // written by a later kvrt; left untouched
  kOtherProgram = 5,     // a database or directory of another program
  kReadOnly = 6,         // the store cannot be written
  kPermission = 7,       // the operating system refused access
  kUnsafeDirectory = 8,  // a store directory others can write
  kStoreLocked = 9,      // another process has the store open
  kRevision = 10,        // the saved session has another revision than this handle saw
  kNameTaken = 11,       // a session of this name exists and overwrite was not asked for
  kModelMismatch = 12,   // the snapshot was made with another model
  kForked = 13,          // called in a child after fork(2)
  kReentrant = 14,       // called from inside a callback of the same session
  kConcurrent = 15,      // two threads in one session
  kTemplateError = 16,   // the chat template raised an error or is malformed
  kTemplateLimit = 17,   // the chat template ran out of steps, output, memory or depth
  kState = 18,           // the call does not fit the session's state
  kNumeric = 19,         // NaN or infinite logits
  kStructTail = 20,      // an option struct longer than this library's, with a non-zero tail
  kGrammarError = 21,    // the grammar or schema is malformed, or nothing fits it
  kGrammarLimit = 22,    // the grammar or schema exceeds a limit
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Status&&) = default;
  Status& operator=(Status&&) = default;

  static Status ok() { return {}; }
  static Status make(Code code, Detail detail, int32_t os_code, std::string message);

  bool is_ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  Detail detail() const { return rep_ ? rep_->detail : Detail::kNone; }
  int32_t os_code() const { return rep_ ? rep_->os_code : 0; }  // errno or SQLite's extended code
  const std::string& message() const;                           // "" when OK
  Status clone() const;
  // "context: message"; OK stays OK.
  Status annotate(const std::string& context) &&;

 private:
  struct Rep {
    Code code;
    Detail detail;
    int32_t os_code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

const char* code_name(Code code);  // "OK", "INVALID", ...

// error(Code::kCorrupt, Detail::kFormat, "%s: tensor %s ends at %llu, file has %llu", ...): printf format.
[[gnu::format(printf, 3, 4)]] Status error(Code code, Detail detail, const char* format, ...);
// The same from an errno: picks the class (ENOSPC and EDQUOT -> NO_SPACE, ENOENT -> NOT_FOUND, EACCES, EPERM and EROFS ->
// IO with a detail, ENOMEM -> NO_MEMORY, else IO) and appends strerror.
[[gnu::format(printf, 2, 3)]] Status errno_error(int err, const char* format, ...);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: must not be OK
  bool is_ok() const { return value_.has_value(); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  T& operator*() { return *value_; }
  const Status& status() const { return status_; }
  Status take_status() { return std::move(status_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace kvrt

// Returns the Status of `expr` from the enclosing function unless it is OK.
#define KVRT_TRY(expr)                              \
  do {                                              \
    ::kvrt::Status kvrt_status_ = (expr);           \
    if (!kvrt_status_.is_ok()) return kvrt_status_; \
  } while (0)

// KVRT_ASSIGN(auto file, env.open(...)): declares or assigns from a Result, or returns its Status.
#define KVRT_ASSIGN(lhs, expr) KVRT_ASSIGN_(KVRT_CAT_(kvrt_result_, __LINE__), lhs, expr)
#define KVRT_ASSIGN_(tmp, lhs, expr)          \
  auto tmp = (expr);                          \
  if (!tmp.is_ok()) return tmp.take_status(); \
  lhs = std::move(tmp).value()
#define KVRT_CAT_(a, b) KVRT_CAT2_(a, b)
#define KVRT_CAT2_(a, b) a##b
