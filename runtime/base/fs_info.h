// What a path's file system is, and what room it has.
#pragma once

#include <string>

#include "runtime/base/env.h"

namespace kvrt {

Result<FsInfo> read_fs_info(const std::string& path);

}  // namespace kvrt
