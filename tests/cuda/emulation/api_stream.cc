// The API of streams, events, capture, graphs and launches.
#include "tests/cuda/emulation/machine.h"
#include "tests/cuda/emulation/shared_memory.h"

using kvrt::emulation::Call;
using kvrt::emulation::Capture;
using kvrt::emulation::EventState;
using kvrt::emulation::machine;
using kvrt::emulation::Machine;
using kvrt::emulation::Work;

namespace {

bool is_event(const Machine& m, cudaEvent_t event) { return m.events.count(event) != 0; }

// An event of a capture is no event of the device: to ask for it ends the capture.
cudaError_t refuse_captured_event(const EventState& event) {
  if (event.capturing == nullptr) return cudaSuccess;
  CUstream_st* const stream = kvrt::emulation::find_stream(event.capturing);
  if (stream != nullptr && stream->capture != nullptr) stream->capture->valid = false;
  return cudaErrorCapturedEvent;
}

}  // namespace

// ---- streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  KVRT_CALL();
  if ((flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) return call.result(cudaErrorInvalidValue);
  auto* const stream = new CUstream_st;
  stream->blocking = (flags & cudaStreamNonBlocking) == 0;
  stream->device = kvrt::emulation::current_device();
  m.streams.insert(stream);
  *handle = stream;
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Call call;
  Machine& m = machine();
  if (m.streams.count(stream) == 0) return call.result(cudaErrorInvalidResourceHandle);
  kvrt::emulation::drain(stream);  // queued work is done first, as on a device
  m.streams.erase(stream);
  delete stream;
  return call.result(call.error());
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  if (const cudaError_t error = kvrt::emulation::refuse_captured(stream); error != cudaSuccess) return call.result(error);
  kvrt::emulation::drain(stream);
  return call.result(kvrt::emulation::synchronized());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  if (const cudaError_t error = kvrt::emulation::refuse_captured(stream); error != cudaSuccess) return call.result(error);
  if (!stream->queue.empty()) {
    kvrt::emulation::drain_one(stream);
    return cudaErrorNotReady;
  }
  return call.result(kvrt::emulation::synchronized());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  if (!is_event(m, event)) return call.result(cudaErrorInvalidResourceHandle);
  if (flags != 0) return call.result(cudaErrorInvalidValue);
  EventState& state = *event->state;
  if (stream->capture != nullptr) {
    if (!stream->capture->valid) return call.result(cudaErrorStreamCaptureInvalidated);
    if (state.capturing == stream) return cudaSuccess;  // in order as it is
    stream->capture->valid = false;
    // One capture over two streams is not emulated; an event from outside is an error on a device too.
    return call.result(state.capturing != nullptr ? cudaErrorStreamCaptureUnsupported : cudaErrorStreamCaptureIsolation);
  }
  if (state.capturing != nullptr) {
    (void)refuse_captured_event(state);
    return call.result(cudaErrorStreamCaptureUnsupported);
  }
  Work work{};
  work.kind = Work::Kind::kWait;
  work.event = event->state;
  work.record = state.recorded;
  return call.result(kvrt::emulation::submit(stream, std::move(work)));
}

// ---- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  KVRT_CALL();
  if ((flags & ~3u) != 0) return call.result(cudaErrorInvalidValue);
  *event = new CUevent_st{std::make_shared<EventState>()};
  (*event)->state->timed = (flags & cudaEventDisableTiming) == 0;
  m.events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Call call;
  if (machine().events.erase(event) == 0) return call.result(cudaErrorInvalidResourceHandle);
  delete event;  // its state lives on in queued work
  return call.result(call.error());
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  if (!is_event(m, event)) return call.result(cudaErrorInvalidResourceHandle);
  EventState& state = *event->state;
  if (stream->capture != nullptr) {
    if (!stream->capture->valid) return call.result(cudaErrorStreamCaptureInvalidated);
    state.capturing = stream;
    return cudaSuccess;
  }
  state.capturing = nullptr;
  state.stream = handle;
  Work work{};
  work.kind = Work::Kind::kRecord;
  work.event = event->state;
  work.record = ++state.recorded;
  return call.result(kvrt::emulation::submit(stream, std::move(work)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  KVRT_CALL();
  if (!is_event(m, event)) return call.result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_captured_event(*event->state); error != cudaSuccess) return call.result(error);
  kvrt::emulation::drain_until(event->state.get(), event->state->recorded);
  return call.result(kvrt::emulation::synchronized());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  KVRT_CALL();
  if (!is_event(m, event)) return call.result(cudaErrorInvalidResourceHandle);
  EventState& state = *event->state;
  if (const cudaError_t error = refuse_captured_event(state); error != cudaSuccess) return call.result(error);
  if (state.done < state.recorded) {
    if (CUstream_st* const stream = kvrt::emulation::find_stream(state.stream); stream != nullptr) kvrt::emulation::drain_one(stream);
    return cudaErrorNotReady;
  }
  return call.result(kvrt::emulation::synchronized());
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  KVRT_CALL();
  if (!is_event(m, start) || !is_event(m, end)) return call.result(cudaErrorInvalidResourceHandle);
  const EventState &a = *start->state, &b = *end->state;
  if (!a.timed || !b.timed || a.recorded == 0 || b.recorded == 0) return call.result(cudaErrorInvalidResourceHandle);
  if (a.done < a.recorded || b.done < b.recorded) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(b.at - a.at).count();
  return cudaSuccess;
}

