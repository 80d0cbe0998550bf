// ThreadPool: the compute threads of one runtime. The caller helps; idle workers sleep on a futex and burn no CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace kvrt {

// A borrowed callable, two words wide: valid for the duration of the call it is passed to.
class ChunkFn {
 public:
  template <typename F>
  ChunkFn(const F& f)  // NOLINT: implicit on purpose
      : object_(&f), call_([](const void* o, uint32_t chunk, uint32_t worker) { (*static_cast<const F*>(o))(chunk, worker); }) {}
  void operator()(uint32_t chunk, uint32_t worker) const { call_(object_, chunk, worker); }

 private:
  const void* object_;
  void (*call_)(const void*, uint32_t, uint32_t);
};

// parallel_for is called by one thread at a time (the step's leader). Inside a chunk it deals nothing: that thread runs all of it.
class ThreadPool {
 public:
  explicit ThreadPool(uint32_t threads);  // total, the caller included; ≥ 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t size() const;
  void resize(uint32_t threads);  // between steps; nothing happens where so many were asked for before, though the system gave fewer
  // Runs fn(chunk, worker) for chunk in [0, chunks), each once, claimed in ascending order; worker < size() names the thread,
  // 0 is the caller. Returns when all are done; then throws what the first chunk that failed has thrown. Where workers do not get the CPUs to keep up, the caller does all chunks for a while.
  void parallel_for(uint32_t chunks, ChunkFn fn);
  // The caller's number among the threads; 0 outside of chunks.
  static uint32_t worker();
  static bool in_chunk();
  // Regions dealt to workers so far. All threads come to the end of each one, so that a region costs waiting.
  uint32_t regions() const;
  // Between begin_step and end_step workers spin for the next region (they are woken once); outside they sleep.
  void begin_step();
  void end_step();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvrt
