// CudaBackend's ops: the kernels of each, and the memory for their intermediate results.
#include <algorithm>
#include <cstring>

#include "cuda/backend/cuda_backend.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/compute/cpu/experts.h"

namespace kvrt::cuda {
namespace {

const DeviceWeight& view(const Weight& w) { return static_cast<const CudaWeight&>(w).view(); }
DeviceActivation device(Activation act) {
  if (act == Activation::kClampedSwiglu) return DeviceActivation::kClampedSwiglu;
  return act == Activation::kSilu ? DeviceActivation::kSilu : DeviceActivation::kGeluTanh;
}
constexpr size_t kRopeTablesMax = 16;  // kinds of rotations; a model has two at most

// fn(rows of the input, the first's index), kFewRows at a time.
template <typename Fn>
void by_few(const DeviceWeight& w, const MatmulInput& in, Fn&& fn) {
  for (uint32_t first = 0; first < in.n; first += kFewRows) {
    MatmulInput few = in;
    few.x += uint64_t{first} * w.cols;
    few.n = std::min(kFewRows, in.n - first);
    fn(few, first);
  }
}

}  // namespace

template <typename T>
T* CudaBackend::reserve(Scratch* scratch, uint64_t count) {
  return grow(scratch, count * sizeof(T)) ? reinterpret_cast<T*>((*scratch)->data()) : nullptr;
}

// ---- rows

void CudaBackend::embed(const Weight& table, const Step&, uint32_t first, uint32_t n, float* out) {
  cuda::embed(&stream_, view(table), arrays_.device().tokens + first, n, out);
}

void CudaBackend::embed_positions(const Weight& table, const Step&, uint32_t first, uint32_t n, float* out) {
  cuda::embed(&stream_, view(table), arrays_.device().positions + first, n, out);
}

void CudaBackend::embed_table(const TensorView& table, const Step&, uint32_t first, uint32_t n, float* out) {
  const uint64_t row = table.cols() * sizeof(float);
  stream_.check(cudaMemcpyAsync(out, table_rows_->data() + first * row, n * row, cudaMemcpyDeviceToDevice, stream_.handle));
}

void CudaBackend::rmsnorm(const float* x, const float* weight, float eps, uint32_t rows, uint32_t width, float* out) {
  cuda::rmsnorm(&stream_, x, weight, eps, rows, width, out);
}

void CudaBackend::layernorm(const float* x, const float* weight, const float* bias, float eps, uint32_t rows, uint32_t width, float* out) {
  cuda::layernorm(&stream_, x, weight, bias, eps, rows, width, out);
}

void CudaBackend::rmsnorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                                float* x) {
  cuda::rmsnorm_heads(&stream_, weight, eps, rows, heads, head_dim, stride, x);
}

void CudaBackend::layernorm_heads(const float* weight, float eps, uint32_t rows, uint32_t heads, uint32_t head_dim, uint32_t stride,
                                  float* x) {
  cuda::layernorm_heads(&stream_, weight, eps, rows, heads, head_dim, stride, x);
}

void CudaBackend::add(const float* y, uint32_t rows, uint32_t width, float* x) { cuda::add(&stream_, y, uint64_t{rows} * width, x); }

void CudaBackend::scale(float factor, uint32_t rows, uint32_t width, float* x) { cuda::scale(&stream_, factor, uint64_t{rows} * width, x); }

void CudaBackend::relu_squared(uint32_t rows, uint32_t width, float* x) { cuda::relu_squared(&stream_, uint64_t{rows} * width, x); }
void CudaBackend::gelu(uint32_t rows, uint32_t width, float* x) { cuda::gelu(&stream_, uint64_t{rows} * width, x); }

void CudaBackend::softcap(float cap, uint32_t rows, uint32_t width, float* x) { cuda::softcap(&stream_, cap, uint64_t{rows} * width, x); }

void CudaBackend::gather_logits_rows(const Step& step, uint32_t width, float* x) {
  class_rows_ = static_cast<uint32_t>(step.logits_rows.size());
  if (class_rows_ == step.n_rows()) return;  // every row has logits: nothing to gather
  cuda::gather_rows(&stream_, x, arrays_.device().logits_rows, class_rows_, width, x);
}

