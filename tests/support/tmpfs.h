#pragma once

#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace kvrt::test {

// A mount of its own, unmounted by the destructor. Needs the right to mount; the tests that use it are skipped without.
class Tmpfs {
 public:
  Tmpfs(const std::string& at, const std::string& options) : at_(at) {
    std::filesystem::create_directory(at);
    mounted_ = ::mount("tmpfs", at.c_str(), "tmpfs", MS_NOSUID, ("mode=0700," + options).c_str()) == 0;
  }
  ~Tmpfs() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  bool make_read_only() { return ::mount("tmpfs", at_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0; }

 private:
  std::string at_;
  bool mounted_;
};

}  // namespace kvrt::test
