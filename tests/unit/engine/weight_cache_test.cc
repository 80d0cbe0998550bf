// The cache of packed weights: a hit gives the panels that packing gives, and no fault of a file or a disk is more than a miss.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "runtime/compute/cpu/weights.h"
#include "runtime/compute/weight_dir.h"
#include "runtime/compute/weight_file.h"
#include "tests/support/fault_env.h"

namespace kvrt {
namespace {

namespace fs = std::filesystem;
using test::Fault;
using test::FaultEnv;
using test::FaultPlan;

class Lines final : public Log {
 public:
  void write(LogLevel, std::string_view message) override {
    std::lock_guard lock(mu_);
    lines_.emplace_back(message);
  }
  std::vector<std::string> take() {
    std::lock_guard lock(mu_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mu_;
  std::vector<std::string> lines_;
};

std::vector<uint8_t> read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_all(const fs::path& path, std::span<const uint8_t> bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::unique_ptr<Backend> open_backend() { return std::move(open_cpu({2, ""}, nullptr)).value(); }

class WeightCacheTest : public testing::Test {
 protected:
  static constexpr uint32_t kCols = 1024;

  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kvrt-weights-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    make_tensors(32);
  }
  void TearDown() override { fs::remove_all(dir_); }

  void make_tensors(uint32_t rows) {
    std::mt19937 random(rows);
    q4_.resize(uint64_t{rows} * kCols / 32 * 20);
    q8_.resize(uint64_t{rows} * kCols / 32 * 34);
    for (auto* bytes : {&q4_, &q8_}) {
      for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random());
    }
    stacks_ = {{{DType::kQ4_1, {kCols, rows, 1, 1}, q4_}}, {{DType::kQ8_0, {kCols, rows, 1, 1}, q8_}}};
  }

  WeightCache cache(Env* env = posix_env()) { return {env, &log_, dir_.string(), source_}; }

  // The panels of all weights.
  Result<std::vector<uint8_t>> load(Backend* backend, const WeightCache* cache, uint64_t* taken = nullptr) {
    uint64_t bytes = 0;
    const auto count = [&bytes](std::span<const uint8_t> part) {
      bytes += part.size();
      return Status();
    };
    KVRT_ASSIGN(const auto weights, backend->make_weights(stacks_, {count, cache}));
    if (taken) *taken = bytes;
    std::vector<uint8_t> panels;
    for (const auto& weight : weights) {
      for (const WeightPart& part : static_cast<const PanelWeight&>(*weight).parts()) {
        panels.insert(panels.end(), part.data, part.data + part.panels * part.panel_bytes);
      }
    }
    return panels;
  }
  std::vector<uint8_t> packed() { return std::move(load(backend_.get(), nullptr)).value(); }

  std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(dir_)) {
      if (entry.path().filename() != ".lock") out.push_back(entry.path().filename().string());
    }
    return out;
  }
  fs::path only_file() {
    EXPECT_EQ(names().size(), 1u);
    return dir_ / names().at(0);
  }
  // The cache's file is not usable: the load is right all the same, says so, and leaves a good file.
  void expect_repaired(const std::string& what) {
    const WeightCache c = cache();
    auto found = load(backend_.get(), &c);
    ASSERT_TRUE(found.is_ok()) << what << ": " << found.status().message();
    ASSERT_EQ(*found, want_) << what;
    ASSERT_FALSE(log_.take().empty()) << what;
    ASSERT_EQ(read_all(only_file()), good_) << what;
  }
  void fill() {
    const WeightCache c = cache();
    want_ = packed();
    ASSERT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
    ASSERT_TRUE(log_.take().empty());
    good_ = read_all(only_file());
  }
  // Straight at the file, without packing anew.
  Status map() {
    WeightImage image;
    for (const TensorStack& stack : stacks_) KVRT_TRY(image.add(stack));
    const ParallelFor serial = [](uint32_t chunks, ChunkFn fn) {
      for (uint32_t i = 0; i < chunks; ++i) fn(i, 0);
    };
    return map_weights(cache(), image.key(source_), image.bytes(), serial).take_status();
  }