void CudaBackend::draw_rows(const Step& step, const float* logits, uint32_t vocab, DrawnToken* out) {
  cuda::draw_rows(&stream_, logits, static_cast<uint32_t>(step.draws.size()), vocab, arrays_.device().draws, out);
}

// ---- matmuls

bool CudaBackend::takes_few(const DeviceWeight& w) const {
  const bool plain = std::any_of(w.parts, w.parts + w.n_parts, [](const DevicePart& part) { return is_plain(part.type); });
  return determinism_ == Determinism::kStrict || class_rows_ <= (plain ? kFewRows : kMatvecRowsMax);
}

MatvecInput CudaBackend::matvec_input(const DeviceWeight& w, const MatmulInput& in) {
  if (matvec_takes_rows(w, in.n)) return {in.x, {}, in.n, in.norm, in.eps};
  MatvecInput out{in.x, {}, in.n};
  bool quantized = false, plain = false;
  for (uint32_t i = 0; i < w.n_parts; ++i) (is_plain(w.parts[i].type) ? plain : quantized) = true;
  if (quantized) {
    const uint64_t cells = uint64_t{kFewRows} * w.cols;
    out.quantized = {reserve<int8_t>(&q_, cells), reserve<float>(&d_, cells / kQuantBlock), reserve<float>(&s_, cells / kQuantBlock),
                     reserve<int16_t>(&sums_, cells / kQuantBlock * 2)};
    cuda::quantize_rows(&stream_, in.x, in.norm, in.eps, in.n, w.cols, out.quantized);
  }
  if (plain && in.norm) {
    float* normed = reserve<float>(&normed_, uint64_t{kFewRows} * w.cols);
    cuda::rmsnorm(&stream_, in.x, in.norm, in.eps, in.n, w.cols, normed);
    out.plain = normed;
  }
  return out;
}

const uint16_t* CudaBackend::gemm_input(const DeviceWeight& w, const MatmulInput& in) {
  auto* halves = reserve<uint16_t>(&halves_, gemm_rows(in.n) * w.cols);
  cuda::f16_rows(&stream_, in.x, in.norm, in.eps, in.n, static_cast<uint32_t>(gemm_rows(in.n)), w.cols, halves);
  return halves;
}

bool CudaBackend::many_rows_e4m3(const DeviceWeight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) {
  const auto is_f32 = [](const DevicePart& part) { return part.type == DType::kF32; };  // weights that a file keeps whole, such as a router
  if (!fp8_prompts_ || std::any_of(w.parts, w.parts + w.n_parts, is_f32) || !gemm_->takes_e4m3(w.rows, w.cols, in.n)) return false;
  auto* x = reserve<uint8_t>(&halves_, uint64_t{in.n} * w.cols);
  auto* dequantized = reserve<uint8_t>(&dequantized_, uint64_t{w.rows} * w.cols);
  auto* w_scales = reserve<float>(&scales_, uint64_t{w.rows} + in.n);  // reserved first, so that they are aligned
  float* products = accumulate ? reserve<float>(&products_, uint64_t{in.n} * w.rows) : out;
  if (stream_.error != cudaSuccess) return true;
  cuda::e4m3_rows(&stream_, in.x, in.norm, in.eps, in.n, w.cols, x, w_scales + w.rows);
  cuda::dequantize_e4m3(&stream_, w, dequantized, w_scales);
  if (stream_.error != cudaSuccess) return true;
  auto done = gemm_->gemm_e4m3(dequantized, w.rows, w.cols, x, in.n, products, stream_.handle);
  if (!done.is_ok()) fail(done.take_status());
  if (done.is_ok() && !*done) return false;
  cuda::scale_products(&stream_, products, w_scales + w.rows, w_scales, bias, in.n, w.rows, accumulate, out);
  return true;
}

// A library's gemm reads the weight as plain numbers: worth it where rows are many and that copy is not too large.
void CudaBackend::many_rows(const DeviceWeight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) {
  const uint64_t cells = uint64_t{w.rows} * w.cols;
  const bool library = gemm_ && cells <= kDequantizedMax;
  if (library && many_rows_e4m3(w, bias, in, accumulate, out)) return;
  const uint16_t* x = gemm_input(w, in);
  if (library && w.cols % 8 == 0) {
    auto* dequantized = reserve<uint16_t>(&dequantized_, cells);
    cuda::dequantize_f16(&stream_, w, dequantized);
    if (stream_.error != cudaSuccess) return;
    auto done = gemm_->gemm(dequantized, w.rows, w.cols, x, in.n, bias, accumulate, out, stream_.handle);
    if (!done.is_ok()) return fail(done.take_status());
    if (*done) return;
  }
  cuda::gemm(&stream_, w, bias, x, in.n, accumulate, out);
}

