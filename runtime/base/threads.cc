#include "runtime/base/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/cpus.h"
#include "runtime/base/fp_env.h"
#include "runtime/base/this_thread.h"

namespace kvrt {
namespace {

constexpr uint32_t kNoChunk = UINT32_MAX;
thread_local uint32_t t_worker = kNoChunk;  // the worker's number while this thread runs a chunk

class ChunkScope {
 public:
  explicit ChunkScope(uint32_t worker) : outer_(std::exchange(t_worker, worker)) {}
  ~ChunkScope() { t_worker = outer_; }
  ChunkScope(const ChunkScope&) = delete;
  ChunkScope& operator=(const ChunkScope&) = delete;

 private:
  uint32_t outer_;
};

void cpu_pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// A worker that finds nothing to do within a step spins this long before it sleeps: longer than the serial parts of a step.
constexpr auto kSpinBudget = std::chrono::microseconds(300);
constexpr uint32_t kSpinsPerClock = 64;
constexpr uint32_t kSpinsBeforeYield = 1024;

// A caller that spends two fifths of this time in waiting waits for workers that lose their CPUs to other processes: it goes on alone
// for a while, each time for longer, until the workers have kept up for as long as kAloneMax.
constexpr auto kWindow = std::chrono::milliseconds(1);
constexpr auto kAloneMin = std::chrono::milliseconds(10), kAloneMax = std::chrono::milliseconds(320);

using Clock = std::chrono::steady_clock;

}  // namespace

// A region is published in `ticket`: its number in the high half, the chunks not yet claimed in the low half. A thread claims
// a chunk by decrementing; because the number is in the same word, a claim never hits a later region, and the claimed chunk's
// region cannot end before the chunk is reported in `done`. So the caller waits for claimed chunks alone: a worker that the
// system does not schedule holds nothing up.
struct ThreadPool::Impl {
  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<uint32_t> done{0};
  alignas(64) std::atomic<uint32_t> epoch{0};  // sleepers wait on this; it changes whenever there may be something to do
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> in_step{false}, stop{false};
  const ChunkFn* fn = nullptr;  // the open region's; written before `ticket`, read after a claim
  uint32_t chunks = 0;
  std::atomic<bool> failed{false};  // in the open region; the first exception is the caller's when all chunks are done
  std::exception_ptr failure;
  uint32_t wanted = 1;  // threads asked for; the system may have given fewer
  std::vector<std::thread> workers;
  std::unique_ptr<std::atomic<int>[]> cpus;  // [threads] the CPU that each ran on last; -1: nobody knows
  std::atomic<bool> alone{false};
  Clock::time_point alone_until{}, window_begin{}, step_end{};  // the caller's, as are the next two
  Clock::duration alone_for = kAloneMin, waited{};

  bool run_one(uint32_t worker) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(seen) != 0) {
      if (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      try {
        const ChunkScope scope(worker);
        (*fn)(chunks - static_cast<uint32_t>(seen), worker);
      } catch (...) {  // it must leave neither a worker's thread nor a region that others still work on
        if (!failed.exchange(true)) failure = std::current_exception();
      }
      done.fetch_add(1, std::memory_order_release);
      return true;
    }
    return false;
  }

  bool has_work() const { return static_cast<uint32_t>(ticket.load(std::memory_order_acquire)) != 0; }

  // The caller has run out of chunks and waits for those of others.
  void wait() {
    const Clock::time_point ran_out = Clock::now();
    for (uint32_t spins = 0; done.load(std::memory_order_acquire) != chunks; ++spins) {
      if (spins < kSpinsBeforeYield) {
        cpu_pause();
      } else {
        std::this_thread::yield();  // a worker holds a chunk and has lost its CPU, perhaps to us
      }
    }
    const Clock::time_point end = Clock::now();
    waited += end - ran_out;
    if (end - window_begin < kWindow) return;
    if (waited > (end - window_begin) * 2 / 5) {
      alone_for = end - alone_until > kAloneMax ? kAloneMin : std::min<Clock::duration>(2 * alone_for, kAloneMax);
      alone_until = end + alone_for;
      alone.store(true, std::memory_order_relaxed);
    }
    open_window(end);
  }
  void open_window(Clock::time_point now) {
    window_begin = now;
    waited = {};
  }
  bool is_alone() {
    if (!alone.load(std::memory_order_relaxed)) return false;
    const Clock::time_point now = Clock::now();
    if (now < alone_until) return true;
    alone.store(false, std::memory_order_relaxed);
    open_window(now);
    return false;
  }

