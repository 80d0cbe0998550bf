// A device that hands every call on to another: a test overrides the one that it is about.
#pragma once

#include "runtime/compute/backend.h"

namespace kvrt::test {

class BackendProxy : public Backend {
 public:
  explicit BackendProxy(Backend* backend) : backend_(backend) {}
  Result<std::unique_ptr<Buffer>> alloc(uint64_t bytes, bool populate) override { return backend_->alloc(bytes, populate); }
  Result<std::unique_ptr<Buffer>> alloc_host(uint64_t bytes) override { return backend_->alloc_host(bytes); }
  bool unified() const override { return backend_->unified(); }
  void device_memory(uint64_t* total, uint64_t* free) const override { return backend_->device_memory(total, free); }
  Status upload(uint8_t* device, uint64_t bytes, const std::function<void(std::span<uint8_t> host)>& fill) override {
    return backend_->upload(device, bytes, fill);
  }
  Status download(std::span<uint8_t> host, const uint8_t* device) override { return backend_->download(host, device); }
  void copy(std::span<const BlockPair> pairs, uint64_t bytes) override { return backend_->copy(pairs, bytes); }
  void clear(uint8_t* device, uint64_t bytes) override { return backend_->clear(device, bytes); }
  Status sync() override { return backend_->sync(); }
  Result<std::vector<std::unique_ptr<Weight>>> make_weights(std::span<const TensorStack> stacks, const WeightLoad& load) override {
    return backend_->make_weights(stacks, load);
  }
  Result<uint64_t> weight_bytes(std::span<const TensorView> tensors) const override { return backend_->weight_bytes(tensors); }
  void embed(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) override {
    return backend_->embed(table, step, first, n, out);
  }
  void embed_positions(const Weight& table, const Step& step, uint32_t first, uint32_t n, float* out) override {
    return backend_->embed_positions(table, step, first, n, out);
  }
  void embed_table(const TensorView& table, const Step& step, uint32_t first, uint32_t n, float* out) override {
    return backend_->embed_table(table, step, first, n, out);
  }
  void rmsnorm(const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) override {
    return backend_->rmsnorm(x, weight, eps, rows, width, out);
  }
  void layernorm(const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width, float* out) override {
    return backend_->layernorm(x, weight, bias, eps, rows, width, out);
  }
  void rmsnorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) override {
    return backend_->rmsnorm_heads(weight, eps, rows, heads, head_dim, stride, x);
  }
  void layernorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                       float* x) override {
    return backend_->layernorm_heads(weight, eps, rows, heads, head_dim, stride, x);
  }
  void matmul(const Weight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) override {
    return backend_->matmul(w, bias, in, accumulate, out);
  }
  void matmul_heads(std::span<const std::unique_ptr<Weight>> heads, uint32_t n, const HeadRows& in, const HeadRows& out) override {
    return backend_->matmul_heads(heads, n, in, out);
  }
  void copy_heads(uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out) override {
    return backend_->copy_heads(heads, width, n, in, out);
  }
  void matmul_act(const Weight& gate_up, Activation act, const MatmulInput& in, float* out) override {
    return backend_->matmul_act(gate_up, act, in, out);
  }
  void act_mul(Activation act, const float* gate_up, uint32_t rows, uint32_t ff, float* out) override {
    return backend_->act_mul(act, gate_up, rows, ff, out);
  }
  void gelu(uint32_t rows, uint32_t width, float* x) override { return backend_->gelu(rows, width, x); }
  void relu_squared(uint32_t rows, uint32_t width, float* x) override { return backend_->relu_squared(rows, width, x); }
  void prepare_rope(const RopeParams& params, const Step& step) override { return backend_->prepare_rope(params, step); }
  void rope(const RopeParams& params, uint32_t first, uint32_t n, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) override {
    return backend_->rope(params, first, n, heads, head_dim, stride, x);
  }
  void temper(const Temperature& t, const Step& step, uint32_t first, uint32_t n, uint32_t width, uint32_t stride, float* x) override {
    return backend_->temper(t, step, first, n, width, stride, x);
  }
  void kv_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n, const float* k,
                const float* v, uint32_t stride) override {
    return backend_->kv_store(kv, pool, place, step, first, n, k, v, stride);
  }
  void attention(const KvGeometry& kv, const uint8_t* pool, KvPlace place, const Step& step, const AttentionParams& params, const float* q,
                 uint32_t stride, float* out) override {
    return backend_->attention(kv, pool, place, step, params, q, stride, out);
  }
  void conv(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ConvParams& params, uint32_t stride,
            float* x) override {
    return backend_->conv(states, pool, layer, step, params, stride, x);
  }
  void scan(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const ScanParams& params, uint32_t stride,
            const float* x, const float* dt, float* out) override {
    return backend_->scan(states, pool, layer, step, params, stride, x, dt, out);
  }
  void delta(const StateLayout& states, uint8_t* pool, uint32_t layer, const Step& step, const DeltaParams& params, uint32_t stride,
             const float* qkv, uint32_t gate_stride, const float* beta, const float* alpha, float* out) override {
    return backend_->delta(states, pool, layer, step, params, stride, qkv, gate_stride, beta, alpha, out);
  }
  void multiply(Gate gate, uint32_t n, uint32_t width, const float* x, uint32_t x_stride, const float* y, uint32_t y_stride, float* out,
                uint32_t out_stride) override {
    return backend_->multiply(gate, n, width, x, x_stride, y, y_stride, out, out_stride);
  }
  void add(const float* y, uint32_t rows, uint32_t width, float* x) override { return backend_->add(y, rows, width, x); }
  void scale(float factor, uint32_t rows, uint32_t width, float* x) override { return backend_->scale(factor, rows, width, x); }
  void softcap(float cap, uint32_t rows, uint32_t width, float* x) override { return backend_->softcap(cap, rows, width, x); }
  void route(const float* logits, uint32_t rows, const RouteParams& params, Routes* out) override {
    return backend_->route(logits, rows, params, out);
  }
  void add_rows(const float* y, std::span<const uint32_t> rows, std::span<const float> weights, uint32_t width, float* x) override {
    return backend_->add_rows(y, rows, weights, width, x);
  }
  void gather_rows(const float* x, std::span<const uint32_t> rows, uint32_t width, float* out) override {
    return backend_->gather_rows(x, rows, width, out);
  }
  void gather_logits_rows(const Step& step, uint32_t width, float* x) override { return backend_->gather_logits_rows(step, width, x); }
  void draw_rows(const Step& step, const float* logits, uint32_t vocab, DrawnToken* out) override {
    return backend_->draw_rows(step, logits, vocab, out);
  }
  void fetch(const float* x, uint64_t n, float* host) override { return backend_->fetch(x, n, host); }
  void by_rows(uint32_t rows, const std::function<void(uint32_t first, uint32_t n)>& fn) override { return backend_->by_rows(rows, fn); }
  void run(const StepRun& step, const std::function<void()>& fn) override { return backend_->run(step, fn); }
  std::unique_ptr<RunCache> make_run_cache() override { return backend_->make_run_cache(); }
  void set_threads(uint32_t threads) override { return backend_->set_threads(threads); }
  const char* name() const override { return backend_->name(); }
  const char* isa() const override { return backend_->isa(); }
  const char* numerics() const override { return backend_->numerics(); }

 protected:
  Backend* const backend_;
};

}  // namespace kvrt::test
