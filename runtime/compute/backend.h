// Backend: a device's abilities. Memory verbs, ops, one run hook. open_cpu() gives the CPU's; results follow NUMERICS.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/env.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/threads.h"
#include "runtime/compute/head_rows.h"
#include "runtime/compute/rope.h"
#include "runtime/compute/state_layout.h"
#include "runtime/compute/step.h"
#include "runtime/compute/tensor.h"

namespace kvrt {

// Device memory; freed by the destructor. On the CPU data() is an ordinary pointer.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual uint8_t* data() = 0;
  virtual uint64_t bytes() const = 0;
};

// A matrix in the backend's own layout (the CPU: 16-row panels), made once at load. Rows of several tensors may be stacked.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual uint32_t rows() const = 0;   // outputs
  virtual uint32_t cols() const = 0;   // inputs
  virtual uint64_t bytes() const = 0;  // resident
};

using TensorStack = std::vector<TensorView>;

// A directory that keeps weights in the backend's layout from one load to the next.
struct WeightCache {
  Env* env = nullptr;
  Log* log = nullptr;
  std::string dir;
  Hash256 source;          // names the bytes of the tensors
  uint64_t bytes_max = 0;  // the limit of all files there; 0: the default
  uint32_t parents = 0;    // last directories above `dir` that may be made, too
  bool asked = true;       // false: the user's cache directory, by default; its faults are nobody's mistake
};

struct WeightLoad {
  // These bytes of a tensor will not be read again; called on the calling thread, for every byte once. An error ends the load.
  std::function<Status(std::span<const uint8_t>)> taken;
  const WeightCache* cache = nullptr;  // null: none. Its faults are logged and fail no load
};

enum class Activation : uint32_t { kSilu, kGeluTanh, kClampedSwiglu, kReluSquared };  // the last: without a gate alone

// The part of the bias of K's projection that a layer's K is stored without: of some pairs of RoPE in each KV head. Scores get it back, the
// same as if K had it.
struct KeyBias {
  const RopeParams* rope = nullptr;
  uint32_t pairs = 0;  // of each KV head; one that has fewer ends with zeros
  const float* values =
      nullptr;  // [kv_heads][pairs][3]: the number of the pair, and its two biases, not rotated, times RoPE's amplitude; on the device
};

struct AttentionParams {
  uint32_t heads = 0;
  float scale = 0;                    // q·k is multiplied by it
  float softcap = 0;                  // then scores become softcap * tanh(score / softcap); 0: they stay
  uint32_t window = 0;                // a row at position p sees (p - window, p]; 0: [0, p]
  const float* sinks = nullptr;       // [heads], on the device: each a score more in the softmax, whose value is 0; null: none
  const KeyBias* key_bias = nullptr;  // null: K has all of it
};

// A step's rows by the experts that they go to: expert e has rows and weights [first[e], first[e + 1]), rows ascending.
struct Routes {
  std::vector<uint32_t> first, rows;
  std::vector<float> weights;
};

// Rows that a matrix is applied to: x [n, cols]; where there are norm weights [cols], each row goes through RMSNorm on the way.
struct MatmulInput {
  const float* x;
  uint32_t n;
  const float* norm = nullptr;
  float eps = 0;
  uint32_t outputs_wanted = 0;  // the leading ones, 0: all; matmul may compute the others, too
};

// How a row's experts are chosen and weighed (NUMERICS.md §10).
struct RouteParams {
  uint32_t experts = 0, used = 0;
  bool sigmoid = false;   // of each logit; else the softmax over all
  bool normalize = true;  // the weights of the chosen sum to 1
  float scale = 1;        // of the weights
  uint32_t groups = 1, groups_used = 1;
  const float* bias = nullptr;  // [experts], on the host: added to what is chosen by, not to the weights; null: none
};

// The norms and the rotation of Q and K on their way from the projection to attention.
struct QkParams {
  const RopeParams* rope = nullptr;                  // null: no rotation
  uint32_t heads = 0;                                // Q's; the pool has K's
  const float *q_norm = nullptr, *k_norm = nullptr;  // RMSNorm of each head, whose weights all heads share; null: none
  bool norm_rows = false;                            // over all heads of a row as one, not over each
  bool norm_layer = false;                           // LayerNorm of each head, which has weights of its own
  bool norm_last = false;                            // after the rotation, not before
  float eps = 0;
  const float* factors = nullptr;  // [(heads + kv_heads) * k.dim] for Q and K after all that; null: none
};

// A backend's cache of the steps that it ran for one model, so that the next of the same shape costs less: CUDA's graphs.
class RunCache {
 public:
  virtual ~RunCache() = default;
};

