// What a model's shape asks for: the KV and the states of its layers, and memory for its steps.
#include <algorithm>
#include <array>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"
#include "runtime/model/pass.h"

namespace kvrt {
namespace {

struct ScratchArray {
  float* Scratch::*array;
  uint64_t rows, width;
  CheckedSize bytes() const { return (CheckedSize(rows) * width * sizeof(float)).align(64); }  // whole cache lines
};

std::array<ScratchArray, 18> scratch_arrays(const ModelDims& d, const Backend& backend, uint32_t rows_max) {
  const LatentDims& l = d.latent;
  const uint32_t expert_width = d.experts > 0 ? d.width : 0, logits_rows = backend.unified() ? 0 : std::min(rows_max, kLogitsRowsMax);
  return {{
      {&Scratch::x, rows_max, d.width},
      {&Scratch::normed, rows_max, d.width},
      {&Scratch::qkv, rows_max, d.in_width_max()},
      {&Scratch::qkv_odd, rows_max, d.gated() ? d.in_width_max() : 0},
      {&Scratch::attended, rows_max, d.out_width_max()},
      {&Scratch::q_in, rows_max, l.q_rank},
      {&Scratch::by_head, rows_max, l.rank > 0 ? d.heads * l.by_head() : 0},
      {&Scratch::latent, rows_max, l.rank + l.rope},
      {&Scratch::gate_up, rows_max, d.gate_up_bias ? uint64_t{2} * d.ff : 0},
      {&Scratch::activated, rows_max, std::max<uint64_t>({d.ff, d.dense_ff, d.shared_ff, d.layer_inputs()})},
      {&Scratch::layer_inputs, rows_max, d.layer_inputs()},
      {&Scratch::input_gate, rows_max, d.per_layer},
      {&Scratch::router, rows_max, d.experts},
      {&Scratch::expert_in, rows_max, expert_width},
      {&Scratch::expert_out, rows_max, expert_width},
      {&Scratch::expert_sum, rows_max, d.experts_beside ? d.width : 0},
      {&Scratch::logits, logits_rows, d.vocab},
      {&Scratch::drawn, logits_rows, sizeof(DrawnToken) / sizeof(float)},
  }};
}

}  // namespace

uint32_t RecurrentDims::in_width(Mixer mixer) const {
  switch (mixer) {
    case Mixer::kConv:  // a gate before the convolution, one after it, its inputs
      return 3 * inner;
    case Mixer::kScan:  // a gate, x, B and C, the steps
      return inner + channels() + heads;
    default:  // Q, K and V, a gate, the rates and the decays
      return channels() + inner + 2 * heads;
  }
}

uint32_t ModelDims::in_width(uint32_t layer) const {
  return mixer(layer) == Mixer::kAttention ? heads_of(layer).qkv_width() : recurrent.in_width(mixer(layer));
}

uint32_t ModelDims::out_width(uint32_t layer) const {
  return mixer(layer) == Mixer::kAttention ? heads_of(layer).out_width() : recurrent.inner;
}

uint32_t ModelDims::in_width_max() const {
  uint32_t most = 0;
  for (uint32_t layer = 0; layer < layers; ++layer) most = std::max(most, in_width(layer));
  return most;
}

uint32_t ModelDims::out_width_max() const {
  uint32_t most = 0;
  for (uint32_t layer = 0; layer < layers; ++layer) most = std::max(most, out_width(layer));
  return most;
}

uint32_t ModelDims::kv_layer(uint32_t layer) const {
  uint32_t from = layer;
  if (layer >= own_kv()) from = own_kv() - 1;
  while (from > 0 && window(from) != window(layer)) --from;
  return from;
}

std::vector<KvLayer> kv_layers(const ModelDims& dims, uint32_t block_tokens, KvFormats formats) {
  std::vector<KvLayer> layers;
  for (uint32_t i = 0; i < dims.layers; ++i) {
    if (dims.mixer(i) != Mixer::kAttention) {
      layers.push_back({0, {0, 0, 0, block_tokens}, dims.recurrent.need()});
      continue;
    }
    const Heads heads = dims.heads_of(i);
    KvGeometry kv(1, heads.kv, {heads.dim, formats.k}, {heads.v_dim, formats.v}, block_tokens);
    kv.latent = heads.latent;
    kv.bias_apart = formats.bias_apart;
    layers.push_back({dims.window(i), kv});
    if (i >= dims.own_kv()) layers.back().of = dims.kv_layer(i);
  }
  return layers;
}

StepShape step_shape(const ModelDims& d, uint32_t rows_max) {
  uint32_t ff = std::max({d.ff, d.dense_ff, d.shared_ff});
  if (d.recurrent.taps > 0) ff = std::max(ff, (d.in_width_max() + 1) / 2);  // a projection is as a gate and up are
  StepShape shape{rows_max, std::max(d.context, 1u), d.width, ff, d.experts, d.heads, d.kv_heads, d.head_dim, {d.rope}};
  if (!d.windows.empty()) shape.ropes.push_back(d.window_rope);
  shape.layer_inputs = static_cast<uint32_t>(d.layer_inputs());
  if (d.plain_head) shape.plain_head = d.vocab;
  const LatentDims& l = d.latent;
  if (l.rank > 0) {
    shape.by_head = d.heads * std::max({l.rank, l.nope, l.v});
    shape.cells = uint64_t{d.heads} * l.q() * l.q_rank;
  }
  return shape;
}

Result<uint64_t> scratch_bytes(const ModelDims& dims, const Backend& backend, uint32_t rows_max) {
  CheckedSize total;
  for (const ScratchArray& a : scratch_arrays(dims, backend, rows_max)) total = total + a.bytes();
  uint64_t bytes = 0;
  if (!total.get(UINT64_MAX / 2, &bytes)) {
    return error(Code::kLimit, Detail::kNone, "scratch memory for %u rows is too large", rows_max);
  }
  return bytes;
}

Result<std::unique_ptr<ForwardScratch>> make_scratch(const Model& model, Backend* backend, uint32_t rows_max) {
  auto s = std::make_unique<Scratch>();
  s->rows_max = rows_max;
  KVRT_ASSIGN(const uint64_t bytes, scratch_bytes(model.dims, *backend, rows_max));
  s->cache = backend->make_run_cache();
  KVRT_ASSIGN(s->buffer, backend->alloc(bytes, /*populate=*/true));
  uint8_t* at = s->buffer->data();
  for (const ScratchArray& a : scratch_arrays(model.dims, *backend, rows_max)) {
    s.get()->*a.array = reinterpret_cast<float*>(at);
    uint64_t array_bytes = 0;
    a.bytes().get(bytes, &array_bytes);  // cannot fail: the sum fitted
    at += array_bytes;
  }
  return std::unique_ptr<ForwardScratch>(std::move(s));
}

}  // namespace kvrt
