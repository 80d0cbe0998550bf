// The only transformer pass. Every activation is [rows, width] f32, row-major, one row per row of the step.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/model/model.h"

namespace kvrt {

namespace {

struct Scratch final : ForwardScratch {
  uint64_t bytes() const override { return buffer->bytes(); }
  float* take(uint64_t floats) {
    float* p = reinterpret_cast<float*>(buffer->data()) + used;
    used += floats;
    return p;
  }

  std::unique_ptr<Buffer> buffer;
  uint64_t used = 0;  // floats given out
  uint32_t rows_max = 0, logits_max = 0;
  float* x = nullptr;        // [rows, width] the residual stream
  float* normed = nullptr;   // [rows, width]
  float* qkv = nullptr;      // [rows, (heads + 2 kv_heads) * head_dim]
  float* attended = nullptr; // [rows, heads * head_dim]
  float* gate_up = nullptr;  // [rows, 2 ff]
  float* hidden = nullptr;   // [rows, ff]
  float* last = nullptr;     // [logits rows, width]
  float* last_normed = nullptr;
};

uint64_t aligned(uint64_t floats) { return (floats + 15) / 16 * 16; }  // rows of every array start on a cache line

void attention_block(const Model& m, const Layer& layer, uint32_t index, Backend* b, const KvGeometry& kv, uint8_t* pool, const Step& step,
                     Scratch& s) {
  const ModelDims& d = m.dims;
  uint32_t rows = step.n_rows(), q_width = d.heads * d.head_dim, kv_width = d.kv_heads * d.head_dim, stride = q_width + 2 * kv_width;
  float *q = s.qkv, *k = q + q_width, *v = k + kv_width;
  b->rmsnorm(s.x, layer.attn_norm.data(), d.rms_eps, rows, d.width, s.normed);
  b->matmul(*layer.qkv, layer.qkv_bias.empty() ? nullptr : layer.qkv_bias.data(), s.normed, rows, false, s.qkv);
  b->rope(d.rope, step.positions, d.heads, d.head_dim, stride, q);
  b->rope(d.rope, step.positions, d.kv_heads, d.head_dim, stride, k);
  b->kv_store(kv, pool, index, step, k, v, stride);
  b->attention(kv, pool, index, step, d.heads, d.attention_scale, q, stride, s.attended);
  b->matmul(*layer.out, nullptr, s.attended, rows, true, s.x);
}

void feed_forward(const Model& m, const Layer& layer, Backend* b, uint32_t rows, Scratch& s) {
  const ModelDims& d = m.dims;
  b->rmsnorm(s.x, layer.ffn_norm.data(), d.rms_eps, rows, d.width, s.normed);
  b->matmul(*layer.gate_up, nullptr, s.normed, rows, false, s.gate_up);
  b->silu_mul(s.gate_up, rows, d.ff, s.hidden);
  b->matmul(*layer.down, nullptr, s.hidden, rows, true, s.x);
}

}  // namespace

Result<std::unique_ptr<ForwardScratch>> make_scratch(const Model& model, Backend* backend, uint32_t rows_max, uint32_t logits_max) {
  const ModelDims& d = model.dims;
  uint64_t widths[] = {d.width, d.width, uint64_t{d.heads + 2 * d.kv_heads} * d.head_dim, uint64_t{d.heads} * d.head_dim, uint64_t{2} * d.ff, d.ff};
  uint64_t floats = 2 * aligned(uint64_t{logits_max} * d.width);
  for (uint64_t width : widths) floats += aligned(rows_max * width);
  auto s = std::make_unique<Scratch>();
  KVRT_ASSIGN(s->buffer, backend->alloc(floats * sizeof(float), false));
  s->rows_max = rows_max;
  s->logits_max = logits_max;
  float** arrays[] = {&s->x, &s->normed, &s->qkv, &s->attended, &s->gate_up, &s->hidden};
  for (size_t i = 0; i < 6; ++i) *arrays[i] = s->take(aligned(rows_max * widths[i]));
  s->last = s->take(aligned(uint64_t{logits_max} * d.width));
  s->last_normed = s->take(aligned(uint64_t{logits_max} * d.width));
  return std::unique_ptr<ForwardScratch>(std::move(s));
}

void forward(const Model& model, Backend* backend, const KvGeometry& kv, uint8_t* pool, const Step& step, ForwardScratch* scratch,
             float* logits) {
  auto& s = static_cast<Scratch&>(*scratch);
  auto wanted = static_cast<uint32_t>(step.logits_rows.size());
  KVRT_CHECK(step.n_rows() <= s.rows_max && wanted <= s.logits_max);
  uint64_t shape_key = uint64_t{step.n_rows()} << 32 | wanted;
  backend->run(shape_key, [&] {
    backend->embed(*model.embedding, step.tokens, s.x);
    for (uint32_t i = 0; i < model.dims.layers; ++i) {
      attention_block(model, model.layers[i], i, backend, kv, pool, step, s);
      feed_forward(model, model.layers[i], backend, step.n_rows(), s);
    }
    if (wanted == 0) return;
    backend->gather_rows(s.x, step.logits_rows, model.dims.width, s.last);
    backend->rmsnorm(s.last, model.output_norm.data(), model.dims.rms_eps, wanted, model.dims.width, s.last_normed);
    backend->matmul(model.head_weight(), nullptr, s.last_normed, wanted, false, logits);
  });
}

}  // namespace kvrt
