// StorePlace while the store is replaced within a look.
#include "samples/server/place.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

thread_local std::function<void()> t_after_stat;  // once, after the calling thread has looked at the catalog

}  // namespace

// In place of libc's.
extern "C" int stat(const char* path, struct stat* out) {
  const int result = fstatat(AT_FDCWD, path, out, 0);
  if (std::string_view(path).ends_with("/catalog.db") && t_after_stat) std::exchange(t_after_stat, nullptr)();
  return result;
}

namespace {

TEST(StorePlaceRace, AnotherRequestOpensTheNewStore) {
  std::string name = testing::TempDir() + "kvrt-place-XXXXXX";
  const std::filesystem::path dir = mkdtemp(name.data());
  const std::string path = dir / "store", other = dir / "other";
  auto runtime = kvrt::Runtime::open(kvrt::init<kvrt_runtime_options>()).or_throw();
  const auto options = kvrt::init<kvrt_store_options>();
  (void)kvrt::Store::open(runtime, other, options).or_throw();
  std::mutex mu;
  std::vector<std::string> said;
  StorePlace place(runtime, path, options, [&](const std::string& text) {
    std::lock_guard lock(mu);
    said.push_back(text);
  });
  std::future<StorePlace::Found> second;
  t_after_stat = [&] {
    std::filesystem::rename(path, dir / "old");
    std::filesystem::rename(other, path);
    second = std::async(std::launch::async, [&] { return place.look(); });
    second.wait_for(std::chrono::milliseconds(500));  // it may have to wait for this look
  };
  const StorePlace::Found first = place.look();
  EXPECT_TRUE(first.store) << "a look took the store away that another one has opened";
  const uint64_t count = second.get().count;
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(place.look().count, 2u);
  EXPECT_EQ(said.size(), 2u) << "one is gone, one is open";
  std::filesystem::remove_all(dir);
}

}  // namespace
