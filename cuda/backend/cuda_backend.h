// CudaBackend: Backend on one device. Ops are queued on one stream; a step of few rows is captured into a graph the second time that its
// shape comes, and replayed from then on: the data that changes from step to step (tokens, positions, block tables) lies in device memory.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "cuda/backend/device_context.h"
#include "cuda/backend/gemm_library.h"
#include "cuda/backend/graph_cache.h"
#include "cuda/backend/step_arrays.h"
#include "cuda/kernels/kernels.h"
#include "runtime/base/threads.h"
#include "runtime/base/turn_lock.h"
#include "runtime/compute/backend.h"

namespace kvrt {
class WeightImage;
}

namespace kvrt::cuda {

// Up to so many rows a step's matmuls with a quantized weight are matvecs, with a plain one up to kFewRows; above, a gemm, a library's where there
// is one. On an H100 four matvecs of 16 rows of Q4_K take 325 us a layer of 8B, a weight's way through f16 and the library 490.
inline constexpr uint32_t kMatvecRowsMax = 64;
inline constexpr uint64_t kDequantizedMax = 256ull << 20;                   // elements of the largest weight that is copied to f16 for it
inline uint64_t gemm_rows(uint64_t rows) { return (rows + 63) / 64 * 64; }  // whole tiles of gemm

// A weight in device memory, in the CPU's panels.
class CudaWeight final : public Weight {
 public:
  CudaWeight(const DeviceWeight& view, uint64_t bytes, std::shared_ptr<Buffer> memory)
      : view_(view), bytes_(bytes), memory_(std::move(memory)) {}
  uint32_t rows() const override { return view_.rows; }
  uint32_t cols() const override { return view_.cols; }
  uint64_t bytes() const override { return bytes_; }
  const DeviceWeight& view() const { return view_; }

 private:
  DeviceWeight view_;
  uint64_t bytes_;
  std::shared_ptr<Buffer> memory_;
};

// Threads as Backend says: one at a time, except for alloc, upload, download and device_memory. A method for each op, and a field for each thing
// that outlives a step: stream, graphs, tables, scratch, counters.
class CudaBackend final : public Backend {
 public:
  // gemm: a library's functions; null: cuBLASLt, where it is found.
  static Result<std::unique_ptr<Backend>> open(const CudaOptions& options, Log* log, const CublasLt* gemm = nullptr);
  ~CudaBackend() override;

  Result<std::unique_ptr<Buffer>> alloc(uint64_t bytes, bool populate) override;
  Result<std::unique_ptr<Buffer>> alloc_host(uint64_t bytes) override;
  bool unified() const override { return false; }
  uint32_t rows_alike() const override { return determinism_ == Determinism::kStrict ? UINT32_MAX : kFewRows; }
  void device_memory(uint64_t* total, uint64_t* free) const override;
  Status upload(uint8_t* device, uint64_t bytes, const std::function<void(std::span<uint8_t> host)>& fill) override;
  Status download(std::span<uint8_t> host, const uint8_t* device) override;
  void copy(std::span<const BlockPair> pairs, uint64_t bytes) override;
  void clear(uint8_t* device, uint64_t bytes) override;
  Status sync() override;
  uint64_t step_memory(const StepShape& shape) const override;
  Status reserve_steps(const StepShape& shape) override;
  Result<std::vector<std::unique_ptr<Weight>>> make_weights(std::span<const TensorStack> stacks, const WeightLoad& load) override;
  Result<uint64_t> weight_bytes(std::span<const TensorView> tensors) const override;

