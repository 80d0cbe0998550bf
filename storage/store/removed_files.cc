#include "storage/store/removed_files.h"

namespace kvrt {

bool remove_counted(Env* env, Log* log, const std::string& path, RemovedFiles* removed) {
  uint64_t bytes = 0;
  if (removed != nullptr) {
    auto file = env->open_read(path);
    auto size = file.is_ok() ? (*file)->size() : Result<uint64_t>(file.take_status());
    if (size.is_ok()) bytes = *size;
  }
  Status status = env->remove_file(path);
  if (status.code() == Code::kNotFound) return true;
  if (!status.is_ok()) {
    logf(log, LogLevel::kWarn, "store: %s", status.message().c_str());
    return false;
  }
  if (removed != nullptr) {
    removed->count++;
    removed->bytes += bytes;
  }
  return true;
}

}  // namespace kvrt
