// Code that the parts of bench_cuda share: errors, JSON, time, memory, random weights.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "runtime/compute/cpu/weights.h"
#include "runtime/compute/quant/quants.h"
#include "tests/bench/bench_cuda.h"

namespace kvrt::bench {

void fail(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "bench_cuda: %s\n", what.c_str());
  std::exit(1);
}
void must(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}
void must(const Status& status) {
  if (!status.is_ok()) fail(status.message());
}

// ---- JSON

Line::~Line() {
  std::printf("{%s}\n", text_.c_str());
  std::fflush(stdout);
}
Line& Line::add(const char* key, const std::string& text) {
  text_ += (text_.empty() ? "\"" : ", \"") + std::string(key) + "\": \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') text_ += '\\';
    text_ += c;
  }
  text_ += '"';
  return *this;
}
Line& Line::number(const char* key, double value, bool rounded) {
  char digits[40];
  std::snprintf(digits, sizeof digits, rounded ? "%.4g" : "%.0f", value);
  text_ += ", \"" + std::string(key) + "\": " + (std::isfinite(value) ? digits : "null");
  return *this;
}

// ---- memory

Memory::Memory(uint64_t bytes) { must(cudaMalloc(reinterpret_cast<void**>(&data_), bytes), "cudaMalloc"); }

Memory::Memory(uint64_t bytes, std::span<const uint8_t> pattern) : Memory(bytes) {
  uint64_t have = std::min<uint64_t>(bytes, pattern.size());
  must(cudaMemcpy(data_, pattern.data(), have, cudaMemcpyHostToDevice), "a copy to the device");
  for (; have < bytes; have *= 2) {  // a multiple of the pattern each time
    must(cudaMemcpy(data_ + have, data_, std::min(have, bytes - have), cudaMemcpyDeviceToDevice), "a copy within the device");
  }
}

std::vector<uint8_t> random_bytes(uint64_t n, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> out((n + 7) / 8 * 8);
  for (uint64_t i = 0; i < out.size(); i += 8) {
    const uint64_t word = random();
    std::memcpy(&out[i], &word, 8);
  }
  out.resize(n);
  return out;
}

std::vector<uint8_t> random_halves(uint64_t n, int exponent, uint32_t seed) {
  std::vector<uint8_t> out = random_bytes(2 * n, seed);
  for (uint64_t i = 0; i < out.size(); i += 2) {
    uint16_t half;
    std::memcpy(&half, &out[i], 2);
    half = static_cast<uint16_t>((half & 0x83ff) + ((static_cast<uint32_t>(exponent + 15) + (half >> 10 & 1)) << 10));
    std::memcpy(&out[i], &half, 2);
  }
  return out;
}

std::vector<float> random_floats(uint64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& f : out) f = normal(random);
  return out;
}

const char* type_name(DType type) { return dtype_info(static_cast<uint32_t>(type))->name; }

// ---- time

namespace {

// queue(0), queue(1) ... queue(turn - 1), `times` times, captured.
class Graph {
 public:
  Graph(Device* device, uint32_t turn, uint32_t times, const std::function<void(uint32_t)>& queue) : stream_(device->stream.handle) {
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "the beginning of a capture");
    for (uint32_t i = 0; i < turn * times; ++i) queue(i % turn);
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(stream_, &graph), "the end of a capture");
    must(device->stream.error, "a captured launch");
    must(cudaGraphInstantiate(&exec_, graph, 0), "a graph");
    must(cudaGraphDestroy(graph), "a graph");
    for (cudaEvent_t& event : events_) must(cudaEventCreate(&event), "an event");
  }
  ~Graph() {
    (void)cudaGraphExecDestroy(exec_);
    for (cudaEvent_t& event : events_) (void)cudaEventDestroy(event);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  double replay_us() {
    must(cudaEventRecord(events_[0], stream_), "an event");
    must(cudaGraphLaunch(exec_, stream_), "a graph");
    must(cudaEventRecord(events_[1], stream_), "an event");
    must(cudaStreamSynchronize(stream_), "a graph");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, events_[0], events_[1]), "an event");
    return std::max(1e-3, ms * 1e3);
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
  cudaEvent_t events_[2] = {};
};

Timed summary(std::vector<double> us, double calls) {
  std::sort(us.begin(), us.end());
  const double median = us[us.size() / 2];
  return {median / calls, (us.back() - us.front()) / median};
}

}  // namespace

Device::Device(bool is_smoke) : smoke(is_smoke) {
  must(cudaGetDeviceProperties(&properties, 0), "the device's properties");
  must(cudaSetDevice(0), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&stream.handle, cudaStreamNonBlocking), "a stream");
  stream.overlap = properties.major >= 9;  // as the backend has it
  const uint64_t bytes = size(uint64_t{1} << 30, uint64_t{1} << 16);
  const Memory from(bytes, random_bytes(std::min<uint64_t>(bytes, 64 << 20), 1)), to(bytes);
  const Timed copy = time(1, [&](uint32_t) {
    stream.check(cudaMemcpyAsync(to.as<uint8_t>(), from.as<uint8_t>(), bytes, cudaMemcpyDeviceToDevice, stream.handle));
  });
  copy_gb_s = 2.0 * static_cast<double>(bytes) / copy.us / 1e3;
}

