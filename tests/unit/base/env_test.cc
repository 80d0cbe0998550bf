#include "runtime/base/env.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "runtime/base/paths.h"
#include "runtime/base/posix/fd.h"

namespace kvrt {
namespace {

class EnvTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/kvrt-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string at(const std::string& name) { return dir_ + "/" + name; }
  static mode_t mode(const std::string& path) {
    struct stat st;
    return ::lstat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
  }
  static std::vector<uint8_t> text(const std::string& s) { return std::vector<uint8_t>(s.begin(), s.end()); }
  // The pages of the file's first bytes that the page cache holds; SIZE_MAX: this file system has no direct I/O, or does not say.
  static size_t cached_pages(const std::string& path, size_t bytes) {
    const Fd direct(::open(path.c_str(), O_RDONLY | O_DIRECT));
    void* base = direct.ok() ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, direct.get(), 0) : MAP_FAILED;
    if (base == MAP_FAILED) return SIZE_MAX;
    std::vector<unsigned char> pages(bytes / 4096);
    const bool told = ::mincore(base, bytes, pages.data()) == 0;
    ::munmap(base, bytes);
    return told ? static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; })) : SIZE_MAX;
  }
  void make_file(const std::string& name, const std::string& content) { std::ofstream(at(name)) << content; }

  Env* env_ = posix_env();
  std::string dir_;
};

TEST_F(EnvTest, WritesAndReadsBack) {
  auto file = env_->create_new(at("f"));
  ASSERT_TRUE(file.is_ok());
  EXPECT_TRUE((*file)->append(text("hello ")).is_ok());
  EXPECT_TRUE((*file)->append(text("world")).is_ok());
  EXPECT_TRUE((*file)->append({}).is_ok());
  EXPECT_TRUE((*file)->sync().is_ok());
  auto again = env_->open_read(at("f"));
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ((*again)->size().value(), 11u);
  std::vector<uint8_t> out(5);
  ASSERT_TRUE((*again)->pread(6, out).is_ok());
  EXPECT_EQ(out, text("world"));
  Status cut = (*again)->pread(7, out);
  EXPECT_EQ(cut.code(), Code::kCorrupt);
  EXPECT_NE(cut.message().find(at("f")), std::string::npos) << cut.message();
}

