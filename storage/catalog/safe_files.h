// What a store uses without opening it through Env, or without making it: looked at before.
#pragma once

#include <string>

#include "runtime/base/env.h"

namespace kvrt {

// UNSAFE unless the catalog, its log, its shared memory and its journal, where they are there, are files of ours that nobody else writes.
Status check_catalog_files(Env* env, const std::string& catalog);

// UNSAFE unless the store's directories, where they are there, are directories of ours that nobody else writes.
Status check_directories(Env* env, const std::string& root);

}  // namespace kvrt