void CudaBackend::matmul(const Weight& w, const float* bias, const MatmulInput& in, bool accumulate, float* out) {
  const DeviceWeight& weight = view(w);
  if (!takes_few(weight)) return many_rows(weight, bias, in, accumulate, out);
  by_few(weight, in, [&](const MatmulInput& few, uint32_t first) {
    cuda::matvec(&stream_, weight, bias, matvec_input(weight, few), accumulate, out + uint64_t{first} * weight.rows);
  });
}

void CudaBackend::copy_heads(uint32_t heads, uint32_t width, uint32_t n, const HeadRows& in, const HeadRows& out) {
  cuda::copy_heads(&stream_, heads, width, n, in, out);
}

// The heads' rows apart, [heads][n][..], and a matmul of each.
void CudaBackend::matmul_heads(std::span<const std::unique_ptr<Weight>> heads, uint32_t n, const HeadRows& in, const HeadRows& out) {
  const auto count = static_cast<uint32_t>(heads.size());
  const uint32_t cols = heads[0]->cols(), rows = heads[0]->rows();
  const HeadRows x{reserve<float>(&heads_in_, uint64_t{count} * n * cols), cols, n * cols};
  const HeadRows y{reserve<float>(&heads_out_, uint64_t{count} * n * rows), rows, n * rows};
  if (stream_.error != cudaSuccess) return;
  cuda::copy_heads(&stream_, count, cols, n, in, x);
  for (uint32_t h = 0; h < count; ++h) {
    matmul(*heads[h], nullptr, {x.x + uint64_t{h} * x.apart, n}, /*accumulate=*/false, y.x + uint64_t{h} * y.apart);
  }
  cuda::copy_heads(&stream_, count, rows, n, y, out);
}

void CudaBackend::matmul_act(const Weight& gate_up, Activation act, const MatmulInput& in, float* out) {
  const DeviceWeight& weight = view(gate_up);
  KVRT_CHECK(act != Activation::kClampedSwiglu);
  if (takes_few(weight)) {
    return by_few(weight, in, [&](const MatmulInput& few, uint32_t first) {
      cuda::matvec_act(&stream_, weight, device(act), matvec_input(weight, few), out + uint64_t{first} * (weight.rows / 2));
    });
  }
  float* both = reserve<float>(&gate_up_, uint64_t{in.n} * weight.rows);
  many_rows(weight, nullptr, in, /*accumulate=*/false, both);
  cuda::act_mul(&stream_, both, device(act), in.n, weight.rows / 2, out);
}

void CudaBackend::act_mul(Activation act, const float* gate_up, uint32_t rows, uint32_t ff, float* out) {
  cuda::act_mul(&stream_, gate_up, device(act), rows, ff, out);
}

// ---- rotation

uint64_t CudaBackend::RopeTable::bytes(const RopeParams& params, uint32_t spans) {
  const uint64_t floats = 2 * (uint64_t{kStepRowsMax} + kTurnTokens + spans);
  return uint64_t{std::max(params.dims / 2, 1u)} * (floats * sizeof(float) + sizeof(double));
}