  fs::path dir_;
  Lines log_;
  Hash256 source_ = Hasher().add_string("a model").finish();
  std::vector<uint8_t> q4_, q8_, want_, good_;
  std::vector<TensorStack> stacks_;
  std::unique_ptr<Backend> backend_ = open_backend();
};

TEST_F(WeightCacheTest, AHitIsWhatPackingGivesAndReadsNoTensor) {
  fill();
  struct stat st;
  ASSERT_EQ(stat(only_file().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  for (auto* bytes : {&q4_, &q8_}) std::fill(bytes->begin(), bytes->end(), uint8_t{0});
  const WeightCache c = cache();
  uint64_t taken = 0;
  EXPECT_EQ(std::move(load(backend_.get(), &c, &taken)).value(), want_);
  EXPECT_EQ(taken, q4_.size() + q8_.size());
  EXPECT_TRUE(log_.take().empty());
  EXPECT_EQ(read_all(only_file()), good_);
}

TEST_F(WeightCacheTest, AnotherSourceOfTheSameShapesIsAMiss) {
  fill();
  source_ = Hasher().add_string("another model").finish();
  make_tensors(32);
  std::rotate(q8_.begin(), q8_.begin() + 1, q8_.end());
  const WeightCache c = cache();
  const std::vector<uint8_t> other = packed();
  EXPECT_NE(other, want_);
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), other);
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(WeightCacheTest, EveryChangedByteOfTheHeaderAndSampledOnesOfTheImageAreFound) {
  fill();
  const fs::path path = only_file();
  const size_t header = 4096;
  for (size_t at = 0; at < good_.size(); at += at < header ? 1 : 97) {
    std::vector<uint8_t> bad = good_;
    bad[at] = static_cast<uint8_t>(bad[at] ^ (1u << at % 8));
    write_all(path, bad);
    ASSERT_EQ(map().code(), Code::kCorrupt) << at;
    ASSERT_FALSE(fs::exists(path)) << at;
  }
  for (const size_t at : {size_t{0}, size_t{20}, header, good_.size() - 1}) {
    std::vector<uint8_t> bad = good_;
    bad[at] ^= 0x40;
    write_all(path, bad);
    expect_repaired("byte " + std::to_string(at));
  }
}

TEST_F(WeightCacheTest, AnySizeButTheRightOneIsRefused) {
  fill();
  const fs::path path = only_file();
  std::vector<uint8_t> longer = good_;
  longer.push_back(0);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{40}, size_t{4095}, size_t{4096}, size_t{4097}, good_.size() / 2,
                            good_.size() - 4096, good_.size() - 1, good_.size() + 1}) {
    write_all(path, std::span(longer).first(size));
    expect_repaired("size " + std::to_string(size));
  }
}

TEST_F(WeightCacheTest, ImagesOfManyPiecesAreCheckedInEach) {
  make_tensors(4096);
  fill();
  const fs::path path = only_file();
  for (size_t at = 4096; at < good_.size(); at += (4u << 20) - 1) {
    std::vector<uint8_t> bad = good_;
    bad[at] ^= 1;
    write_all(path, bad);
    ASSERT_EQ(map().code(), Code::kCorrupt) << at;
  }
}

TEST_F(WeightCacheTest, NoFaultOfTheDiskFailsALoad) {
  want_ = packed();
  for (const Fault fault : {Fault::kIo, Fault::kNoSpace, Fault::kShort}) {
    for (const bool sticky : {false, true}) {
      uint64_t fired = 1;
      for (uint64_t n = 0; fired != 0; ++n) {
        fs::remove_all(dir_);
        FaultPlan plan;
        FaultEnv env(posix_env(), &plan);
        const WeightCache c = cache(&env);
        plan.arm(fault, n, sticky);
        auto found = load(backend_.get(), &c);
        fired = plan.fired();
        ASSERT_TRUE(found.is_ok()) << n << ": " << found.status().message();
        ASSERT_EQ(*found, want_) << n;
        ASSERT_LT(n, 100u);
        plan.disarm();
        ASSERT_EQ(std::move(load(backend_.get(), &c)).value(), want_) << n;  // with the leftovers of the last one
        (void)log_.take();
      }
    }
  }
}

TEST_F(WeightCacheTest, ADirectoryThatOthersCanWriteOrThatCannotBeMadeIsNotUsed) {
  fill();
  fs::permissions(dir_, fs::perms::all);
  const WeightCache open_dir = cache();
  EXPECT_EQ(std::move(load(backend_.get(), &open_dir)).value(), want_);
  EXPECT_EQ(log_.take().size(), 2u);  // neither read nor written
  EXPECT_EQ(read_all(only_file()), good_);
  fs::permissions(dir_, fs::perms::owner_all);
  for (const char* name : {"/no/such/parent", "/dev/null"}) {
    const WeightCache c{posix_env(), &log_, name, source_};
    EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
    EXPECT_FALSE(log_.take().empty());
  }
}

TEST_F(WeightCacheTest, WhatDeadWritersLeftIsRemoved) {
  const std::string key(64, 'a'), temp = ".1-1.kvrtw.tmp";
  const std::string kept[] = {"notes.txt", "old" + temp, key + ".txt", key.substr(1) + temp, "x" + key.substr(1) + temp};
  for (const std::string& name : kept) write_all(dir_ / name, {});
  write_all(dir_ / (key + temp), {});
  const WeightCache c = cache();
  ASSERT_TRUE(load(backend_.get(), &c).is_ok());
  EXPECT_EQ(names().size(), std::size(kept) + 1);
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(dir_ / name)) << name;
  EXPECT_TRUE(log_.take().empty());
}

