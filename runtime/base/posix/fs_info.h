// The type of a path's file system, and the room on it.
#pragma once

#include <string>

#include "runtime/base/env.h"

namespace kvrt {

Result<FsInfo> read_fs_info(const std::string& path);

// The Status of errno after `what`, which was to make a file or directory at the path: ENOSPC also says that no file can be made any more.
Status creation_error(const std::string& path, const char* what);

}  // namespace kvrt
