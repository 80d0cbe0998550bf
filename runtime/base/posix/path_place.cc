#include "runtime/base/posix/path_place.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/books_only.h"

namespace kvrt {

namespace {

const char* name_of_type(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a directory";
    case S_IFLNK:
      return "a symbolic link";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

Status unsafe(const std::string& path, const std::string& found, const char* expected) {
  return error(Code::kInvalid, Detail::kUnsafeDirectory, "%s: %s, expected %s; not used", path.c_str(), found.c_str(), expected);
}

}  // namespace

Result<PathPlace> find_place(const std::string& path) {
  KVRT_CHECK_NO_BOOKS();
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  PathPlace place{Fd(retry_eintr([&] { return ::open(path.starts_with('/') ? "/" : ".", kFlags); })), "."};
  if (!place.dir.ok()) return errno_error(errno, "%s: open", path.c_str());
  for (size_t at = 0; at < path.size();) {
    const size_t slash = path.find('/', at), end = slash == std::string::npos ? path.size() : slash;
    std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty()) continue;
    std::swap(part, place.name);  // the part before this one is a directory
    if (part == ".") continue;
    Fd next(retry_eintr([&] { return ::openat(place.dir.get(), part.c_str(), kFlags); }));
    if (!next.ok()) {
      const int err = errno;
      struct stat st;
      if (::fstatat(place.dir.get(), part.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
        return unsafe(path, "its part " + part + " is a symbolic link", "a directory");
      }
      return errno_error(err, "%s: open", path.c_str());
    }
    place.dir = std::move(next);
  }
  return place;
}

Status check_own(const struct stat& st, mode_t type, const std::string& path) {
  if ((st.st_mode & S_IFMT) != type) return unsafe(path, name_of_type(st.st_mode), name_of_type(type));
  if (st.st_uid != ::geteuid()) {
    return unsafe(path, "belongs to user " + std::to_string(st.st_uid), ("user " + std::to_string(::geteuid())).c_str());
  }
  if (type == S_IFREG && st.st_nlink > 1) return unsafe(path, "has " + std::to_string(st.st_nlink) + " names (hard links)", "one");
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return unsafe(path, "group or others can write it", type == S_IFDIR ? "mode 0700" : "mode 0600");
  }
  return {};
}

Status check_own_file(const PathPlace& place, const std::string& path) {
  struct stat st;
  if (::fstat(place.dir.get(), &st) != 0) return errno_error(errno, "%s: stat of its directory", path.c_str());
  KVRT_TRY(check_own(st, S_IFDIR, path.substr(0, path.rfind('/'))));
  if (::fstatat(place.dir.get(), place.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s", path.c_str());
  return check_own(st, S_IFREG, path);
}

Result<bool> is_writable_dir(const PathPlace& place, const struct stat& st, const std::string& path) {
  const int dir = place.dir.get();
  const char* name = place.name.c_str();
  if (::faccessat(dir, name, W_OK, AT_EACCESS) == 0) return true;
  // A filter of system calls that is older than faccessat2 may refuse it with EPERM, which an immutable directory gives, too. The old call
  // tells them apart, where the effective user is the real one; the C library would take the new call for it.
  const bool refused = errno == EPERM || errno == ENOSYS;
  if (refused && ::geteuid() == ::getuid() && ::syscall(SYS_faccessat, dir, name, W_OK) == 0) return true;
  if (errno == EACCES || errno == EROFS || errno == EPERM) return false;
  if (errno != ENOSYS) return errno_error(errno, "%s: access", path.c_str());
  struct statvfs fs;
  if (::statvfs(path.c_str(), &fs) != 0) return errno_error(errno, "%s: statvfs", path.c_str());
  return (fs.f_flag & ST_RDONLY) == 0 && (::geteuid() == 0 || (st.st_uid == ::geteuid() && (st.st_mode & S_IWUSR) != 0));
}

Result<Fd> open_own_dir(const std::string& path) {
  KVRT_ASSIGN(const PathPlace place, find_place(path));
  struct stat st;
  if (::fstatat(place.dir.get(), place.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "%s", path.c_str());
  KVRT_TRY(check_own(st, S_IFDIR, path));
  Fd fd(retry_eintr([&] { return ::openat(place.dir.get(), place.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
  if (!fd.ok()) return errno_error(errno, "%s: open directory", path.c_str());
  return fd;
}

}  // namespace kvrt