Result<const CudaBackend::RopeTable*> CudaBackend::make_rope_table(const RopeParams& params, uint32_t spans) {
  const auto at = std::find_if(rope_tables_.begin(), rope_tables_.end(), [&](const RopeTable& table) { return table.params == params; });
  if (at != rope_tables_.end()) rope_tables_.splice(rope_tables_.begin(), rope_tables_, at);
  if (at != rope_tables_.end() && at->spans >= spans) return &rope_tables_.front();
  const uint64_t pairs = params.dims / 2;
  std::vector<double> frequencies(pairs);
  rope_frequencies(params, frequencies.data());
  std::vector<float> turned(2 * pairs * (kTurnTokens + spans));  // offsets, then turns
  rope_offsets(frequencies, turned.data());
  rope_turns(frequencies, 0, spans, turned.data() + 2 * pairs * kTurnTokens);
  RopeTable table;
  table.params = params;
  table.spans = spans;
  KVRT_ASSIGN(table.memory, context_->alloc(RopeTable::bytes(params, spans)));
  table.cos = reinterpret_cast<float*>(table.memory->data());
  table.sin = table.cos + kStepRowsMax * pairs;
  table.offsets = table.sin + kStepRowsMax * pairs;
  table.turns = table.offsets + 2 * kTurnTokens * pairs;
  table.inv_freq = reinterpret_cast<double*>(table.turns + 2 * spans * pairs);
  const auto copy = [&](const void* from, size_t bytes, void* to) {
    return upload(static_cast<uint8_t*>(to), bytes, [&](std::span<uint8_t> host) { std::memcpy(host.data(), from, bytes); });
  };
  if (pairs > 0) KVRT_TRY(copy(turned.data(), turned.size() * sizeof(float), table.offsets));
  if (pairs > 0) KVRT_TRY(copy(frequencies.data(), pairs * sizeof(double), table.inv_freq));
  // Of shorter contexts, or too many.
  if (at != rope_tables_.end() || rope_tables_.size() == kRopeTablesMax) {
    KVRT_CHECK(!capturing_);
    stream_.check(cudaStreamSynchronize(stream_.handle));  // queued work still uses it
    rope_tables_.erase(at != rope_tables_.end() ? at : std::prev(rope_tables_.end()));
    ++generation_;
  }
  rope_tables_.push_front(std::move(table));
  return &rope_tables_.front();
}

void CudaBackend::prepare_rope(const RopeParams& params, const Step& step) {
  KVRT_CHECK(params.dims % 2 == 0);
  if (stream_.error != cudaSuccess) return;
  auto made = make_rope_table(params, spans_of(splits_));
  if (!made.is_ok()) return fail(made.take_status());
  const RopeTable& table = **made;
  cuda::rope_table(&stream_, arrays_.device().positions, step.n_rows(), table.inv_freq, params.dims / 2, rope_amplitude(params), table.cos,
                   table.sin);
}

const CudaBackend::RopeTable* CudaBackend::rope_table(const RopeParams& params) const {
  const auto at = std::find_if(rope_tables_.begin(), rope_tables_.end(), [&](const RopeTable& table) { return table.params == params; });
  KVRT_CHECK(at != rope_tables_.end() || stream_.error != cudaSuccess);
  return at != rope_tables_.end() ? &*at : nullptr;
}

void CudaBackend::rope(const RopeParams& params, uint32_t first, uint32_t n, uint32_t heads, uint32_t head_dim, uint32_t stride, float* x) {
  const RopeTable* table = rope_table(params);
  if (!table) return;
  KVRT_CHECK(params.dims <= head_dim);
  const uint32_t pairs = params.dims / 2;
  const uint64_t at = uint64_t{first} * pairs;
  cuda::rope(&stream_, table->cos + at, table->sin + at, pairs, params.style, n, heads, head_dim, stride, x);
}

void CudaBackend::temper(const Temperature& t, const Step&, uint32_t first, uint32_t n, uint32_t width, uint32_t stride, float* x) {
  cuda::temper(&stream_, t, arrays_.device().positions + first, n, width, stride, x);
}

// ---- KV

void CudaBackend::kv_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step&, uint32_t first, uint32_t n, const float* k,
                           const float* v, uint32_t stride) {
  cuda::kv_store(&stream_, kv, pool, place.layer, arrays_.rows_from(first, place), n, k, v, stride);
}

// With a norm over all heads of a row one block takes all of the row's Q: for many rows a kernel per operation is faster. A norm
// after the rotation and LayerNorms have no fused kernel.
void CudaBackend::rope_store(const KvGeometry& kv, uint8_t* pool, KvPlace place, const Step& step, uint32_t first, uint32_t n,
                             const QkParams& params, uint32_t stride, float* qkv) {
  if (params.norm_last || params.norm_layer || (params.q_norm && params.norm_rows && n > kFewRows))
    return Backend::rope_store(kv, pool, place, step, first, n, params, stride, qkv);
  DeviceRopeStore device{};
  if (params.rope) {
    const RopeTable* table = rope_table(*params.rope);
    if (!table) return;
    KVRT_CHECK(params.rope->dims <= kv.k.dim);
    device.pairs = params.rope->dims / 2;
    device.style = params.rope->style;
    device.cos = table->cos + uint64_t{first} * device.pairs;
    device.sin = table->sin + uint64_t{first} * device.pairs;
  }
  device.heads = params.heads;
  device.q_norm = params.q_norm;
  device.k_norm = params.k_norm;
  device.norm_rows = params.norm_rows;
  device.eps = params.eps;
  device.factors = params.factors;
  cuda::rope_store(&stream_, kv, pool, place.layer, arrays_.rows_from(first, place), n, device, stride, qkv);
}

