// The type of a path's file system, and the room on it.
#pragma once

#include <string>

#include "runtime/base/env.h"

namespace kvrt {

Result<FsInfo> read_fs_info(const std::string& path);

}  // namespace kvrt
