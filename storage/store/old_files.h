// The files that migrations and repairs leave in a store's directory, for a user who wants to go back. Nothing reads them; they still hold
// content that was removed since.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/env.h"

namespace kvrt {

struct OldFiles {
  std::vector<std::string> files, directories;  // paths; `directories`: the damaged-<n>
  uint64_t bytes = 0;
};

Result<OldFiles> find_old_files(Env* env, const std::string& root);
// Removes them, and gives their bytes. The caller holds `lock`, so that nobody migrates or repairs.
Result<uint64_t> remove_old_files(Env* env, const std::string& root);

}  // namespace kvrt