TEST_F(WeightCacheTest, WhoOpensWhileAnotherWritesTakesItsFile) {
  want_ = packed();
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  std::atomic<int> files = 0;
  std::thread other;
  const WeightCache c = cache(&env);
  env.on_create = [&](const std::string&) {
    if (files++ != 0) return;
    other = std::thread([&] {
      const auto second = open_backend();
      EXPECT_EQ(std::move(load(second.get(), &c)).value(), want_);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // it waits by then, most likely; it is right if not
  };
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
  other.join();
  EXPECT_EQ(files, 1);
  EXPECT_EQ(names().size(), 1u);
  EXPECT_TRUE(log_.take().empty());
}

// One that does not end, another machine's, say.
TEST_F(WeightCacheTest, AWriterIsWaitedForNoLongerThanASlowDiskWouldTake) {
  want_ = packed();
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  env.tick_ns = 5'000'000'000;
  auto lock = std::move(posix_env()->open_lock(dir_.string() + "/.lock", true)).value();
  ASSERT_TRUE(lock->acquire(LockMode::kExclusive).is_ok());
  const WeightCache c = cache(&env);
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
  EXPECT_EQ(log_.take().size(), 1u);
  EXPECT_TRUE(names().empty());
  const auto stop = [](std::span<const uint8_t> part) { return part.empty() ? error(Code::kCancelled, Detail::kNone, "stop") : Status(); };
  EXPECT_EQ(backend_->make_weights(stacks_, {stop, &c}).status().code(), Code::kCancelled);
}

// Two may write where somebody removed the lock.
TEST_F(WeightCacheTest, AFasterWritersFileIsTaken) {
  want_ = packed();
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  bool nested = false;
  env.on_create = [&](const std::string&) {
    if (std::exchange(nested, true)) return;
    fs::remove(dir_ / ".lock");
    const WeightCache other = cache();
    const auto second = open_backend();
    EXPECT_EQ(std::move(load(second.get(), &other)).value(), want_);
    good_ = read_all(only_file());
  };
  const WeightCache c = cache(&env);
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
  EXPECT_TRUE(nested);
  EXPECT_EQ(read_all(only_file()), good_);
  EXPECT_TRUE(log_.take().empty());
}

// A file system of 40 GiB keeps 1 GiB free, one of 10 GiB half as much; the smallest files that it takes and that it refuses.
TEST_F(WeightCacheTest, WhatMustStayFreeStaysFree) {
  fill();
  const uint64_t bytes = good_.size(), gib = 1u << 30;
  for (const auto& [total, keep] : {std::pair{40 * gib, gib}, std::pair{10 * gib, gib / 2}}) {
    for (const uint64_t less : {1u, 0u}) {
      for (const std::string& name : names()) fs::remove(dir_ / name);
      FaultPlan plan;
      FaultEnv env(posix_env(), &plan);
      FsInfo disk{"ext4", false, keep + bytes - less, total};
      env.fs_override = &disk;
      const WeightCache c = cache(&env);
      EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
      EXPECT_EQ(names().size(), 1 - less);
      EXPECT_EQ(log_.take().size(), less);
    }
  }
}

TEST_F(WeightCacheTest, TheUsersDirectoryIsNotUsedOnANetwork) {
  want_ = packed();
  FaultPlan plan;
  FaultEnv env(posix_env(), &plan);
  FsInfo disk{"nfs", true, 1ull << 40, 1ull << 41};
  env.fs_override = &disk;
  WeightCache c = cache(&env);
  c.asked = false;
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
  EXPECT_TRUE(names().empty());
  c.asked = true;
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
  EXPECT_EQ(names().size(), 1u);
  (void)log_.take();
  c.asked = false;
  EXPECT_EQ(std::move(load(backend_.get(), &c)).value(), want_);
  EXPECT_EQ(log_.take().size(), 2u);  // neither read nor written
}

TEST_F(WeightCacheTest, ManyAtOnce) {
  want_ = packed();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const auto backend = open_backend();
      for (int round = 0; round < 4; ++round) {
        const WeightCache c = cache();
        EXPECT_EQ(std::move(load(backend.get(), &c)).value(), want_);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(names().size(), 1u);
  EXPECT_TRUE(log_.take().empty());
}

TEST_F(WeightCacheTest, AStopWhileWritingLeavesNothing) {
  const WeightCache c = cache();
  const auto stop = [](std::span<const uint8_t> part) { return part.empty() ? error(Code::kCancelled, Detail::kNone, "stop") : Status(); };
  EXPECT_EQ(backend_->make_weights(stacks_, {stop, &c}).status().code(), Code::kCancelled);
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace kvrt
