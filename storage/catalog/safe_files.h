// Checks of the files that SQLite opens by itself, not through Env: the store looks at them before.
#pragma once

#include <string>

#include "runtime/base/env.h"

namespace kvrt {

// UNSAFE unless the catalog, its log, its shared memory and its journal, where they exist, are files of ours that nobody else can write.
Status check_catalog_files(Env* env, const std::string& catalog);

}  // namespace kvrt