void CudaBackend::decode_rows(const KvGeometry& kv, const uint8_t* pool, KvPlace place, uint32_t first, uint32_t n,
                              const DeviceAttention& params, const float* q, uint32_t stride, float* out) {
  const uint32_t most = rows_in_parts(kv, params.heads, splits_);
  auto* partials = reserve<float>(&partials_, decode_partials(kv, params.heads, most, splits_));
  for (uint32_t at = first; at < first + n; at += most) {
    cuda::decode_attention(&stream_, kv, pool, place.layer, arrays_.rows_from(at, place), std::min(most, first + n - at), splits_, params,
                           q + uint64_t{at} * stride, stride, partials, out + uint64_t{at} * params.heads * kv.v.dim);
  }
}

void CudaBackend::attention(const KvGeometry& kv, const uint8_t* pool, KvPlace place, const Step& step, const AttentionParams& params,
                            const float* q, uint32_t stride, float* out) {
  DeviceAttention p{params.heads, params.scale, params.softcap, params.window, params.sinks};
  if (params.key_bias) {
    const KeyBias& bias = *params.key_bias;
    const RopeTable* table = rope_table(*bias.rope);
    if (!table) return;
    p.key_bias = {bias.pairs, bias.values, bias.rope->dims / 2, bias.rope->style, table->offsets, table->turns};
  }
  const bool by_row = determinism_ == Determinism::kStrict || step.n_rows() <= kFewRows || !prefill_supported(kv);
  if (by_row) return decode_rows(kv, pool, place, 0, step.n_rows(), p, q, stride, out);
  for (const AttentionRun& few : arrays_.few_rows()) decode_rows(kv, pool, place, few.first, few.n, p, q, stride, out);
  cuda::prefill_attention(&stream_, kv, pool, place.layer, arrays_.rows_from(0, place), arrays_.tiles(), arrays_.n_tiles(), p, q, stride,
                          out);
}

// ---- experts: the host decides which of them run

void CudaBackend::route(const float* logits, uint32_t rows, const RouteParams& params, Routes* out) {
  std::vector<float> host(uint64_t{rows} * params.experts);
  if (stream_.error == cudaSuccess)
    stream_.check(cudaMemcpyAsync(host.data(), logits, host.size() * sizeof(float), cudaMemcpyDeviceToHost, stream_.handle));
  if (stream_.error == cudaSuccess) stream_.check(cudaStreamSynchronize(stream_.handle));
  route_rows(params, host.data(), rows, out);
}

// A copy to the device, queued behind the work that reads the one before it.
template <typename T>
T* CudaBackend::stage_rows(Scratch* scratch, std::span<const T> host) {
  T* to = reserve<T>(scratch, std::max<uint64_t>(host.size(), kFewRows));
  if (to) stream_.check(cudaMemcpyAsync(to, host.data(), host.size_bytes(), cudaMemcpyHostToDevice, stream_.handle));
  return to;
}

void CudaBackend::gather_rows(const float* x, std::span<const uint32_t> rows, uint32_t width, float* out) {
  const uint32_t* at = stage_rows(&rows_, rows);
  cuda::gather_rows(&stream_, x, at, static_cast<uint32_t>(rows.size()), width, out);
}

void CudaBackend::add_rows(const float* y, std::span<const uint32_t> rows, std::span<const float> weights, uint32_t width, float* x) {
  const uint32_t* at = stage_rows(&rows_, rows);
  const float* factors = stage_rows(&weights_, weights);
  cuda::add_scaled_rows(&stream_, y, at, factors, static_cast<uint32_t>(rows.size()), width, x);
}

}  // namespace kvrt::cuda
