#include "runtime/base/status.h"

#include <locale.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace kvrt {

namespace {
std::string vformat(const char* format, va_list args) {
  char buffer[512];
  va_list copy;
  va_copy(copy, args);
  int n = vsnprintf(buffer, sizeof buffer, format, copy);
  va_end(copy);
  if (n < 0) return format;
  if (static_cast<size_t>(n) < sizeof buffer) return std::string(buffer, static_cast<size_t>(n));
  std::string text(static_cast<size_t>(n), '\0');
  vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}
}  // namespace

Status Status::make(Code code, Detail detail, int32_t os_code, std::string message) {
  Status status;
  status.rep_ = std::make_unique<Rep>(Rep{code, detail, os_code, std::move(message)});
  return status;
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

Status Status::clone() const { return rep_ ? make(rep_->code, rep_->detail, rep_->os_code, rep_->message) : Status(); }

Status Status::annotate(const std::string& context) && {
  if (rep_) rep_->message = context + ": " + rep_->message;
  return std::move(*this);
}

const char* code_name(Code code) {
  static const char* const kNames[] = {"OK",    "INVALID", "NOT_FOUND",    "CONFLICT", "BUSY",     "CANCELLED", "NO_MEMORY",   "TOO_SMALL",
                                       "LIMIT", "CORRUPT", "INCOMPATIBLE", "IO",       "NO_SPACE", "DEVICE",    "UNSUPPORTED", "INTERNAL"};
  auto i = static_cast<size_t>(code);
  return i < sizeof kNames / sizeof *kNames ? kNames[i] : "UNKNOWN";
}

Status error(Code code, Detail detail, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string message = vformat(format, args);
  va_end(args);
  return Status::make(code, detail, 0, std::move(message));
}

namespace {
const char* cure_of(int err) {
  switch (err) {
    case ENOSPC:
      return ": free space there (df -h)";
    case EDQUOT:
      return ": free space there, or raise the quota (quota -s)";
    case EFBIG:
      return ": raise the limit of a file's size (ulimit -f)";
    default:
      return "";
  }
}
}  // namespace

Status errno_error(int err, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string message = vformat(format, args);
  va_end(args);
  Code code = Code::kIo;
  Detail detail = Detail::kNone;
  switch (err) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:  // RLIMIT_FSIZE
      code = Code::kNoSpace;
      break;
    case ENOENT:
      code = Code::kNotFound;
      break;
    case ENOMEM:
      code = Code::kNoMemory;
      break;
    case EACCES:
    case EPERM:
      detail = Detail::kPermission;
      break;
    case EROFS:
      detail = Detail::kReadOnly;
      break;
    default:
      break;
  }
  message += ": ";
  message += strerror_l(err, newlocale(LC_ALL_MASK, "C", nullptr));  // in English and ASCII whatever the host's locale is; "C" is static
  message += cure_of(err);
  return Status::make(code, detail, err, std::move(message));
}

}  // namespace kvrt
