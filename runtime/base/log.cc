#include "runtime/base/log.h"

#include <cstdarg>
#include <cstdio>

namespace kvrt {

void logf(Log* log, LogLevel level, const char* format, ...) {
  if (!log) return;
  char buffer[1024];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  if (n < 0) return;
  size_t size = static_cast<size_t>(n) < sizeof buffer ? static_cast<size_t>(n) : sizeof buffer - 1;
  log->write(level, std::string_view(buffer, size));
}

}  // namespace kvrt
