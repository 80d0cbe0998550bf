#include "runtime/base/paths.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "runtime/base/posix/path_place.h"

namespace kvrt {

namespace {

Seen seen(bool found, const struct stat& st) {
  if (!found) return {false, errno == ENOENT || errno == ENOTDIR, {}};
  return {true, false, {{st.st_dev, st.st_ino}, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec}};
}

std::string link_of(const Fd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

}  // namespace

std::string canonical_path(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) return path;
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  std::string found = failed ? path : std::filesystem::weakly_canonical(absolute, failed).string();
  if (failed) found = path;
  while (found.size() > 1 && found.back() == '/') found.pop_back();
  return found;
}

Seen look_at(const std::string& path) {
  struct stat st {};
  const bool found = ::lstat(path.c_str(), &st) == 0;
  return seen(found, st);
}

HeldDirectory::HeldDirectory(std::unique_ptr<PathPlace> place) : place_(std::move(place)) {}
HeldDirectory::HeldDirectory(HeldDirectory&&) noexcept = default;
HeldDirectory::~HeldDirectory() = default;

Result<HeldDirectory> HeldDirectory::of(const std::string& path) {
  KVRT_ASSIGN(PathPlace place, find_place(path));
  return HeldDirectory(std::make_unique<PathPlace>(std::move(place)));
}

const std::string& HeldDirectory::name() const { return place_->name; }

FileId HeldDirectory::id() const {
  struct stat st;
  return ::fstat(place_->dir.get(), &st) == 0 ? FileId{st.st_dev, st.st_ino} : FileId{};
}

Seen HeldDirectory::look(const std::string& suffix) const {
  struct stat st {};
  const bool found = ::fstatat(place_->dir.get(), (place_->name + suffix).c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
  return seen(found, st);
}

std::string HeldDirectory::short_path() const { return link_of(place_->dir) + "/" + place_->name; }

// False without /proc.
bool HeldDirectory::has_short_path() const {
  struct stat st;
  return ::stat(link_of(place_->dir).c_str(), &st) == 0 && FileId{st.st_dev, st.st_ino} == id();
}

}  // namespace kvrt
