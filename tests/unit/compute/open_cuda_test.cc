// open_cuda without CUDA: libraries that are missing, foreign, of another build, or in libkvrt_cuda's place.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/compute/backend.h"

namespace kvrt {
namespace {

struct Lines final : Log {
  void write(LogLevel, std::string_view text) override { all.append(text).push_back('\n'); }
  std::string all;
};

Status open_status(const std::string& library, uint32_t device = 0) { return open_cuda({device, library}, nullptr).take_status(); }

void expect(const Status& status, Code code, const std::vector<std::string>& parts) {
  EXPECT_EQ(code_name(status.code()), code_name(code)) << status.message();
  for (const std::string& part : parts) EXPECT_NE(status.message().find(part), std::string::npos) << status.message() << ": no " << part;
}

TEST(OpenCuda, MissingLibrary) {
  expect(open_status("/nowhere/libkvrt_cuda.so"), Code::kUnsupported, {"/nowhere/libkvrt_cuda.so", "No such file"});
  expect(describe_cuda({0, "/nowhere/libkvrt_cuda.so"}).take_status(), Code::kUnsupported, {"/nowhere/libkvrt_cuda.so"});
}

// This program lies where no libkvrt_cuda does.
TEST(OpenCuda, SearchedAndNotFound) {
  if (void* handle = dlopen("libkvrt_cuda.so", RTLD_LAZY | RTLD_LOCAL)) {
    dlclose(handle);
    GTEST_SKIP() << "installed here";
  }
  const std::string here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  ASSERT_FALSE(std::filesystem::exists(here + "/libkvrt_cuda.so"));
  expect(open_status(""), Code::kUnsupported, {"libkvrt_cuda.so", "beside libkvrt (in ", "dynamic linker", "No such file"});
}

TEST(OpenCuda, NotALibrary) {
  const std::string path = testing::TempDir() + "kvrt_no_library.so";
  std::ofstream(path) << "a line of text";
  expect(open_status(path), Code::kUnsupported, {path});
  std::filesystem::remove(path);
}

TEST(OpenCuda, AnotherLibrary) {
  expect(open_status(KVRT_CUDA_STUB_OTHER), Code::kIncompatible, {KVRT_CUDA_STUB_OTHER, "kvrt_cuda_plugin"});
}

TEST(OpenCuda, AnotherBuild) {
  expect(open_status(KVRT_CUDA_STUB_OLD), Code::kIncompatible, {KVRT_CUDA_STUB_OLD, "0.0.9/7", KVRT_CUDA_PLUGIN_VERSION});
}

TEST(OpenCuda, Opens) {
  Lines log;
  auto backend = open_cuda({0, KVRT_CUDA_STUB, Determinism::kNone}, &log);
  ASSERT_TRUE(backend.is_ok()) << backend.status().message();
  EXPECT_NE(log.all.find("device 0, determinism 2"), std::string::npos) << log.all;
  EXPECT_TRUE((*backend)->alloc(64, false).is_ok());
  EXPECT_EQ(log.all.find("FP8"), std::string::npos) << log.all;
  ASSERT_TRUE(open_cuda({0, KVRT_CUDA_STUB, Determinism::kNone, true}, &log).is_ok());
  EXPECT_NE(log.all.find("determinism 2, FP8 prompts"), std::string::npos) << log.all;
  auto text = describe_cuda({0, KVRT_CUDA_STUB});
  ASSERT_TRUE(text.is_ok());
  EXPECT_EQ(*text, std::string("driver 1.2, runtime 1.3\n0: stub\n") + KVRT_CUDA_STUB);
}

TEST(OpenCuda, DevicesThatDoNotOpen) {
  expect(open_status(KVRT_CUDA_STUB, 1), Code::kDevice, {"fell off"});
  expect(open_status(KVRT_CUDA_STUB, 2), Code::kInternal, {KVRT_CUDA_STUB});
  expect(open_status(KVRT_CUDA_STUB, 3), Code::kUnsupported, {"there are 3"});
}

TEST(OpenCuda, ManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 20; ++k) {
        EXPECT_TRUE(open_cuda({0, KVRT_CUDA_STUB}, nullptr).is_ok());
        expect(open_status(i % 2 ? KVRT_CUDA_STUB_OLD : KVRT_CUDA_STUB_OTHER), Code::kIncompatible, {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvrt
