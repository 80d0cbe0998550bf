#include "runtime/base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/cpus.h"
#include "runtime/base/turn_lock.h"

namespace kvrt {
namespace {

TEST(ThreadPool, RunsEveryChunkOnce) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const uint32_t chunks : {0u, 1u, 2u, 3u, 64u, 1000u}) {
      std::vector<uint32_t> runs(chunks);  // plain: a chunk is one thread's alone
      std::atomic<bool> bad_worker = false;
      pool.parallel_for(chunks, [&](uint32_t chunk, uint32_t worker) {
        ++runs[chunk];
        if (worker >= threads) bad_worker = true;
      });
      EXPECT_EQ(runs, std::vector<uint32_t>(chunks, 1));
      EXPECT_FALSE(bad_worker);
    }
  }
}

TEST(ThreadPool, AWorkersChunksAscend) {
  ThreadPool pool(3);
  std::vector<std::vector<uint32_t>> seen(3);
  pool.parallel_for(300, [&](uint32_t chunk, uint32_t worker) { seen[worker].push_back(chunk); });
  size_t total = 0;
  for (const auto& chunks : seen) {
    EXPECT_TRUE(std::is_sorted(chunks.begin(), chunks.end()));
    total += chunks.size();
  }
  EXPECT_EQ(total, 300u);
}

// Regions back to back, in steps and outside, with more threads than CPUs: each region reads the writes of the one before.
TEST(ThreadPool, RegionsAreOrderedWhenOversubscribed) {
  ThreadPool pool(8);
  std::vector<uint64_t> values(64);
  for (int step = 0; step < 40; ++step) {
    if (step % 3 != 0) pool.begin_step();
    for (int region = 0; region < 25; ++region) {
      const uint64_t before = std::accumulate(values.begin(), values.end(), uint64_t{0});
      EXPECT_EQ(before, static_cast<uint64_t>(step * 25 + region) * 64);
      pool.parallel_for(64, [&](uint32_t chunk, uint32_t) { ++values[chunk]; });
    }
    if (step % 3 != 0) pool.end_step();
    if (step % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // let workers fall asleep
  }
}

TEST(ThreadPool, WorkersTakePart) {
  ThreadPool pool(2);
  std::atomic<uint32_t> arrived = 0;
  // Each of two chunks waits for the other: only two threads can finish this.
  pool.parallel_for(2, [&](uint32_t, uint32_t) {
    ++arrived;
    while (arrived.load() != 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2u);
}

// An exception of a chunk is the caller's, whichever thread ran it; the other chunks still run, and the pool goes on as before.
TEST(ThreadPool, AnExceptionIsTheCallers) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    for (uint32_t bad = 0; bad < 40; bad += 3) {
      std::atomic<uint32_t> ran = 0;
      EXPECT_THROW(pool.parallel_for(40,
                                     [&](uint32_t chunk, uint32_t) {
                                       ++ran;
                                       if (chunk >= bad) throw std::bad_alloc();
                                     }),
                   std::bad_alloc);
      EXPECT_FALSE(ThreadPool::in_chunk());
      EXPECT_EQ(ran, 40u);
      ran = 0;
      pool.parallel_for(40, [&](uint32_t, uint32_t) { ++ran; });
      EXPECT_EQ(ran, 40u);
    }
    EXPECT_THROW(pool.parallel_for(1, [](uint32_t, uint32_t) { throw std::bad_alloc(); }), std::bad_alloc);
    EXPECT_FALSE(ThreadPool::in_chunk());
    // A thread that goes on alone, as within a chunk, is no other case; the exception is the first one.
    std::atomic<uint32_t> ran = 0, caught = 0;
    pool.parallel_for(3, [&](uint32_t, uint32_t worker) {
      try {
        pool.parallel_for(40, [&](uint32_t chunk, uint32_t) {
          ++ran;
          if (chunk >= 7) throw chunk;
        });
      } catch (uint32_t chunk) {
        caught += chunk == 7;
      }
      EXPECT_TRUE(ThreadPool::in_chunk());
      EXPECT_EQ(ThreadPool::worker(), worker);
    });
    EXPECT_EQ(ran, 120u);
    EXPECT_EQ(caught, 3u);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more addresses than there are then
// Where the system gives fewer threads than were asked for, the pool has those, and does not ask again at each resize.
TEST(ThreadPool, GoesOnWithTheThreadsThatThereAre) {
  const auto with_few = [] {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (40u << 20);  // stacks of 8 MiB
    const rlimit few{bytes, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &few) != 0) _exit(2);
    ThreadPool pool(64);
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &all) != 0) _exit(3);
    const uint32_t got = pool.size();
    pool.resize(64);
    std::atomic<uint32_t> ran = 0;
    pool.parallel_for(100, [&](uint32_t, uint32_t) { ++ran; });
    _exit(got < 64 && pool.size() == got && ran == 100 ? 0 : 1);
  };
  EXPECT_EXIT(with_few(), testing::ExitedWithCode(0), "");
}
#endif

using Clock = std::chrono::steady_clock;

// A region with a worker that holds its chunk for 20 ms, as one without a CPU does. False where the worker had no chunk.
bool stall(ThreadPool* pool) {
  std::atomic<uint32_t> arrived = 0;
  std::atomic<bool> stalled = false;
  const auto deadline = Clock::now() + std::chrono::milliseconds(200);
  pool->parallel_for(2, [&](uint32_t, uint32_t worker) {
    ++arrived;
    while (arrived.load() != 2 && Clock::now() < deadline) std::this_thread::yield();
    if (worker != 1) return;
    stalled = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  return stalled;
}

// True when a worker takes part, within 10 s.
bool is_helped(ThreadPool* pool) {
  std::atomic<bool> helped = false;
  for (const auto deadline = Clock::now() + std::chrono::seconds(10); !helped && Clock::now() < deadline;) {
    pool->parallel_for(64, [&](uint32_t, uint32_t worker) {
      if (worker == 1) helped = true;
      std::this_thread::sleep_for(std::chrono::microseconds(10));
    });
  }
  return helped;
}

// The caller goes on alone, and after a while no longer. On a busy machine the while may be over before the test looks: again, then.
TEST(ThreadPool, TheCallerGoesOnAloneWhenAWorkerDoesNotKeepUp) {
  ThreadPool pool(2);
  pool.begin_step();
  bool alone = false;
  for (int attempt = 0; attempt < 50 && !alone; ++attempt) {
    ASSERT_TRUE(is_helped(&pool));
    if (!stall(&pool)) continue;
    const uint32_t regions = pool.regions();
    std::vector<uint32_t> workers(100, UINT32_MAX);
    pool.parallel_for(100, [&](uint32_t chunk, uint32_t worker) { workers[chunk] = worker; });
    alone = pool.regions() == regions;
    EXPECT_EQ(std::count(workers.begin(), workers.end(), UINT32_MAX), 0);
    EXPECT_TRUE(!alone || workers == std::vector<uint32_t>(100, 0));
  }
  EXPECT_TRUE(alone);
  EXPECT_TRUE(is_helped(&pool));
  pool.end_step();
}

// A chunk's own parallel_for is that thread's alone, under its number.
TEST(ThreadPool, InsideAChunkNothingIsDealt) {
  ThreadPool pool(3);
  std::vector<uint32_t> runs(50 * 7);
  std::atomic<bool> elsewhere = false;
  EXPECT_FALSE(ThreadPool::in_chunk());
  pool.parallel_for(50, [&](uint32_t outer, uint32_t worker) {
    const auto thread = std::this_thread::get_id();
    pool.parallel_for(7, [&](uint32_t inner, uint32_t inner_worker) {
      ++runs[outer * 7 + inner];
      if (inner_worker != worker || ThreadPool::worker() != worker || std::this_thread::get_id() != thread) elsewhere = true;
    });
    if (!ThreadPool::in_chunk() || ThreadPool::worker() != worker) elsewhere = true;
  });
  EXPECT_FALSE(ThreadPool::in_chunk());
  EXPECT_EQ(ThreadPool::worker(), 0u);
  EXPECT_EQ(runs, std::vector<uint32_t>(runs.size(), 1));
  EXPECT_FALSE(elsewhere);
  EXPECT_EQ(pool.regions(), 1u);
}

double process_cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Outside steps, and in a step with nothing to do, workers end up asleep.
TEST(ThreadPool, IdleWorkersUseNoCpu) {
  ThreadPool pool(4);
  for (const bool in_step : {false, true}) {
    if (in_step) pool.begin_step();
    pool.parallel_for(16, [](uint32_t, uint32_t) {});
    double used = 1;
    for (int i = 0; i < 25 && used >= 0.02; i++) {  // the last of them fall asleep when they get a CPU
      const double before = process_cpu_seconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      used = process_cpu_seconds() - before;
    }
    EXPECT_LT(used, 0.02);
    if (in_step) pool.end_step();
  }
}

// A worker leaves a CPU that it shares with the caller, and is allowed all that it was allowed before.
TEST(ThreadPool, AWorkerTakesACpuOfItsOwn) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one CPU";
  ThreadPool pool(2);
  std::atomic<pid_t> worker_id = 0;
  std::atomic<int> worker_cpu = -1;
  bool apart = false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.begin_step();
  while (!apart && std::chrono::steady_clock::now() < end) {
    worker_cpu = -1;
    pool.parallel_for(8, [&](uint32_t, uint32_t worker) {
      if (worker == 1) worker_id = static_cast<pid_t>(syscall(SYS_gettid)), worker_cpu = sched_getcpu();
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
      while (std::chrono::steady_clock::now() < until) {
      }
    });
    if (worker_cpu < 0) continue;
    // From now on it must find its own way: both start on one CPU.
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(static_cast<unsigned>(worker_cpu.load()), &mine);
    ASSERT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
    for (int i = 0; i < 2000 && !apart; ++i) {
      pool.parallel_for(8, [&](uint32_t, uint32_t worker) {
        if (worker == 1) worker_cpu = sched_getcpu();
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
        while (std::chrono::steady_clock::now() < until) {
        }
      });
      apart = worker_cpu != sched_getcpu();
    }
  }
  pool.end_step();
  ASSERT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_TRUE(apart);
  cpu_set_t now;
  ASSERT_EQ(sched_getaffinity(worker_id, sizeof now, &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&now, &allowed));
}

TEST(ThreadPool, ManyPoolsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + static_cast<uint32_t>(i) % 4);
    if (i % 2 == 0) pool.parallel_for(3, [](uint32_t, uint32_t) {});
  }
}

bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(stat, line);
  const size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

// The thread that asked first comes first, before the one that has just let go and asks at once again.
TEST(TurnLock, IsGivenInTheOrderOfAsking) {
  TurnLock lock;
  for (int round = 0; round < 20; ++round) {
    std::vector<int> order;  // guarded by the lock
    lock.lock();
    std::vector<std::thread> others;
    for (int i = 1; i <= 3; ++i) {
      std::atomic<pid_t> id = 0;
      others.emplace_back([&, i] {
        id = static_cast<pid_t>(syscall(SYS_gettid));
        std::lock_guard guard(lock);
        order.push_back(i);
      });
      while (id == 0 || !sleeps(id)) std::this_thread::yield();  // it waits
    }
    lock.unlock();
    lock.lock();
    order.push_back(0);
    lock.unlock();
    for (std::thread& other : others) other.join();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 0}));
  }
}

TEST(TurnLock, SaysWhetherItIsWanted) {
  TurnLock lock;
  EXPECT_FALSE(lock.wanted());
  lock.lock();
  EXPECT_TRUE(lock.wanted());
  lock.unlock();
  EXPECT_FALSE(lock.wanted());
}

TEST(TurnLock, HoldsOneAtATime) {
  TurnLock lock;
  int count = 0;  // plain
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) {
        std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 8000);
}

TEST(UsableCpus, IsWithinTheMachine) {
  EXPECT_GE(usable_cpus(), 1u);
  EXPECT_LE(usable_cpus(), std::max(1u, std::thread::hardware_concurrency()));
}

TEST(UsableCpus, FollowsTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1u);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace kvrt
