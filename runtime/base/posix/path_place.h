// Places: a place is found from its directory's descriptor, step by step, and the file there must be ours.
#pragma once

#include <sys/stat.h>

#include <string>

#include "runtime/base/paths.h"
#include "runtime/base/posix/fd.h"
#include "runtime/base/status.h"

namespace kvrt {

// A name in a directory that is held open, so that nobody can put another in its place meanwhile.
struct PathPlace {
  Fd dir;            // O_PATH
  std::string name;  // "." for a root
};

// UNSAFE when a part of the path is a symbolic link; the last part is not looked at.
Result<PathPlace> find_place(const std::string& path);

// UNSAFE unless it is of this `type` (S_IFREG or S_IFDIR), the effective user's, not writable by group or others, and, where it is a
// file, has this one name.
Status check_own(const struct stat& st, mode_t type, const std::string& path);
// The same for the file at a place, and for its directory. NOT_FOUND when nothing is there.
Status check_own_file(const PathPlace& place, const std::string& path);
// True if this process may make and remove files in the directory; IO when that could not be found out.
Result<bool> is_writable_dir(const PathPlace& place, const struct stat& st, const std::string& path);
// Opens a directory for reading, unless it is a link.
Result<Fd> open_own_dir(const std::string& path);

}  // namespace kvrt