void Device::print() {
  int driver = 0, runtime = 0;
  must(cudaDriverGetVersion(&driver), "the driver's version");
  must(cudaRuntimeGetVersion(&runtime), "the runtime's version");
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  Line line("device");
  line.add("name", properties.name);
  line.add("compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor));
  line.add("multiprocessors", properties.multiProcessorCount);
  line.add("l2_bytes", properties.l2CacheSize);
  line.add("memory_bytes", properties.totalGlobalMem);
  line.add("driver_cuda", version(driver)).add("runtime_cuda", version(runtime));
  line.add("copy_gb_s", copy_gb_s);
}

void Device::finish() {
  must(stream.error, "a launch");
  must(cudaStreamSynchronize(stream.handle), "what was queued");
}

Timed Device::time(uint32_t turn, const std::function<void(uint32_t)>& queue) {
  constexpr double kReplayUs = 3000;             // at least, so that its beginning and its end do not count
  constexpr uint32_t kLaunches = 2000;           // of a graph, at most
  for (uint32_t i = 0; i < turn; ++i) queue(i);  // loads the kernels
  finish();
  uint32_t times = 1;
  if (!smoke) {
    Graph once(this, turn, 1, queue);
    once.replay_us();
    times = std::clamp(static_cast<uint32_t>(kReplayUs / once.replay_us()) + 1, 1u, std::max(1u, kLaunches / turn));
  }
  Graph graph(this, turn, times, queue);
  graph.replay_us();
  std::vector<double> us(smoke ? 1 : 11);
  for (double& replay : us) replay = graph.replay_us();
  return summary(us, turn * times);
}

Timed Device::time_host(uint32_t runs, const std::function<void()>& work) const {
  using Clock = std::chrono::steady_clock;
  std::vector<double> us(runs);
  for (double& one : us) {
    const auto start = Clock::now();
    work();
    one = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  return summary(us, 1);
}

uint32_t Device::turns_for(uint64_t bytes) const {
  if (smoke) return 2;
  const uint64_t wanted = std::max<uint64_t>(256u << 20, 4 * static_cast<uint64_t>(properties.l2CacheSize));
  return static_cast<uint32_t>(std::clamp<uint64_t>((wanted + bytes - 1) / bytes, 1, 256));
}

// ---- weights

namespace {

// The places of the f16 fields in a block (-1: there is none), and values that make its numbers some 0.02 when all other bits are random.
struct Scales {
  DType type;
  int scale_at, minimum_at;
  float scale, minimum;
};
constexpr Scales kScales[] = {{DType::kQ8_0, 0, -1, 2.7e-4f, 0},
                              {DType::kQ4_1, 0, 2, 4e-3f, -0.03f},
                              {DType::kQ4_K, 0, 2, 1.2e-4f, 9e-4f},
                              {DType::kQ6_K, 208, -1, 6.2e-5f, 0}};

std::vector<uint8_t> random_tensor(DType type, uint32_t rows, uint32_t cols) {
  const DTypeInfo& info = *dtype_info(static_cast<uint32_t>(type));
  const uint64_t blocks = uint64_t{rows} * cols / info.block_elems;
  if (type == DType::kF16) return random_halves(blocks, -7, cols);
  const Scales* scales = std::find_if(std::begin(kScales), std::end(kScales), [&](const Scales& s) { return s.type == type; });
  if (scales == std::end(kScales)) fail(std::string("no random tensor of type ") + info.name);
  std::vector<uint8_t> out = random_bytes(blocks * info.block_bytes, cols);
  const uint16_t scale = f32_to_f16(scales->scale), minimum = f32_to_f16(scales->minimum);
  for (uint64_t at = 0; at < out.size(); at += info.block_bytes) {
    std::memcpy(&out[at + static_cast<uint64_t>(scales->scale_at)], &scale, 2);
    if (scales->minimum_at >= 0) std::memcpy(&out[at + static_cast<uint64_t>(scales->minimum_at)], &minimum, 2);
  }
  return out;
}

// A few panels; packed once.
struct Panels {
  uint64_t panel_bytes = 0;
  std::vector<uint8_t> bytes;
};
const Panels& some_panels(DType type, uint32_t cols) {
  static std::map<std::pair<DType, uint32_t>, Panels> made;
  Panels& panels = made[{type, cols}];
  if (!panels.bytes.empty()) return panels;
  constexpr uint32_t kRows = 512;
  const std::vector<uint8_t> file = random_tensor(type, kRows, cols);
  const TensorView tensor{type, {cols, kRows, 1, 1}, file};
  WeightImage image;
  must(image.add({&tensor, 1}));
  panels.bytes.resize(image.bytes());
  image.pack(0, image.bytes(), panels.bytes.data());
  panels.panel_bytes = panels.bytes.size() / (kRows / kPanelRows);
  return panels;
}

}  // namespace

uint64_t Weights::bytes_of(DType type, uint32_t rows, uint32_t cols) {
  return (rows + kPanelRows - 1) / kPanelRows * some_panels(type, cols).panel_bytes;
}

Weights::Weights(DType type, uint32_t rows, uint32_t cols, uint32_t copies)
    : type_(type), rows_(rows), cols_(cols), panel_bytes_(some_panels(type, cols).panel_bytes), bytes_(bytes_of(type, rows, cols)) {
  memory_ = Memory(bytes_ * copies, some_panels(type, cols).bytes);
}

cuda::DeviceWeight Weights::view(uint32_t copy, std::span<const uint32_t> parts) const {
  cuda::DeviceWeight out;
  out.rows = rows_;
  out.cols = cols_;
  uint32_t row = 0;
  for (const uint32_t rows : parts) {
    if (row % kPanelRows != 0) fail("a part that begins within a panel");
    const uint32_t panels = (rows + kPanelRows - 1) / kPanelRows;
    const uint8_t* data = memory_.as<uint8_t>(copy * bytes_ + row / kPanelRows * panel_bytes_);
    out.parts[out.n_parts++] = {type_, row, rows, panels, panel_bytes_, data};
    row += rows;
  }
  return out;
}

}  // namespace kvrt::bench
