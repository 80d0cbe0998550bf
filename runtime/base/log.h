// Log: the host's sink, passed in by pointer. kvrt never prints by itself.
#pragma once

#include <string_view>

namespace kvrt {

enum class LogLevel : int { kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

// Thread-safe. Messages never hold prompt text.
class Log {
 public:
  virtual ~Log() = default;
  virtual void write(LogLevel level, std::string_view message) = 0;
};

[[gnu::format(printf, 3, 4)]] void logf(Log* log, LogLevel level, const char* format, ...);  // log may be null

}  // namespace kvrt
