// Env's mapped files, as POSIX has them. For posix_env.cc.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/env.h"

namespace kvrt {

Result<std::unique_ptr<MappedFile>> map_posix_file(const FilePart& part, const std::string& what);

}  // namespace kvrt
