// The recurrent layers of the forward pass (runtime/compute/state_layout.h). A projected row is
//   kConv: gate, gate, x. The first gate multiplies x; the convolution; the second gate
//   kScan: gate, [x, B, C], dt. The convolution of what is in brackets; the recurrence; silu(gate); a norm of each group
//   kDelta: [Q, K, V], gate, beta, alpha. The convolution; the recurrence; a norm of each head; silu(gate)
#include "runtime/model/pass.h"

namespace kvrt {

void recurrent_input(const Pass& p, Rows rows, uint32_t index) {
  const Layer& layer = p.model.layers[index];
  const uint32_t stride = p.d.in_width(index), inner = p.d.recurrent.inner;
  float* in = rows.of(p.qkv(index), stride);
  p.backend->matmul(*layer.qkv, nullptr, block_input(p, rows, layer.attn_norm), /*accumulate=*/false, in);
  if (p.d.mixer(index) != Mixer::kConv) return;
  p.backend->multiply(Gate::kPlain, rows.n, inner, in, stride, in + 2 * inner, stride, in, stride);
}

void recur(const Pass& p, uint32_t index) {
  const Layer& layer = p.model.layers[index];
  const RecurrentDims& r = p.d.recurrent;
  const Mixer mixer = p.d.mixer(index);
  const uint32_t stride = p.d.in_width(index), state = p.kv.places[index].layer;
  float *in = mixer == Mixer::kScan ? p.qkv(index) + r.inner : p.qkv(index), *out = p.s->attended;
  const ConvParams conv{r.channels(), r.taps, layer.conv.device, layer.conv_bias.device, mixer != Mixer::kConv};
  p.backend->conv(p.kv.states, p.pool, state, p.step, conv, stride, in);
  const float* behind = in + r.channels();
  if (mixer == Mixer::kScan) {
    const ScanParams scan{r.heads, r.head_dim(), r.state, r.groups, layer.dt_bias.device, layer.a.device, layer.skip.device};
    p.backend->scan(p.kv.states, p.pool, state, p.step, scan, stride, in, behind, out);
  } else if (mixer == Mixer::kDelta) {
    const DeltaParams delta{r.heads, r.groups, r.state, r.head_dim(), r.tiled, p.d.norm_eps, layer.dt_bias.device, layer.a.device};
    const float* beta = behind + r.inner;
    p.backend->delta(p.kv.states, p.pool, state, p.step, delta, stride, in, stride, beta, beta + r.heads, out);
  }
}

void recurrent_output(const Pass& p, Rows rows, uint32_t index) {
  const Layer& layer = p.model.layers[index];
  const RecurrentDims& r = p.d.recurrent;
  const Mixer mixer = p.d.mixer(index);
  const uint32_t stride = p.d.in_width(index), inner = r.inner;
  const float* in = rows.of(p.qkv(index), stride);
  float* out = rows.of(p.s->attended, inner);
  const auto normalize = [&](uint32_t first, uint32_t runs, uint32_t dim) {
    p.backend->rmsnorm_heads(layer.state_norm.device + first, p.d.norm_eps, rows.n, runs, dim, inner, out + first);
  };
  if (mixer == Mixer::kConv) {
    p.backend->multiply(Gate::kPlain, rows.n, inner, in, stride, in + inner, stride, out, inner);
  } else if (mixer == Mixer::kScan) {
    p.backend->multiply(Gate::kSilu, rows.n, inner, out, inner, in, stride, out, inner);
    const uint32_t group = inner / r.groups;
    for (uint32_t first = 0; first < inner; first += group) normalize(first, 1, group);
  } else {
    normalize(0, r.heads, r.head_dim());
    p.backend->multiply(Gate::kSilu, rows.n, inner, out, inner, in + r.channels(), stride, out, inner);
  }
}

}  // namespace kvrt
