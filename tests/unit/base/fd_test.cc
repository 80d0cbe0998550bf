// Fd: never 0 to 2; and the descriptors that a child of fork(2) gives back.
#include "runtime/base/posix/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/fork.h"
#include "runtime/base/system_file.h"

namespace kvrt {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// Runs `run` in a process of its own and returns its result.
int in_child(int (*run)()) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(run());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int low() {
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  Fd a(::open("/dev/null", O_RDONLY | O_CLOEXEC)), b(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (a.get() < 3 || b.get() < 3 || a.get() == b.get()) return 1;
  if (is_open(0) || is_open(1) || is_open(2)) return 2;
  return (::fcntl(a.get(), F_GETFD) & FD_CLOEXEC) != 0 ? 0 : 3;
}

TEST(Fd, IsNever0To2) { EXPECT_EQ(in_child(low), 0); }

TEST(Fd, AFailedOpenKeepsItsErrno) {
  errno = 0;
  const Fd none(::open("/no/such/file", O_RDONLY));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(none.ok());
}

TEST(Fd, IsClosedOnceWhoeverHasIt) {
  Fd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int fd = first.get();
  {
    Fd second(std::move(first));
    EXPECT_TRUE(!first.ok() && second.get() == fd && is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
  Fd third(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int released = third.release();
  EXPECT_TRUE(!third.ok() && is_open(released));
  ::close(released);
}

int kept_fd, released_fd;
struct stat kept;

// The child's own, which may have the numbers again, are not touched.
int child() {
  if (!is_open(kept_fd) || open_at_fork(kept)) return 1;
  mind_fork();
  if (is_open(kept_fd) || !is_open(released_fd) || !open_at_fork(kept)) return 2;
  const Fd own(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  mind_fork();
  if (!is_open(own.get())) return 3;
  struct stat st;
  if (::fstat(own.get(), &st) != 0 || open_at_fork(st)) return 4;
  const int fd = own.get();
  const pid_t grandchild = ::fork();
  if (grandchild == 0) {
    mind_fork();
    ::_exit(!is_open(fd) && open_at_fork(kept) && open_at_fork(st) ? 0 : 5);
  }
  int status = 0;
  ::waitpid(grandchild, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

// A child that closed all it inherited, as a daemon does, and put something of its own there.
int daemon_child() {
  const int own = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  if (own < 0 || ::dup2(own, kept_fd) != kept_fd) return 1;
  mind_fork();
  return is_open(kept_fd) && open_at_fork(kept) ? 0 : 2;
}

TEST(Fd, AChildGivesItsCopiesBack) {
  mind_fork();
  Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC)), other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  kept_fd = file.get();
  released_fd = other.release();
  ASSERT_EQ(::fstat(kept_fd, &kept), 0);
  EXPECT_EQ(in_child(child), 0);
  EXPECT_EQ(in_child(daemon_child), 0);
  mind_fork();
  EXPECT_TRUE(is_open(kept_fd) && !open_at_fork(kept));
  ::close(released_fd);
}

TEST(SystemFile, IsReadWhole) {
  EXPECT_NE(system_file("/proc/self/status").find("Pid:"), std::string::npos);
  EXPECT_EQ(system_file("/no/such/file"), "");
  EXPECT_EQ(system_file("/"), "");
}

}  // namespace
}  // namespace kvrt
