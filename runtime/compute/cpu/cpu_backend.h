// CpuBackend: Backend on host memory. Splits each op over the pool's threads; the arithmetic is the kernel table's.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/threads.h"
#include "runtime/base/turn_lock.h"
#include "runtime/compute/backend.h"
#include "runtime/compute/cpu/kernels.h"

namespace kvrt {

class PanelWeight;
class WeightImage;

// Up to this many rows (or 16 a thread) a step's ops go one after the other, the matrices split by panels over all threads. From
// there on each thread takes runs of rows through a layer on its own.
inline constexpr uint32_t kFewRows = 32;

// One thread at a time, as Backend says. Scratch grows to the largest step seen and is then reused. A method for each op.
class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuKernels* kernels, uint32_t threads) : kernels_(*kernels), pool_(threads), scratch_(pool_.size()) {}

  Result<std::unique_ptr<Buffer>> alloc(uint64_t bytes, bool populate) override;
  Result<std::unique_ptr<Buffer>> alloc_host(uint64_t bytes) override { return alloc(bytes, /*populate=*/false); }
  bool unified() const override { return true; }
  void device_memory(uint64_t* total, uint64_t* free) const override;
  Status upload(uint8_t* device, uint64_t bytes, const std::function<void(std::span<uint8_t> host)>& fill) override;
  Status download(std::span<uint8_t> host, const uint8_t* device) override;
  void copy(std::span<const BlockPair> pairs, uint64_t bytes) override;
  void clear(uint8_t* device, uint64_t bytes) override;
  Status sync() override { return {}; }
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
  void draw_rows(const Step&, const float*, uint32_t, DrawnToken*) override { KVRT_CHECK(!unified()); }
  void fetch(const float* x, uint64_t n, float* host) override;
  void by_rows(uint32_t rows, const std::function<void(uint32_t first, uint32_t n)>& fn) override;
  void run(const StepRun& step, const std::function<void()>& fn) override;
  std::unique_ptr<RunCache> make_run_cache() override { return nullptr; }

  void set_threads(uint32_t threads) override {
    Lock lock(pool_mu_);
    pool_.resize(threads);
    scratch_.resize(pool_.size());
  }
  const char* name() const override { return "cpu"; }
  const char* isa() const override { return kernels_.isa; }
  const char* numerics() const override { return "cpu-3"; }
  uint32_t threads() const { return pool_.size(); }
  uint32_t regions() const { return pool_.regions(); }

 private:
  // The rotations of a step's positions, [positions][dims / 2]. Layers may differ in two kinds of parameters.
  struct RopeTable {
    RopeParams params;
    std::vector<double> inv_freq;
    std::vector<float> cos, sin;
  };
  // A thread's memory for a matmul that it computes, alone or with the others' help.
  struct alignas(64) WorkerScratch {
    std::vector<int8_t> q;  // the input, quantized
    std::vector<float> d, s;
    std::vector<int16_t> sums;
    std::vector<float> normed, row;  // the input after its norm; one row of it
    std::vector<float> gate, up;     // a part of gate's and up's product
  };
  struct Activations {
    const float* x;
    QuantRows q;
  };
  WorkerScratch& scratch() { return scratch_[ThreadPool::worker()]; }
  Activations prepare_input(const PanelWeight& w, const MatmulInput& in);
  Activations prepare_heads(const PanelWeight& w, uint32_t heads, uint32_t n, const HeadRows& in);
  template <typename F>
  void for_panels(uint32_t panels, uint64_t panel_bytes, uint32_t n, const F& fn);
  Result<std::shared_ptr<const uint8_t>> pack(const WeightImage& image, const WeightLoad& load);
  Result<std::shared_ptr<const uint8_t>> load_image(const WeightImage& image, const WeightLoad& load);
  // One share of a step's attention: a query tile of one sequence and KV head over spans [span_begin, span_end). Where the
  // spans of a tile are dealt to several threads, each leaves its partial result in its slot and the last one merges them.
  struct AttentionShare {
    const StepSeq* seq;
    uint32_t first, tokens, part;  // rows [first, first + tokens) of the sequence, and the heads of a tile
    uint32_t span_begin, span_end;
    uint32_t slot, merge;
  };
  struct AttentionMerge {
    AttentionShare share;  // all spans, from the first one's slot on
    uint32_t left;         // spans not computed yet; several threads count down
  };
  struct AttentionPartial;
  struct AttentionMemory;
  // Cosines and sines for what K is stored without: offsets [pairs][2][kSpanTokens] of the positions of a span, turns [spans][pairs][2] of
  // the spans' first ones (kernels.h).
  struct BiasTable {
    RopeParams params;
    std::vector<double> frequencies;
    std::vector<float> offsets, turns;
  };
  const BiasTable& bias_table(const RopeParams& rope, uint32_t spans);
  TileBias turn_bias(const AttentionParams& params, const KvGeometry& kv, const Step& step, const float* q, uint32_t stride);
  const float* transform_queries(uint32_t k_dim, uint32_t rows, uint32_t width, const float* q, uint32_t* stride, float* scale);
  AttentionMemory attention_memory(uint32_t rows, uint32_t k_dim, uint32_t v_dim);
  void plan_attention(const Step& step, uint32_t parts, uint32_t group, int64_t window, uint32_t tile_tokens);
  void dequantize_rows(const Weight& table, std::span<const int32_t> rows, float* out);
  // fn(row) for rows [0, n), little work each.
  template <typename F>
  void for_rows(uint32_t n, const F& fn);

  const CpuKernels& kernels_;
  TurnLock pool_mu_;  // a model may be loaded, or the threads changed, while another's step runs
  ThreadPool pool_;
  std::vector<WorkerScratch> scratch_;  // [threads]
  std::vector<uint32_t> runs_;          // runs of panels: the begin of each, and the end
  std::vector<float> attention_scratch_;
  std::vector<float> transformed_;  // a step's queries
  std::vector<float> bias_rows_;    // [rows][heads][pairs][2] (TileBias)
  BiasTable bias_tables_[2];
  uint32_t bias_last_ = 0;  // the table last used
  std::vector<AttentionShare> shares_;
  std::vector<AttentionMerge> merges_;
  uint32_t slots_ = 0, slot_rows_ = 0;  // results of split shares; rows that a kernel may write of one
  std::vector<float> route_weights_;    // [rows][experts]
  std::vector<uint32_t> route_ids_;     // [rows][used], ascending in each row
  std::vector<float> gates_;            // [rows][heads] of a recurrence's steps or rates, then of its decays
  std::vector<float> keys_;             // [rows][key heads][dimensions] of queries, then of keys, divided by their lengths
  RopeTable rope_tables_[2];
  uint32_t rope_last_ = 0;  // the table last prepared
};

// Few rows are not worth a region.
template <typename F>
void CpuBackend::for_rows(uint32_t n, const F& fn) {
  constexpr uint32_t kGrain = 8;
  const uint32_t grain = n <= kFewRows ? kFewRows : kGrain;
  pool_.parallel_for((n + grain - 1) / grain, [&](uint32_t chunk, uint32_t) {
    const uint32_t end = std::min(n, (chunk + 1) * grain);
    for (uint32_t row = chunk * grain; row < end; ++row) fn(row);
  });
}

}  // namespace kvrt