// A step on its way through run. Ops are told of rows by their place in it.
struct StepRun {
  const Step* step = nullptr;
  RunCache* cache = nullptr;          // null: fn is called in any case
  uint64_t shape_key = 0;             // the step's: with the same cache and key fn would queue the same ops
  const TensorView* table = nullptr;  // embed_table's; null: it is not called
};

// The shape of a model's largest steps.
struct StepShape {
  uint32_t rows = 0, context = 1;  // the rows of a step; the tokens that a row sees, itself with them
  uint32_t width = 0, ff = 0, experts = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<RopeParams> ropes{};  // kinds of rotations
  uint32_t by_head = 0;             // matmul_heads: numbers of all heads of a row, in or out, at most
  uint64_t cells = 0;               // of the largest weight neither side of which is `width`
  uint32_t layer_inputs = 0;        // columns of embed_table's table, and rows of a weight
  uint32_t plain_head = 0;          // rows of the head where its weight is of F32, F16 or BF16
};

// Pointers named x, out..., norm, bias are device memory, row-major f32, one row per row of the step (or of a part of it).
// Ops are called inside run, by one thread at a time or inside by_rows; run, make_weights and set_threads exclude each other. On valid
// arguments only memory and the device can fail: alloc, upload, download and make_weights return that; ops and copies may be queued, and
// sync() returns their first error. It is as wide as the list of ops: each device computes each in its own way.
class Backend {
 public:
  virtual ~Backend() = default;

  // Memory. `populate`: touch pages now, in huge pages where the system gives them; else on first use.
  virtual Result<std::unique_ptr<Buffer>> alloc(uint64_t bytes, bool populate) = 0;
  // Memory that the host reads and writes; copies between it and the device are the fastest.
  virtual Result<std::unique_ptr<Buffer>> alloc_host(uint64_t bytes) = 0;
  // True where the host reads and writes memory of alloc: there is nothing to copy.
  virtual bool unified() const = 0;
  // The device's memory: all of it, and the part that is free now.
  virtual void device_memory(uint64_t* total, uint64_t* free) const = 0;
  // Copies the bytes that fill writes; fill writes in place where the host reaches the device's memory. Complete on return. Any thread.
  virtual Status upload(uint8_t* device, uint64_t bytes, const std::function<void(std::span<uint8_t> host)>& fill) = 0;
  // Complete on return. Any thread: it does not wait for bytes that a step still writes.
  virtual Status download(std::span<uint8_t> host, const uint8_t* device) = 0;
  // In order with the ops: `bytes` (a multiple of 16) of each pair, one after the other.
  virtual void copy(std::span<const BlockPair> pairs, uint64_t bytes) = 0;
  virtual void clear(uint8_t* device, uint64_t bytes) = 0;  // to zeros
  // A row of a step has the same bits whatever other rows the step has, if all are no more than this.
  virtual uint32_t rows_alike() const { return UINT32_MAX; }
  // Waits for all that was queued. The first error since the last call: then nothing that was queued counts as done.
  virtual Status sync() = 0;
  // Bytes of the memory that the backend itself has for such steps. Models share it: each is told of all that it needs. Any thread.
  virtual uint64_t step_memory(const StepShape&) const { return 0; }
  // Takes that memory, so that no such step asks for any. Excludes run.
  virtual Status reserve_steps(const StepShape&) { return {}; }
  // A weight of each stack: tensors of the same cols and any DType, by rows.
  virtual Result<std::vector<std::unique_ptr<Weight>>> make_weights(std::span<const TensorStack> stacks, const WeightLoad& load) = 0;
  Result<std::unique_ptr<Weight>> make_weight(std::span<const TensorView> tensors);
  // bytes() of that weight, by its types and shapes: no tensor is read. Any thread.
  virtual Result<uint64_t> weight_bytes(std::span<const TensorView> tensors) const = 0;

