// What migrations and repairs leave in a store's directory for who wants to go back: nothing reads it, and it holds what was removed since.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/env.h"

namespace kvrt {

struct OldFiles {
  std::vector<std::string> files, directories;  // paths; the files of damaged-<n>, and these
  uint64_t bytes = 0;
};

Result<OldFiles> find_old_files(Env* env, const std::string& root);
// The bytes that were there. Who calls it has `lock`, so that nobody migrates or repairs.
Result<uint64_t> remove_old_files(Env* env, const std::string& root);

}  // namespace kvrt