  // The system may leave two threads spinning on one CPU for seconds while another CPU is idle. A worker that finds a thread of a lower
  // number on its CPU goes to another CPU, if there is one; the CPUs that it is allowed stay the same.
  void take_own_cpu(uint32_t worker) const {
    const int cpu = current_cpu();
    cpus[worker].store(cpu, std::memory_order_relaxed);
    bool shared = false;
    for (uint32_t i = 0; cpu >= 0 && i < worker; ++i) shared |= cpus[i].load(std::memory_order_relaxed) == cpu;
    if (!shared) return;
    const int own = leave_cpus({cpus.get(), worker});
    if (own >= 0) cpus[worker].store(own, std::memory_order_relaxed);
  }

  // True when there is (or may be) work before the budget is over.
  bool spin(uint32_t worker) const {
    const auto end = Clock::now() + kSpinBudget;
    take_own_cpu(worker);
    for (uint32_t turn = 0; in_step.load(std::memory_order_relaxed) && !alone.load(std::memory_order_relaxed); ++turn) {
      for (uint32_t i = 0; i < kSpinsPerClock; ++i) {
        if (has_work()) return true;
        cpu_pause();
      }
      if (Clock::now() > end) return false;
      if (turn > kSpinsBeforeYield / kSpinsPerClock) std::this_thread::yield();  // the caller may be waiting for this CPU
    }
    return false;
  }

  void work(uint32_t worker) {
    const FpEnv fp_env;  // a new thread inherits its creator's environment
    while (!stop.load(std::memory_order_acquire)) {
      if (run_one(worker) || spin(worker)) continue;
      const uint32_t before = epoch.load();
      sleepers.fetch_add(1);
      if (!has_work() && !stop.load()) epoch.wait(before);
      sleepers.fetch_sub(1);
    }
  }

  // Pairs with work(): either the worker sees the stores before this, or it is seen asleep, or its epoch is stale.
  void wake() {
    epoch.fetch_add(1);
    if (sleepers.load() != 0) epoch.notify_all();
  }
};

ThreadPool::ThreadPool(uint32_t threads) : impl_(std::make_unique<Impl>()) {
  impl_->cpus = std::make_unique<std::atomic<int>[]>(threads);
  for (uint32_t i = 0; i < threads; ++i) impl_->cpus[i] = -1;
  impl_->wanted = threads;
  impl_->workers.reserve(threads);  // nothing may throw once there are workers
  const SignalsBlocked blocked;
  for (uint32_t i = 1; i < threads; ++i) {
    try {
      impl_->workers.emplace_back([impl = impl_.get(), i] { impl->work(i); });
    } catch (const std::exception&) {
      break;  // a thread limit, or no memory: go on with those we got
    }
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true);
  impl_->wake();
  for (std::thread& worker : impl_->workers) worker.join();
}

void ThreadPool::resize(uint32_t threads) {
  if (threads == impl_->wanted) return;
  ThreadPool fresh(threads);
  std::swap(impl_, fresh.impl_);  // the old workers leave with `fresh`
}

uint32_t ThreadPool::worker() { return in_chunk() ? t_worker : 0; }
bool ThreadPool::in_chunk() { return t_worker != kNoChunk; }
uint32_t ThreadPool::regions() const { return static_cast<uint32_t>(impl_->ticket.load(std::memory_order_relaxed) >> 32); }
uint32_t ThreadPool::size() const { return static_cast<uint32_t>(impl_->workers.size()) + 1; }

void ThreadPool::parallel_for(uint32_t chunks, ChunkFn fn) {
  if (chunks == 0) return;
  if (chunks == 1 || impl_->workers.empty() || in_chunk() || impl_->is_alone()) {
    const ChunkScope scope(worker());
    std::exception_ptr failure;
    for (uint32_t i = 0; i < chunks; ++i) {
      try {
        fn(i, t_worker);
      } catch (...) {  // the others run, as with workers
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    return;
  }
  Impl& impl = *impl_;
  impl.cpus[0].store(current_cpu(), std::memory_order_relaxed);
  impl.fn = &fn;
  impl.chunks = chunks;
  impl.done.store(0, std::memory_order_relaxed);
  const uint64_t region = (impl.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  impl.ticket.store(region << 32 | chunks);
  impl.wake();
  while (impl.run_one(0)) {
  }
  impl.wait();
  if (!impl.failed.load(std::memory_order_relaxed)) return;
  impl.failed.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(impl.failure, nullptr));
}

void ThreadPool::begin_step() {
  impl_->window_begin += Clock::now() - impl_->step_end;  // the time between steps does not count
  impl_->in_step.store(true);
  impl_->wake();
}

void ThreadPool::end_step() {
  impl_->in_step.store(false);
  impl_->step_end = Clock::now();
}

}  // namespace kvrt