  // Ops.
  // The step's rows [first, first + n).
  virtual void embed(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) = 0;
  virtual void embed_positions(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) = 0;
  // The same of a table that stays in the host's memory, in the file's format: the one that run was told of.
  virtual void embed_table(const TensorView& table, const Step& step, uint32_t first, uint32_t n, float* out) = 0;
  virtual void rmsnorm(const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) = 0;
  // LayerNorm, with a bias or, where it is null, without.
  virtual void layernorm(const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width, float* out) = 0;
  // RMSNorm in place for each of `heads` runs of head_dim at x + row * stride; one weight[head_dim] for all.
  virtual void rmsnorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                             float* x) = 0;
  // LayerNorm likewise, without a bias; each head has weights of its own, weight[heads * head_dim].
  virtual void layernorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                               float* x) = 0;
  // out[n, w.rows] = in · wᵀ (+ bias[w.rows]); accumulate: out += that, each sum rounded once after the chain.
  virtual void matmul(const Weight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) = 0;
  // For each head h of weights of one shape: out's run of head h = in's run of it · heads[h]ᵀ, of n rows.
  virtual void matmul_heads(std::span<const std::unique_ptr<Weight>> heads, uint32_t n, const HeadRows& in, const HeadRows& out) = 0;
  // Copies `width` numbers of each head of n rows.
  virtual void copy_heads(uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out) = 0;
  // out[n, ff] = act(in · gateᵀ) * (in · upᵀ), where gate_up holds ff rows of gate, then ff of up; silu and gelu.
  virtual void matmul_act(const Weight& gate_up, Activation act, const MatmulInput& in, float* out) = 0;
  // out[rows, ff] = act(gate) * up, a row of gate_up holding ff of gate, then ff of up: what a matmul with a bias gives.
  virtual void act_mul(Activation act, const float* gate_up, uint32_t rows, uint32_t ff, float* out) = 0;
  virtual void gelu(uint32_t rows, uint32_t width, float* x) = 0;          // x = gelu(x), by its tanh form
  virtual void relu_squared(uint32_t rows, uint32_t width, float* x) = 0;  // x = x < 0 ? 0 : x * x
  // The rotations of a step's positions; the last two params are kept, or more.
  virtual void prepare_rope(const RopeParams& params, const Step& step) = 0;
  // Rotates `heads` heads of head_dim, at x + i * stride, of the rows [first, first + n) of the prepared positions.
  virtual void rope(const RopeParams& params, uint32_t first, uint32_t n, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) = 0;
  // Multiplies `width` numbers of each of the step's rows [first, first + n), at x + i * stride, by the temperature at its position.
  virtual void temper(const Temperature& t, const Step& step, uint32_t first, uint32_t n, uint32_t width, uint32_t stride, float* x) = 0;
  // Rounds K and V of the step's rows [first, first + n) (at k, v + i * stride; kv_heads * k.dim and v.dim) to the pool's formats at
  // their positions. Latents: k's rows alone are stored, v is not read.
  virtual void kv_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n, const float* k,
                        const float* v, uint32_t stride) = 0;
  // All ops between the projection and attention: a row at qkv + i * stride holds heads of Q, then of K, then of V. Q and K are normalized
  // and rotated, Q in place, and K and V stored; the numbers left in K's place mean nothing.
  virtual void rope_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n,
                          const QkParams& params, uint32_t stride, float* qkv);
  // q at q + row * stride: heads * k.dim. Causal; reads K and V only from the pool. out [rows, heads * v.dim].
  virtual void attention(const KvGeometry& kv, const uint8_t* pool, KvPlace place, const Step& step, const AttentionParams& params,
                         const float* q, uint32_t stride, float* out) = 0;
  // Recurrent layers: ops over all rows of a step. Each sequence goes on from its state_from, token after token, and leaves its state_to;
  // `layer` counts the layers with states. Rows are `stride` apart.
  // In place, of `channels` numbers of each row.
  virtual void conv(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ConvParams& params, uint32_t stride,
                    float* x) = 0;
  // A row: x [heads * head_dim], B [groups * state], C [groups * state]; dt [heads]. out [rows, heads * head_dim].
  virtual void scan(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ScanParams& params, uint32_t stride,
                    const float* x, const float* dt, float* out) = 0;
  // A row: q [key_heads * key_dim], k likewise, v [heads * value_dim]; beta, alpha [heads], a row's `gate_stride` apart.
  // out [rows, heads * value_dim].
  virtual void delta(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const DeltaParams& params, uint32_t stride,
                     const float* qkv, uint32_t gate_stride, const float* beta, const float* alpha, float* out) = 0;
  // out = x * y, or x * gate(y): `width` numbers of n rows; rows of x, y and out are their strides apart. In place where out is x.
  virtual void multiply(Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride,
                        float* out, uint32_t out_stride) = 0;
  virtual void add(const float* y, uint32_t rows, uint32_t width, float* x) = 0;  // x += y
  virtual void scale(float factor, uint32_t rows, uint32_t width, float* x) = 0;  // x *= factor
  virtual void softcap(float cap, uint32_t rows, uint32_t width, float* x) = 0;   // x = cap * tanh(x / cap)
  // The experts of each of `rows` rows by its logits, and their weights.
  virtual void route(const float* logits, uint32_t rows, const RouteParams& params, Routes* out) = 0;
  // x[rows[i]] += weights[i] * y[i], each one fma. No row twice.
  virtual void add_rows(const float* y, std::span<const uint32_t> rows, std::span<const float> weights, uint32_t width, float* x) = 0;
  virtual void gather_rows(const float* x, std::span<const uint32_t> rows, uint32_t width, float* out) = 0;
  // x's rows become those whose logits are wanted.
  virtual void gather_logits_rows(const Step& step, uint32_t width, float* x) = 0;
  // Draws a token from each of the rows of logits, by step.draws; where the backend is not unified.
  virtual void draw_rows(const Step& step, const float* logits, uint32_t vocab, DrawnToken* out) = 0;
  // n floats for the host; there after sync.
  virtual void fetch(const float* x, uint64_t n, float* host) = 0;

  // Calls fn(first, n) for runs of rows that cover [0, rows); it touches these rows alone, by ops from embed to add and scale. The CPU
  // deals many rows to its threads, in runs small enough for the caches, and a layer's weights stay there while all go through it.
  virtual void by_rows(uint32_t rows, const std::function<void(uint32_t first, uint32_t n)>& fn) = 0;

  // Runs one step. The CPU: sets the floating-point environment, wakes the pool's workers once, calls fn, restores both. CUDA: copies the
  // step's arrays to the device, and replays the ops that fn queued the first time where the cache has them.
  virtual void run(const StepRun& step, const std::function<void()>& fn) = 0;
  virtual std::unique_ptr<RunCache> make_run_cache() = 0;  // null: it needs none

  // The number of threads from the next op on, 1 to kThreadsMax.
  virtual void set_threads(uint32_t threads) = 0;
  virtual const char* name() const = 0;                   // "cpu"
  virtual const char* isa() const = 0;                    // kernel table in use: "scalar", "avx2", "avx512"
  virtual const char* numerics() const = 0;               // "cpu-3": part of kv_root
  virtual std::string device_name() const { return {}; }  // its maker's name for it; "" of a CPU
};

inline void Backend::rope_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n,
                                const QkParams& params, uint32_t stride, float* qkv) {
  float* k = qkv + params.heads * kv.k.dim;
  const auto normalize = [&](const float* norm, uint32_t heads, float* x) {
    if (norm && params.norm_layer) return layernorm_heads(norm, params.eps, n, heads, kv.k.dim, stride, x);
    const uint32_t runs = params.norm_rows ? 1 : heads;
    if (norm) rmsnorm_heads(norm, params.eps, n, runs, heads / runs * kv.k.dim, stride, x);
  };
  const auto rotate = [&] {
    if (params.rope) rope(*params.rope, first, n, params.heads + kv.kv_heads, kv.k.dim, stride, qkv);  // K's heads follow Q's in each row
  };
  if (params.norm_last) rotate();
  normalize(params.q_norm, params.heads, qkv);
  normalize(params.k_norm, kv.kv_heads, k);
  if (!params.norm_last) rotate();
  const uint32_t width = (params.heads + kv.kv_heads) * kv.k.dim;
  if (params.factors) multiply(Gate::kPlain, n, width, qkv, stride, params.factors, 0, qkv, stride);
  kv_store(kv, pool, place, step, first, n, k, k + kv.kv_heads * kv.k.dim, stride);
}

struct CpuOptions {
  uint32_t threads = 0;  // 0: usable_cpus()
  std::string isa;       // "" picks the best that passes its self-check; any other forces one table, UNSUPPORTED where the machine lacks it
};
Result<std::unique_ptr<Backend>> open_cpu(const CpuOptions& options, Log* log);

// The determinism of CUDA's results, as kvrt.h describes KVRT_DETERMINISM_*.
enum class Determinism { kByClass, kStrict, kNone };

struct CudaOptions {
  uint32_t device = 0;       // index among the devices that the driver shows
  std::string library = {};  // path of libkvrt_cuda; "": beside libkvrt, then as the dynamic linker finds it
  Determinism determinism = Determinism::kByClass;
  bool fp8_prompts = false;  // steps of many rows round factors to e4m3. UNSUPPORTED where the device or cuBLASLt cannot
};
// Loads the library on the first call. UNSUPPORTED where the library, the driver or a device is missing: the message names it, and
// the places where it was looked for. DEVICE: the device is there and failed.
Result<std::unique_ptr<Backend>> open_cuda(const CudaOptions& options, Log* log);

// The table that libkvrt_cuda exports as `kvrt_cuda_plugin`. It is of the same build as libkvrt: both carry KVRT_CUDA_PLUGIN_VERSION.
struct CudaPlugin {
  const char* version;  // KVRT_CUDA_PLUGIN_VERSION of cmake/cuda.cmake: kvrt's version and a hash of these headers
  // The caller's to delete; null: *status says why.
  Backend* (*open)(const CudaOptions& options, Log* log, Status* status);
  // For doctor: driver and runtime versions, cuBLASLt's (or "no cuBLASLt: " and why), a line for each device. Fails as open does.
  Status (*describe)(std::string* text);
};
// describe() of that library.
Result<std::string> describe_cuda(const CudaOptions& options);

// One line per kernel table that was built: name, usable here, passed its self-check, chosen. For doctor.
struct KernelTableState {
  const char* isa;
  bool supported, self_check_passed;
};
std::vector<KernelTableState> cpu_kernel_tables();

}  // namespace kvrt
