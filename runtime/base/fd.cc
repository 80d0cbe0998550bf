#include "runtime/base/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace kvrt {

namespace {

// A bit for each descriptor: atomics need no lock, which a thread of the parent might have held at the fork. As many as Linux gives a process
// unless told otherwise (fs.nr_open); what is above is not noted.
constexpr int kNoted = 1 << 20;
std::atomic<uint64_t> noted[kNoted / 64];

// The process that the table is of; 0: nobody has asked yet; negative: that one is about to close what it inherited.
std::atomic<pid_t> owner{0};

using FileId = std::pair<dev_t, ino_t>;
std::vector<FileId> inherited;  // written while owner is negative, before a child has another thread in kvrt

void note(int fd, bool open) {
  if (fd >= kNoted) return;
  const uint64_t bit = uint64_t{1} << (fd % 64);
  open ? noted[fd / 64].fetch_or(bit) : noted[fd / 64].fetch_and(~bit);
}

void close_inherited() {
  std::vector<int> fds;
  for (int word = 0; word < kNoted / 64; ++word) {
    for (uint64_t bits = noted[word]; bits != 0; bits &= bits - 1) fds.push_back(word * 64 + __builtin_ctzll(bits));
  }
  inherited.reserve(inherited.size() + fds.size());  // from here on nothing needs memory
  for (const int fd : fds) {
    struct stat st;
    if (::fstat(fd, &st) == 0) inherited.emplace_back(st.st_dev, st.st_ino);
    note(fd, false);
    ::close(fd);
  }
}

}  // namespace

int Fd::adopt(int fd) {
  if (fd < 0) return fd;
  if (fd <= STDERR_FILENO) {
    const int higher = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), err = errno;
    ::close(fd);
    errno = err;
    if (higher < 0) return higher;
    fd = higher;
  }
  note(fd, true);
  return fd;
}

int Fd::release() {
  if (fd_ >= 0) note(fd_, false);
  return std::exchange(fd_, -1);
}

Fd::~Fd() {
  const int fd = release();
  if (fd >= 0) ::close(fd);
}

void mind_fork() noexcept {
  const pid_t self = ::getpid();
  pid_t of = owner.load();
  while (of != self) {
    if (of == -self) {  // another thread of this process is at it
      ::sched_yield();
      of = owner.load();
    } else if (owner.compare_exchange_weak(of, -self)) {
      const pid_t parent = of;
      of = self;
      try {
        if (parent != 0) close_inherited();
      } catch (...) {  // no memory: the next call tries again
        owner = parent;
        return;
      }
      owner = self;
    }
  }
}

bool open_at_fork(const struct stat& file) {
  return std::find(inherited.begin(), inherited.end(), FileId(file.st_dev, file.st_ino)) != inherited.end();
}

}  // namespace kvrt