// ---- capture

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  if (handle == nullptr) return call.result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return call.result(cudaErrorIllegalState);
  stream->capture = std::make_unique<Capture>(Capture{mode, std::this_thread::get_id(), true, {}});
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Call call;  // it ends even where it fails
  Machine& m = machine();
  KVRT_STREAM(handle);
  *graph = nullptr;
  if (stream->capture == nullptr) return call.result(call.error() != cudaSuccess ? call.error() : cudaErrorIllegalState);
  if (stream->capture->mode != cudaStreamCaptureModeRelaxed && stream->capture->thread != std::this_thread::get_id()) {
    return call.result(cudaErrorStreamCaptureWrongThread);
  }
  const std::unique_ptr<Capture> capture = std::move(stream->capture);
  if (call.error() != cudaSuccess) return call.result(call.error());
  if (!capture->valid) return call.result(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{std::make_shared<std::vector<Work>>(std::move(capture->nodes))};
  m.graphs.insert(*graph);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  *status = cudaStreamCaptureStatusNone;
  if (stream->capture != nullptr) {
    *status = stream->capture->valid ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
  }
  return cudaSuccess;
}

// ---- graphs

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  KVRT_CALL();
  if (m.graphs.count(graph) == 0) return call.result(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->nodes};
  m.graph_execs.insert(*exec);
  ++m.captures;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  return call.result(m.graph_execs.count(exec) != 0 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  KVRT_CALL();
  KVRT_STREAM(handle);
  if (m.graph_execs.count(exec) == 0) return call.result(cudaErrorInvalidValue);
  Work work{};
  work.kind = Work::Kind::kGraph;
  work.nodes = exec->nodes;
  return call.result(kvrt::emulation::submit(stream, std::move(work)));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Call call;
  if (machine().graphs.erase(graph) == 0) return call.result(cudaErrorInvalidValue);
  delete graph;
  return call.result(call.error());
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Call call;
  if (machine().graph_execs.erase(exec) == 0) return call.result(cudaErrorInvalidValue);
  delete exec;
  return call.result(call.error());
}

// ---- kernels

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attr, int value) {
  KVRT_CALL();
  if (kernel == nullptr) return call.result(cudaErrorInvalidDeviceFunction);
  if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;  // a hint
  if (value < 0 || static_cast<uint32_t>(value) > kvrt::emulation::kSharedBytesMax) return call.result(cudaErrorInvalidValue);
  m.shared_limits[kernel] = static_cast<uint32_t>(value);
  return cudaSuccess;
}

namespace {

cudaError_t check_launch(const Machine& m, const cudaLaunchConfig_t& config, const void* kernel) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) return cudaErrorInvalidConfiguration;
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || uint64_t{block.x} * block.y * block.z > 1024)
    return cudaErrorInvalidConfiguration;
  const auto limit = m.shared_limits.find(kernel);
  if (config.dynamicSmemBytes > (limit != m.shared_limits.end() ? limit->second : kvrt::emulation::kSharedBytesDefault)) {
    return cudaErrorInvalidValue;
  }
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == cudaLaunchAttributeCooperative) return cudaErrorNotSupported;
    if (config.attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization && m.options.major < 9) return cudaErrorNotSupported;
  }
  return cudaSuccess;
}

}  // namespace

namespace kvrt::emulation {

cudaError_t launch_kernel(const cudaLaunchConfig_t& config, const KernelCall& kernel) {
  KVRT_CALL();
  KVRT_STREAM(config.stream);
  if (config.stream != nullptr && stream->device != current_device()) return call.result(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = check_launch(m, config, kernel.kernel); error != cudaSuccess) return call.result(error);
  Work work{};
  work.kind = Work::Kind::kKernel;
  work.grid = {config.gridDim, config.blockDim, static_cast<uint32_t>(config.dynamicSmemBytes), kernel.run, kernel.self};
  if (m.options.deferred || stream->capture != nullptr) {
    work.kept = kernel.keep(kernel.self);
    work.grid.self = work.kept.get();
  }
  return call.result(submit(stream, std::move(work)));
}

}  // namespace kvrt::emulation