  void embed(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) override;
  void embed_positions(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) override;
  void embed_table(const TensorView& table, const Step& step, uint32_t first, uint32_t n, float* out) override;
  void rmsnorm(const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) override;
  void layernorm(const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width, float* out) override;
  void rmsnorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) override;
  void layernorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                       float* x) override;
  void matmul(const Weight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) override;
  void matmul_heads(std::span<const std::unique_ptr<Weight>> heads, uint32_t n, const HeadRows& in, const HeadRows& out) override;
  void copy_heads(uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out) override;
  void matmul_act(const Weight& gate_up, Activation act, const MatmulInput& in, float* out) override;
  void act_mul(Activation act, const float* gate_up, uint32_t rows, uint32_t ff, float* out) override;
  void gelu(uint32_t rows, uint32_t width, float* x) override;
  void relu_squared(uint32_t rows, uint32_t width, float* x) override;
  void prepare_rope(const RopeParams& params, const Step& step) override;
  void rope(const RopeParams& params, uint32_t first, uint32_t n, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) override;
  void temper(const Temperature& t, const Step& step, uint32_t first, uint32_t n, uint32_t width, uint32_t stride, float* x) override;
  void kv_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n, const float* k,
                const float* v, uint32_t stride) override;
  void rope_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n, const QkParams& params,
                  uint32_t stride, float* qkv) override;
  void attention(const KvGeometry& kv, const uint8_t* pool, KvPlace place, const Step& step, const AttentionParams& params, const float* q,
                 uint32_t stride, float* out) override;
  void conv(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ConvParams& params, uint32_t stride,
            float* x) override;
  void scan(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ScanParams& params, uint32_t stride,
            const float* x, const float* dt, float* out) override;
  void delta(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const DeltaParams& params, uint32_t stride,
             const float* qkv, uint32_t gate_stride, const float* beta, const float* alpha, float* out) override;
  void multiply(Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride, float* out,
                uint32_t out_stride) override;
  void add(const float* y, uint32_t rows, uint32_t width, float* x) override;
  void scale(float factor, uint32_t rows, uint32_t width, float* x) override;
  void softcap(float cap, uint32_t rows, uint32_t width, float* x) override;
  void route(const float* logits, uint32_t rows, const RouteParams& params, Routes* out) override;
  void add_rows(const float* y, std::span<const uint32_t> rows, std::span<const float> weights, uint32_t width, float* x) override;
  void gather_rows(const float* x, std::span<const uint32_t> rows, uint32_t width, float* out) override;
  void gather_logits_rows(const Step& step, uint32_t width, float* x) override;
  void draw_rows(const Step& step, const float* logits, uint32_t vocab, DrawnToken* out) override;
  void fetch(const float* x, uint64_t n, float* host) override;
  void by_rows(uint32_t rows, const std::function<void(uint32_t first, uint32_t n)>& fn) override { fn(0, rows); }
  void run(const StepRun& step, const std::function<void()>& fn) override;
  std::unique_ptr<RunCache> make_run_cache() override { return std::make_unique<GraphCache>(context_.get()); }

  void set_threads(uint32_t threads) override {
    Lock lock(pool_mu_);
    pool_.resize(threads);
  }
  const char* name() const override { return "cuda"; }
  const char* isa() const override { return isa_.c_str(); }
  const char* numerics() const override { return numerics_.c_str(); }
  std::string device_name() const override { return context_->properties().name; }

 private:
  // The rotations of a step's positions, [rows][pairs], for one set of parameters, and what turns K's bias (rope.h) up to `spans`. Graphs have
  // captured its place.
  struct RopeTable {
    RopeParams params;
    uint32_t spans = 0;
    std::unique_ptr<Buffer> memory;
    float *cos = nullptr, *sin = nullptr, *offsets = nullptr, *turns = nullptr;
    double* inv_freq = nullptr;
    static uint64_t bytes(const RopeParams& params, uint32_t spans);
  };
  // Device memory that ops share one after the other; grows to the largest use.
  using Scratch = std::unique_ptr<Buffer>;
  struct ScratchUse {
    Scratch CudaBackend::*memory;
    uint64_t bytes;
  };

  CudaBackend(std::unique_ptr<DeviceContext> context, const CudaOptions& options, Log* log);
  void fail(Status status);
  void pack(const WeightImage& image, uint64_t begin, uint64_t end, uint8_t* host, uint64_t base);
  std::vector<ScratchUse> scratch_uses(const StepShape& shape) const;
  // Makes it at least `bytes` large. Growing drops the graphs, which have its old place.
  Status enlarge(Scratch* scratch, uint64_t bytes);
  // Likewise within a step; null or false after an error.
  template <typename T>
  T* reserve(Scratch* scratch, uint64_t count);
  bool grow(Scratch* scratch, uint64_t bytes);
  static uint32_t splits_of(uint32_t last_position);
  static uint32_t spans_of(uint32_t splits) { return (splits * kSplitTokens + kTurnTokens - 1) / kTurnTokens; }
  static uint32_t rows_in_parts(const KvGeometry& kv, uint32_t heads, uint32_t splits);
  bool begin_step(const StepRun& run);
  bool stage_table(const TensorView& table, const Step& step);
  void replay_or_capture(GraphCache* cache, uint64_t key, const std::function<void()>& fn);
  Status open_gemm(const CublasLt* gemm);
  void many_rows(const DeviceWeight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out);
  // False: f16 is to be used, as without FP8. An error is kept.
  bool many_rows_e4m3(const DeviceWeight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out);
  bool takes_few(const DeviceWeight& w) const;  // the step's matmuls with it are matvecs
  MatvecInput matvec_input(const DeviceWeight& w, const MatmulInput& in);
  const uint16_t* gemm_input(const DeviceWeight& w, const MatmulInput& in);
  // The table for the parameters; makes one where there is none of so many spans.
  Result<const RopeTable*> make_rope_table(const RopeParams& params, uint32_t spans);
  // The table that was prepared for the parameters; null where that failed.
  const RopeTable* rope_table(const RopeParams& params) const;
  void decode_rows(const KvGeometry& kv, const uint8_t* pool, KvPlace place, uint32_t first, uint32_t n, const DeviceAttention& params,
                   const float* q, uint32_t stride, float* out);
  DeviceStates device_states(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step) const;
  template <typename T>
  T* stage_rows(Scratch* scratch, std::span<const T> host);

  std::unique_ptr<DeviceContext> context_;
  Log* log_;
  Determinism determinism_;
  bool fp8_prompts_;
  std::string isa_, numerics_;
  TurnLock pool_mu_;    // a model may be loaded while another runs
  ThreadPool pool_{1};  // it packs weights
  Stream stream_;
  Status error_;  // the first since the last sync; errors of launches are in stream_
  StepArrays arrays_;
  uint64_t generation_ = 0;  // counts changes of the places that graphs have captured
  bool capturing_ = false;
  uint32_t splits_ = 1;  // parts of a row in the step's attention
  // Rows of the step; from the last layer's attention on, those with logits. They choose the kernels of the step's matmuls, also for an
  // expert that has few of them.
  uint32_t class_rows_ = 0;
  std::unique_ptr<GemmLibrary> gemm_;  // null: kvrt's own kernels
  std::list<RopeTable> rope_tables_;   // for all models; the last prepared is first
  Scratch q_, d_, s_, sums_, normed_, halves_, partials_, gate_up_, rows_, weights_, dequantized_, scales_, products_, heads_in_,
      heads_out_, table_rows_;
  std::unique_ptr<Buffer> table_host_;  // pinned: a step's rows of embed_table's table, on their way to table_rows_
};

}  // namespace kvrt::cuda
