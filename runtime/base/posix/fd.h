// Fd: a descriptor that kvrt opened. Never 0 to 2: a host that runs without those would print into our files. One table of the process
// notes every Fd, so that a child of fork(2) can give its copies back: with them it would hold its parent's locks.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace kvrt {

template <typename Call>
auto retry_eintr(Call call) {
  decltype(call()) r;
  do r = call();
  while (r < 0 && errno == EINTR);
  return r;
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(adopt(fd)) {}  // negative: none, errno stays
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release();  // the caller owns the descriptor from now on

 private:
  static int adopt(int fd);
  int fd_;
};

// The process's parent had this file open at the fork, itself or through one of its own parents. mind_fork (fork.h) has noted it.
bool open_at_fork(const struct stat& file);

}  // namespace kvrt