// Reads from the page cache, past it, and where only a part is cached: the same bytes, and the same errors.
TEST_F(EnvTest, LargeReadsColdAndWarm) {
  std::vector<uint8_t> want((3u << 20) + 1234);
  for (size_t i = 0; i < want.size(); i++) want[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  auto made = env_->create_new(at("large"));
  ASSERT_TRUE(made.is_ok() && (*made)->append(want).is_ok() && (*made)->sync().is_ok());
  const size_t end = want.size(),
               ranges[][2] = {{0, 1000}, {0, 1u << 20}, {777, 300'000}, {(2u << 20) - 3, 1u << 20}, {end - 200'001, 200'001},
                              {0, end},  {end - 7, 7}};
  const int fd = ::open(at("large").c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ReadBuffer buffer;
  for (const char* state : {"warm", "cold", "part"}) {
    auto file = env_->open_read(at("large"));
    ASSERT_TRUE(file.is_ok());
    for (const auto& [offset, bytes] : ranges) {
      uint8_t byte;
      ASSERT_TRUE(*state == 'w' || ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
      ASSERT_TRUE(*state != 'p' || ::pread(fd, &byte, 1, static_cast<off_t>(offset)) == 1);
      auto got = (*file)->read(offset, bytes, &buffer);
      ASSERT_TRUE(got.is_ok()) << got.status().message();
      EXPECT_TRUE(std::equal(got->begin(), got->end(), want.begin() + static_cast<ptrdiff_t>(offset),
                             want.begin() + static_cast<ptrdiff_t>(offset + bytes)))
          << state << " " << offset << " + " << bytes;
    }
    auto past = (*file)->read(end - 200'000, 200'001, &buffer);
    EXPECT_EQ(past.status().code(), Code::kCorrupt) << state;
    EXPECT_NE(past.status().message().find(at("large")), std::string::npos) << past.status().message();
  }
  ::close(fd);
}

TEST_F(EnvTest, ColdReadsLeaveThePageCacheAlone) {
  constexpr size_t kBytes = 2u << 20;
  auto made = env_->create_new(at("cold"));
  ASSERT_TRUE(made.is_ok() && (*made)->append(std::vector<uint8_t>(kBytes, 7)).is_ok() && (*made)->sync().is_ok());
  const Fd fd(::open(at("cold").c_str(), O_RDONLY));
  ASSERT_TRUE(fd.ok() && ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
  const size_t before = cached_pages(at("cold"), kBytes);
  auto file = env_->open_read(at("cold"));
  ReadBuffer buffer;
  ASSERT_TRUE(file.is_ok() && (*file)->read(0, kBytes, &buffer).is_ok());
  EXPECT_EQ(cached_pages(at("cold"), kBytes), before);
}

TEST_F(EnvTest, AMappedFileOutlivesItsName) {
  const std::vector<uint8_t> want = {3, 1, 4, 1, 5};
  auto made = env_->create_new(at("mapped"));
  ASSERT_TRUE(made.is_ok() && (*made)->append(want).is_ok() && env_->create_new(at("empty")).is_ok());
  auto file = env_->open_read(at("mapped")), empty = env_->open_read(at("empty"));
  ASSERT_TRUE(file.is_ok() && empty.is_ok());
  auto bytes = (*file)->map(), none = (*empty)->map();
  ASSERT_TRUE(bytes.is_ok() && none.is_ok());
  ASSERT_TRUE(env_->remove_file(at("mapped")).is_ok());
  EXPECT_EQ(std::vector<uint8_t>(bytes->begin(), bytes->end()), want);
  EXPECT_TRUE(none->empty());
}

TEST_F(EnvTest, ModesDoNotDependOnTheUmask) {
  for (mode_t mask : {0000, 0777}) {
    mode_t old = ::umask(mask);
    std::string suffix = std::to_string(mask);
    bool made = env_->create_new(at("f" + suffix)).is_ok() && env_->make_dir(at("d" + suffix)).is_ok() &&
                env_->open_lock(at("l" + suffix), true).is_ok();
    ::umask(old);
    ASSERT_TRUE(made);
    EXPECT_EQ(mode(at("f" + suffix)), 0600u);
    EXPECT_EQ(mode(at("d" + suffix)), 0700u);
    EXPECT_EQ(mode(at("l" + suffix)), 0600u);
  }
}

TEST_F(EnvTest, CreateNewAndRenameNewNeverReplace) {
  make_file("a", "1");
  make_file("b", "2");
  EXPECT_EQ(env_->create_new(at("a")).status().os_code(), EEXIST);
  EXPECT_EQ(env_->rename_new(at("a"), at("b")).os_code(), EEXIST);
  EXPECT_TRUE(env_->rename_new(at("a"), at("c")).is_ok());
  EXPECT_FALSE(env_->exists(at("a")).value());
  EXPECT_TRUE(env_->exists(at("c")).value());
}

TEST_F(EnvTest, RefusesWhatIsNoFileOfItsOwn) {
  make_file("real", "x");
  ASSERT_EQ(::symlink(at("real").c_str(), at("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(at("dir").c_str(), 0700), 0);
  make_file("twice", "x");
  ASSERT_EQ(::link(at("twice").c_str(), at("other name").c_str()), 0);
  make_file("open", "x");
  ASSERT_EQ(::chmod(at("open").c_str(), 0660), 0);
  for (const char* name : {"link", "fifo", "dir", "twice", "other name", "open"}) {
    const Status refused[] = {env_->open_read(at(name)).take_status(), env_->open_lock(at(name), true).take_status(),
                              env_->check_file(at(name))};
    for (const Status& status : refused) {
      EXPECT_EQ(status.code(), Code::kInvalid) << name;
      EXPECT_EQ(status.detail(), Detail::kUnsafeDirectory) << name;
      EXPECT_NE(status.message().find(at(name)), std::string::npos) << status.message();
    }
    EXPECT_EQ(env_->create_new(at(name)).status().os_code(), EEXIST) << name;
    if (name != std::string("dir")) {
      EXPECT_EQ(env_->make_dir(at(name)).detail(), Detail::kUnsafeDirectory) << name;
    }
  }
  EXPECT_TRUE(env_->check_file(at("real")).is_ok());
  EXPECT_EQ(env_->check_file(at("none")).code(), Code::kNotFound);
  EXPECT_EQ(env_->open_read(at("none")).status().code(), Code::kNotFound);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(at("real").c_str(), 65534, 65534), 0);
    EXPECT_EQ(env_->open_read(at("real")).status().detail(), Detail::kUnsafeDirectory);
  }
}

// Links in the middle of a path: the files behind them are neither read nor changed.
TEST_F(EnvTest, FollowsNoLinkOnItsWay) {
  ASSERT_EQ(::mkdir(at("outside").c_str(), 0700), 0);
  make_file("outside/f", "x");
  ASSERT_EQ(::symlink(at("outside").c_str(), at("link").c_str()), 0);
  make_file("mine", "x");
  const auto unsafe = [](const Status& status) { return status.detail() == Detail::kUnsafeDirectory; };
  EXPECT_TRUE(unsafe(env_->open_read(at("link/f")).status()));
  EXPECT_TRUE(unsafe(env_->create_new(at("link/new")).status()));
  EXPECT_TRUE(unsafe(env_->open_lock(at("link/lock"), true).status()));
  EXPECT_TRUE(unsafe(env_->make_dir(at("link/dir"))));
  EXPECT_TRUE(unsafe(env_->make_dir(at("link"))));
  EXPECT_TRUE(unsafe(env_->rename_new(at("mine"), at("link/mine"))));
  EXPECT_TRUE(unsafe(env_->rename_new(at("link/f"), at("f"))));
  EXPECT_TRUE(unsafe(env_->remove_file(at("link/f"))));
  EXPECT_TRUE(unsafe(env_->sync_dir(at("link"))));
  EXPECT_TRUE(unsafe(env_->list_dir(at("link")).status()));
  EXPECT_TRUE(unsafe(env_->exists(at("link/f")).status()));
  EXPECT_TRUE(unsafe(env_->dir_info(at("link/dir")).status()));
  EXPECT_EQ(env_->list_dir(at("outside")).value(), std::vector<std::string>{"f"});
  EXPECT_EQ(canonical_path(at("link/../link/f")), at("outside/f"));
  EXPECT_EQ(canonical_path(at("link/none/")), at("outside/none"));
  EXPECT_EQ(canonical_path(""), "");
}

TEST_F(EnvTest, Directories) {
  EXPECT_TRUE(env_->make_dir(at("d")).is_ok());
  EXPECT_TRUE(env_->make_dir(at("d")).is_ok());
  make_file("f", "");
  EXPECT_EQ(env_->make_dir(at("f")).detail(), Detail::kUnsafeDirectory);
  EXPECT_EQ(env_->make_dir(at("no/where")).code(), Code::kNotFound);
  make_file("d/z", "");
  make_file("d/.hidden", "");
  EXPECT_EQ(env_->list_dir(at("d")).value(), (std::vector<std::string>{".hidden", "z"}));
  EXPECT_EQ(env_->list_dir(at("none")).status().code(), Code::kNotFound);
  EXPECT_TRUE(env_->sync_dir(at("d")).is_ok());
  EXPECT_TRUE(env_->remove_file(at("d/z")).is_ok());
  EXPECT_EQ(env_->remove_file(at("d/z")).code(), Code::kNotFound);
}

TEST_F(EnvTest, DirInfo) {
  auto info = env_->dir_info(dir_);
  ASSERT_TRUE(info.is_ok());
  EXPECT_TRUE(info->owned);
  EXPECT_TRUE(info->writable);
  EXPECT_FALSE(info->others_can_write);
  ASSERT_EQ(::chmod(dir_.c_str(), 0770), 0);
  EXPECT_TRUE(env_->dir_info(dir_)->others_can_write);
  ASSERT_EQ(::chmod(dir_.c_str(), 0702), 0);
  EXPECT_TRUE(env_->dir_info(dir_)->others_can_write);
  EXPECT_EQ(env_->dir_info(at("none")).status().code(), Code::kNotFound);
}

TEST_F(EnvTest, LocksExcludeAndShare) {
  auto open = [&] { return std::move(env_->open_lock(at("lock"), true).value()); };
  auto first = open(), second = open();
  EXPECT_TRUE(first->acquire(LockMode::kExclusive).is_ok());
  EXPECT_TRUE(first->acquire(LockMode::kExclusive).is_ok());
  for (LockMode mode : {LockMode::kExclusive, LockMode::kShared}) {
    Status busy = second->acquire(mode);
    EXPECT_EQ(busy.code(), Code::kBusy);
    EXPECT_EQ(busy.detail(), Detail::kStoreLocked);
  }
  EXPECT_TRUE(first->acquire(LockMode::kShared).is_ok());
  EXPECT_TRUE(second->acquire(LockMode::kShared).is_ok());
  EXPECT_EQ(second->acquire(LockMode::kExclusive).code(), Code::kBusy) << "and what it had is gone";
  EXPECT_TRUE(first->acquire(LockMode::kExclusive).is_ok());
  first->release();
  EXPECT_TRUE(second->acquire(LockMode::kExclusive).is_ok());
  second.reset();
  EXPECT_TRUE(first->acquire(LockMode::kExclusive).is_ok());
  EXPECT_EQ(env_->open_lock(at("none"), false).status().code(), Code::kNotFound);
  EXPECT_FALSE(env_->exists(at("none")).value());
}

TEST_F(EnvTest, AFileIsLockedWhileItIsWritten) {
  auto file = env_->create_new(at("new"));
  ASSERT_TRUE(file.is_ok());
  ASSERT_TRUE(env_->rename_new(at("new"), at("renamed")).is_ok());
  auto lock = env_->open_lock(at("renamed"), false);
  ASSERT_TRUE(lock.is_ok());
  EXPECT_EQ((*lock)->acquire(LockMode::kExclusive).code(), Code::kBusy);
  file.value().reset();
  EXPECT_TRUE((*lock)->acquire(LockMode::kExclusive).is_ok());
}

TEST_F(EnvTest, LockIsFreedWhenItsHolderIsKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto lock = env_->open_lock(at("lock"), true);
    char ok = lock.is_ok() && (*lock)->acquire(LockMode::kExclusive).is_ok() ? 'y' : 'n';
    if (::write(ready[1], &ok, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char ok = 0;
  ASSERT_EQ(::read(ready[0], &ok, 1), 1);
  EXPECT_EQ(ok, 'y');
  auto lock = env_->open_lock(at("lock"), true);
  ASSERT_TRUE(lock.is_ok());
  EXPECT_EQ((*lock)->acquire(LockMode::kExclusive).code(), Code::kBusy);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE((*lock)->acquire(LockMode::kExclusive).is_ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

// Bytes past the limit of a file's size: a status, not SIGXFSZ, also where they lie within the file.
TEST_F(EnvTest, APatchPastTheLimitOfAFilesSizeIsAStatus) {
  const std::string path = at("patched");
  std::ofstream(path) << std::string(100, 'a');
  const auto patch = [&] {
    const rlimit small{50, 50};
    ::signal(SIGXFSZ, SIG_DFL);
    if (::setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(2);
    const uint8_t bytes[10] = {};
    _exit(env_->patch(path, 60, bytes).code() == Code::kNoSpace ? 0 : 1);
  };
  EXPECT_EXIT(patch(), testing::ExitedWithCode(0), "");
}

TEST_F(EnvTest, FsInfoNamesTheFileSystem) {
  auto proc = env_->fs_info("/dev/shm");
  ASSERT_TRUE(proc.is_ok());
  EXPECT_EQ(proc->type, "tmpfs");
  EXPECT_FALSE(proc->is_network);
  auto here = env_->fs_info(dir_);
  ASSERT_TRUE(here.is_ok());
  EXPECT_GT(here->total_bytes, 0u);
  EXPECT_LE(here->free_bytes, here->total_bytes);
}

// The CPU time of the thread that asks, and of nobody else.
TEST_F(EnvTest, CpuTime) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
    }
  });
  const uint64_t wall = env_->now_ns(), cpu = env_->cpu_ns();
  while (env_->cpu_ns() < cpu + 20'000'000) {
  }
  EXPECT_GE(env_->now_ns() - wall, 19'000'000u);  // both clocks are read, one after the other
  const uint64_t worked = env_->cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(env_->cpu_ns() - worked, 25'000'000u);
  stop = true;
  other.join();
}

TEST_F(EnvTest, ClockAndRandom) {
  uint64_t a = env_->now_ns();
  EXPECT_GE(env_->now_ns(), a);
  EXPECT_GT(env_->unix_ms(), 1'700'000'000'000);
  std::set<std::vector<uint8_t>> seen;
  for (int i = 0; i < 8; i++) {
    std::vector<uint8_t> r(40);
    env_->random(r);
    seen.insert(r);
  }
  EXPECT_EQ(seen.size(), 8u);
}

}  // namespace
}  // namespace kvrt
