// The place of a store: a directory that only its owner can change, on a file system whose locks and renames can be trusted.
#pragma once

#include <string>

#include "runtime/base/env.h"

namespace kvrt {

// UNSAFE unless the store's directory is ours and nobody else can write it; UNSUPPORTED on a network file system.
Status check_place(Env* env, const std::string& root, bool* writable);
// UNSAFE unless tmp/ and segs/, where they exist, are directories of ours that nobody else can write.
Status check_directories(Env* env, const std::string& root);

}  // namespace kvrt
