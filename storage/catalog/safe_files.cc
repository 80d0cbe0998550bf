#include "storage/catalog/safe_files.h"

namespace kvrt {

Status check_catalog_files(Env* env, const std::string& catalog) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    Status status = env->check_file(catalog + suffix);
    if (!status.is_ok() && status.code() != Code::kNotFound) return status;
  }
  return {};
}

}  // namespace kvrt
