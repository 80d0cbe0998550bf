// The only transformer pass. Read it top to bottom; what the ops compute, and in which order, is in runtime/compute/NUMERICS.md.
#include <algorithm>
#include <array>
#include <tuple>

#include "runtime/base/bytes.h"
#include "runtime/base/check.h"
#include "runtime/model/model.h"

namespace kvrt {
namespace {

// Row-major f32 arrays in one device buffer; [rows_max, ...] or [logits_max, ...].
class Scratch final : public ForwardScratch {
 public:
  uint64_t bytes() const override { return buffer->bytes(); }

  uint32_t rows_max = 0, logits_max = 0;
  std::unique_ptr<Buffer> buffer;
  float* x = nullptr;          // [rows, width] the residual stream
  float* normed = nullptr;     // [rows, width]
  float* qkv = nullptr;        // [rows, (heads + 2 kv_heads) * head_dim]
  float* attended = nullptr;   // [rows, heads * head_dim]
  float* gate_up = nullptr;    // [rows, 2 ff]
  float* activated = nullptr;  // [rows, ff]
  float* last = nullptr;       // [logits, width] rows whose logits are wanted
  float* router = nullptr;     // [rows, experts]
  float* expert_in = nullptr;  // [rows, width] the rows of one expert, and what it made of them
  float* expert_out = nullptr;
  Routes routes;
};

uint32_t qkv_width(const ModelDims& d) { return (d.heads + 2 * d.kv_heads) * d.head_dim; }

struct ScratchArray {
  float* Scratch::*array;
  uint64_t rows, width;
  CheckedSize bytes() const { return (CheckedSize(rows) * width * sizeof(float)).align(64); }  // whole cache lines
};

std::array<ScratchArray, 10> scratch_arrays(const ModelDims& d, uint32_t rows_max, uint32_t logits_max) {
  const uint32_t expert_width = d.experts > 0 ? d.width : 0;
  return {{
      {&Scratch::x, rows_max, d.width},
      {&Scratch::normed, std::max(rows_max, logits_max), d.width},
      {&Scratch::qkv, rows_max, qkv_width(d)},
      {&Scratch::attended, rows_max, uint64_t{d.heads} * d.head_dim},
      {&Scratch::gate_up, rows_max, uint64_t{2} * d.ff},
      {&Scratch::activated, rows_max, d.ff},
      {&Scratch::last, logits_max, d.width},
      {&Scratch::router, rows_max, d.experts},
      {&Scratch::expert_in, rows_max, expert_width},
      {&Scratch::expert_out, rows_max, expert_width},
  }};
}

// x += x's block of a layer, whose last matrix is `w` and whose output norm, if there is one, is post_norm.
void add_output(const Model& model, Backend* backend, const Weight& w, const std::vector<float>& post_norm, const float* in, uint32_t rows,
                Scratch* s) {
  const ModelDims& d = model.dims;
  if (!model.arch->post_norm) return backend->matmul(w, nullptr, in, rows, /*accumulate=*/true, s->x);
  backend->matmul(w, nullptr, in, rows, /*accumulate=*/false, s->normed);
  backend->rmsnorm(s->normed, post_norm.data(), d.rms_eps, rows, d.width, s->normed);
  backend->add(s->normed, rows, d.width, s->x);
}

const float* block_input(const Model& model, Backend* backend, const std::vector<float>& norm, uint32_t rows, Scratch* s) {
  if (!model.arch->pre_norm) return s->x;
  backend->rmsnorm(s->x, norm.data(), model.dims.rms_eps, rows, model.dims.width, s->normed);
  return s->normed;
}

// Q and K in place, by each head or by all of a row as one.
void normalize_qk(const Model& model, Backend* backend, const Layer& layer, uint32_t rows, float* q, float* k) {
  const ModelDims& d = model.dims;
  const bool row = model.arch->qk_norm == QkNorm::kRow;
  for (const auto& [x, norm, heads] : {std::tuple{q, &layer.q_norm, d.heads}, std::tuple{k, &layer.k_norm, d.kv_heads}}) {
    backend->rmsnorm_heads(norm->data(), d.rms_eps, rows, row ? 1 : heads, row ? heads * d.head_dim : d.head_dim, qkv_width(d), x);
  }
}

void attention_block(const Model& model, Backend* backend, const KvGeometry& kv, uint8_t* pool, uint32_t index, const Step& step,
                     Scratch* s) {
  const ModelDims& d = model.dims;
  const Layer& layer = model.layers[index];
  const uint32_t rows = step.n_rows(), stride = qkv_width(d), window = d.window(index);
  const float* bias = layer.qkv_bias.empty() ? nullptr : layer.qkv_bias.data();
  float* q = s->qkv;
  float* k = q + d.heads * d.head_dim;
  float* v = k + d.kv_heads * d.head_dim;

  const float* in = block_input(model, backend, layer.attn_norm, rows, s);
  backend->matmul(*layer.qkv, bias, in, rows, /*accumulate=*/false, s->qkv);
  if (model.arch->qk_norm != QkNorm::kNone) normalize_qk(model, backend, layer, rows, q, k);
  const RopeParams& rope = window > 0 ? d.window_rope : d.rope;
  backend->rope(rope, step.positions, d.heads + d.kv_heads, d.head_dim, stride, q);  // K's heads follow Q's in each row
  backend->kv_store(kv, pool, index, step, k, v, stride);
  backend->attention(kv, pool, index, step, {d.heads, d.attention_scale, d.attention_softcap, window}, q, stride, s->attended);
  add_output(model, backend, *layer.out, layer.post_attn_norm, s->attended, rows, s);
}

// Each expert's matrices run once, for all rows of the step that chose it; a row adds its experts' outputs in the order of their ids.
void experts_block(const Model& model, Backend* backend, const Layer& layer, const float* in, uint32_t rows, Scratch* s) {
  const ModelDims& d = model.dims;
  backend->matmul(*layer.router, nullptr, in, rows, /*accumulate=*/false, s->router);
  backend->route(s->router, rows, d.experts, d.experts_used, d.experts_normalize, &s->routes);
  for (uint32_t e = 0; e < d.experts; ++e) {
    const uint32_t first = s->routes.first[e], n = s->routes.first[e + 1] - first;
    if (n == 0) continue;
    const std::span<const uint32_t> chosen(s->routes.rows.data() + first, n);
    backend->gather_rows(in, chosen, d.width, s->expert_in);
    backend->matmul(*layer.experts[e].gate_up, nullptr, s->expert_in, n, /*accumulate=*/false, s->gate_up);
    backend->act_mul(model.arch->activation, s->gate_up, n, d.ff, s->activated);
    backend->matmul(*layer.experts[e].down, nullptr, s->activated, n, /*accumulate=*/false, s->expert_out);
    backend->add_rows(s->expert_out, chosen, {s->routes.weights.data() + first, n}, d.width, s->x);
  }
}

void mlp_block(const Model& model, Backend* backend, const Layer& layer, uint32_t rows, Scratch* s) {
  const ModelDims& d = model.dims;
  const float* in = block_input(model, backend, layer.ffn_norm, rows, s);
  if (d.experts > 0) return experts_block(model, backend, layer, in, rows, s);
  backend->matmul(*layer.gate_up, nullptr, in, rows, /*accumulate=*/false, s->gate_up);
  backend->act_mul(model.arch->activation, s->gate_up, rows, d.ff, s->activated);
  add_output(model, backend, *layer.down, layer.post_ffn_norm, s->activated, rows, s);
}

void head(const Model& model, Backend* backend, const Step& step, Scratch* s, float* logits) {
  const ModelDims& d = model.dims;
  const auto n = static_cast<uint32_t>(step.logits_rows.size());
  if (n == 0) return;
  backend->gather_rows(s->x, step.logits_rows, d.width, s->last);
  backend->rmsnorm(s->last, model.output_norm.data(), d.rms_eps, n, d.width, s->normed);
  backend->matmul(model.head_weight(), nullptr, s->normed, n, /*accumulate=*/false, logits);
  if (d.final_softcap > 0) backend->softcap(d.final_softcap, n, d.vocab, logits);
}

}  // namespace

Result<uint64_t> scratch_bytes(const ModelDims& dims, uint32_t rows_max, uint32_t logits_max) {
  CheckedSize total;
  for (const ScratchArray& a : scratch_arrays(dims, rows_max, logits_max)) total = total + a.bytes();
  uint64_t bytes = 0;
  if (!total.get(UINT64_MAX / 2, &bytes)) {
    return error(Code::kLimit, Detail::kNone, "scratch memory for %u rows and %u logits is too large", rows_max, logits_max);
  }
  return bytes;
}

Result<std::unique_ptr<ForwardScratch>> make_scratch(const Model& model, Backend* backend, uint32_t rows_max, uint32_t logits_max) {
  auto s = std::make_unique<Scratch>();
  s->rows_max = rows_max;
  s->logits_max = logits_max;
  KVRT_ASSIGN(const uint64_t bytes, scratch_bytes(model.dims, rows_max, logits_max));
  KVRT_ASSIGN(s->buffer, backend->alloc(bytes, /*populate=*/true));
  uint8_t* at = s->buffer->data();
  for (const ScratchArray& a : scratch_arrays(model.dims, rows_max, logits_max)) {
    s.get()->*a.array = reinterpret_cast<float*>(at);
    uint64_t array_bytes = 0;
    a.bytes().get(bytes, &array_bytes);  // cannot fail: the sum fitted
    at += array_bytes;
  }
  return std::unique_ptr<ForwardScratch>(std::move(s));
}

void forward(const Model& model, Backend* backend, const KvGeometry& kv, uint8_t* pool, const Step& step, ForwardScratch* scratch,
             float* logits) {
  auto* s = static_cast<Scratch*>(scratch);
  const uint32_t rows = step.n_rows();
  const uint64_t n_logits = step.logits_rows.size();
  KVRT_CHECK(rows <= s->rows_max && n_logits <= s->logits_max);
  KVRT_CHECK(kv.layers == model.dims.layers && kv.kv_heads == model.dims.kv_heads && kv.head_dim == model.dims.head_dim);

  backend->run(uint64_t{rows} << 32 | n_logits, [&] {
    backend->embed(*model.embedding, step.tokens, s->x);
    if (model.arch->scale_embedding) backend->scale(model.dims.embedding_scale, rows, model.dims.width, s->x);
    for (uint32_t i = 0; i < model.dims.layers; ++i) {
      attention_block(model, backend, kv, pool, i, step, s);
      mlp_block(model, backend, model.layers[i], rows, s);
    }
    head(model, backend, step, s, logits);
  });
}

}  // namespace kvrt
