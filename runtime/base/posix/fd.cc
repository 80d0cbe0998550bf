#include "runtime/base/posix/fd.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/base/fork.h"

namespace kvrt {

namespace {

using FileId = std::pair<dev_t, ino_t>;

// The file behind each descriptor of ours; inode 0: not ours. Atomics need no lock, which a thread of the parent might have held at the
// fork. Descriptors from kNoted on are not noted.
constexpr int kNoted = 1 << 16;
struct Note {
  std::atomic<uint64_t> device{0}, inode{0};
};
Note noted[kNoted];

// The process that the table belongs to; 0: nobody has asked yet; negative: that process is about to close its inherited descriptors.
std::atomic<pid_t> owner{0};

std::vector<FileId> inherited;  // written while owner is negative, before a child has another thread in kvrt

void note(int fd) {
  struct stat st;
  if (fd >= kNoted || ::fstat(fd, &st) != 0) return;
  noted[fd].device = st.st_dev;
  noted[fd].inode = st.st_ino;
}

void forget(int fd) {
  if (fd < kNoted) noted[fd].inode = 0;
}

// A child may have closed the descriptor itself, and have a file of its own under that number: that file stays open.
void close_inherited() {
  std::vector<int> fds;
  for (int fd = 0; fd < kNoted; ++fd) {
    if (noted[fd].inode != 0) fds.push_back(fd);
  }
  inherited.reserve(inherited.size() + fds.size());  // from here on nothing needs memory
  for (const int fd : fds) {
    const FileId file(noted[fd].device, noted[fd].inode);
    inherited.push_back(file);
    forget(fd);
    struct stat st;
    if (::fstat(fd, &st) == 0 && FileId(st.st_dev, st.st_ino) == file) ::close(fd);
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
  note(fd);
  return fd;
}

int Fd::release() {
  if (fd_ >= 0) forget(fd_);
  return std::exchange(fd_, -1);
}

Fd::~Fd() {
  const int fd = release();
  if (fd >= 0) ::close(fd);
}

int32_t process_id() { return ::getpid(); }

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
