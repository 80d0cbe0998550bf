// The moment at which work runs, and its order.
#include <cstring>

#include "tests/cuda/emulation/machine.h"

namespace kvrt::emulation {
namespace {

void run(const Work& work) {
  Machine& m = machine();
  if (m.failed != cudaSuccess || m.lost != cudaSuccess) return;
  const OpenMemory open(&m.memory);
  switch (work.kind) {
    case Work::Kind::kKernel:
      ++m.launches;
      return run_grid(work.grid, m.options.modes);
    case Work::Kind::kCopy:
      std::memmove(work.to, work.from, work.bytes);
      return;
    case Work::Kind::kSet:
      std::memset(work.to, work.value, work.bytes);
      return;
    case Work::Kind::kGraph:
      for (const Work& node : *work.nodes) run(node);
      return;
    case Work::Kind::kRecord:
      work.event->done = work.record;
      work.event->at = std::chrono::steady_clock::now();
      return;
    case Work::Kind::kWait:
      return drain_until(work.event.get(), work.record);
  }
}

// Work comes to its turn. Records and waits happen on a broken device too, so that nothing waits for ever.
void take(const Work& work) {
  Machine& m = machine();
  if (work.fails && m.failed == cudaSuccess) m.failed = m.fail_late.error;
  if (work.kind == Work::Kind::kRecord) work.event->done = work.record;
  run(work);
}

bool counts(const Work& work) { return work.kind != Work::Kind::kRecord && work.kind != Work::Kind::kWait; }

}  // namespace

CUstream_st* find_stream(cudaStream_t handle) {
  Machine& m = machine();
  if (handle == nullptr) return &m.default_stream;
  return m.streams.count(handle) != 0 ? handle : nullptr;
}

cudaError_t submit(CUstream_st* stream, Work work) {
  Machine& m = machine();
  if (stream->capture != nullptr) {
    if (!stream->capture->valid) return cudaErrorStreamCaptureInvalidated;
    stream->capture->nodes.push_back(std::move(work));
    return cudaSuccess;
  }
  if (counts(work)) {
    ++m.queued;
    if (m.fail_late.in != 0 && --m.fail_late.in == 0) work.fails = true;
  }
  if (m.options.deferred) {
    // The default stream and the blocking ones take turns.
    if (stream == &m.default_stream) drain_all(true);
    if (stream->blocking) drain(&m.default_stream);
    stream->queue.push_back(std::move(work));
  } else {
    drain(stream);  // of before the mode changed
    take(work);
  }
  return cudaSuccess;
}

void drain_one(CUstream_st* stream) {
  if (stream->queue.empty()) return;
  const Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  take(work);
}

void drain(CUstream_st* stream) {
  while (!stream->queue.empty()) drain_one(stream);
}

void drain_until(EventState* event, uint64_t record) {
  CUstream_st* const stream = find_stream(event->stream);
  while (event->done < record && stream != nullptr && !stream->queue.empty()) drain_one(stream);
}

void drain_all(bool blocking_only) {
  Machine& m = machine();
  drain(&m.default_stream);
  for (CUstream_st* const stream : m.streams) {
    if (stream->blocking || !blocking_only) drain(stream);
  }
}

cudaError_t synchronized() {
  Machine& m = machine();
  m.memory.shut();
  if (m.failed != cudaSuccess && m.lost == cudaSuccess) m.lost = m.failed;
  return m.lost;
}

cudaError_t refuse_in_capture() {
  cudaError_t error = cudaSuccess;
  for (CUstream_st* const stream : machine().streams) {
    Capture* const capture = stream->capture.get();
    if (capture == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id()) continue;
    capture->valid = false;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t refuse_captured(CUstream_st* stream) {
  if (stream->capture == nullptr) return cudaSuccess;
  stream->capture->valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace kvrt::emulation
