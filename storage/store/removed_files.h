// Removes files, and counts them for a report.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/env.h"
#include "runtime/base/log.h"

namespace kvrt {

struct RemovedFiles {
  uint64_t count = 0, bytes = 0;
};

// True if the file does not exist any more. `removed` may be null.
bool remove_counted(Env* env, Log* log, const std::string& path, RemovedFiles* removed);

}  // namespace kvrt
