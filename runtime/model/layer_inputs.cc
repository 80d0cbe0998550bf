// Per-layer inputs of the forward pass (Gemma 4): `per_layer` numbers for each row and layer, made of the row's embedding and of what a table
// has for its token. The table is large, and a step needs few of its rows: it stays in the file's memory.
#include <cmath>

#include "runtime/model/pass.h"

namespace kvrt {

// (norm(projection of x / sqrt(width)) + sqrt(per_layer) * the table's) / sqrt(2), the norm over each layer's numbers.
void embed_layers(const Pass& p, Rows rows) {
  const ModelDims& d = p.d;
  const auto width = static_cast<uint32_t>(d.layer_inputs());
  float *out = rows.of(p.s->layer_inputs, width), *own = rows.of(p.s->activated, width);
  p.backend->matmul(*p.model.layer_inputs, nullptr, {rows.of(p.s->x, d.width), rows.n}, /*accumulate=*/false, out);
  p.backend->scale(1 / std::sqrt(static_cast<float>(d.width)), rows.n, width, out);
  p.backend->rmsnorm_heads(p.model.layer_inputs_norm.device, d.norm_eps, rows.n, d.layers, d.per_layer, width, out);
  p.backend->embed_table(p.model.layer_table, p.step, rows.first, rows.n, own);
  p.backend->scale(std::sqrt(static_cast<float>(d.per_layer)), rows.n, width, own);
  p.backend->add(own, rows.n, width, out);
  p.backend->scale(1 / std::sqrt(2.0f), rows.n, width, out);
}

// x += norm(projection of (gelu(gate of x) * the layer's inputs)); then x is times the layer's scale.
void end_layer(const Pass& p, Rows rows, uint32_t index) {
  const ModelDims& d = p.d;
  const Layer& layer = p.model.layers[index];
  float* x = rows.of(p.s->x, d.width);
  if (d.per_layer > 0) {
    const auto stride = static_cast<uint32_t>(d.layer_inputs());
    float *gate = rows.of(p.s->input_gate, d.per_layer), *out = rows.of(p.s->normed, d.width);
    const float* inputs = rows.of(p.s->layer_inputs, stride) + uint64_t{index} * d.per_layer;
    p.backend->matmul(*layer.input_gate, nullptr, {x, rows.n}, /*accumulate=*/false, gate);
    p.backend->gelu(rows.n, d.per_layer, gate);
    p.backend->multiply(Gate::kPlain, rows.n, d.per_layer, gate, d.per_layer, inputs, stride, gate, d.per_layer);
    p.backend->matmul(*layer.input, nullptr, {gate, rows.n}, /*accumulate=*/false, out);
    p.backend->rmsnorm(out, layer.post_input_norm.device, d.norm_eps, rows.n, d.width, out);
    p.backend->add(out, rows.n, d.width, x);
  }
  if (!layer.out_scale.values.empty()) p.backend->scale(layer.out_scale.values[0], rows.n, d.width, x);
}

}  // namespace kvrt
