// The only transformer pass. Read it top to bottom; runtime/compute/NUMERICS.md has the arithmetic of the ops, and the order of every sum.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/model/pass.h"

namespace kvrt {
namespace {

// The norm of the residual stream.
void normalize(const Pass& p, const Vector& norm, const float* x, uint32_t n, float* out) {
  const float* bias = p.arch.norm == NormKind::kLayerBias ? norm.device + p.d.width : nullptr;
  if (p.arch.norm == NormKind::kRms) return p.backend->rmsnorm(x, norm.device, p.d.norm_eps, n, p.d.width, out);
  p.backend->layernorm(x, norm.device, bias, p.d.norm_eps, n, p.d.width, out);
}

// The input of a matrix: the residual stream after `norm`, an RMSNorm on the way into it.
MatmulInput normed_input(const Pass& p, Rows rows, const Vector& norm) {
  const float* x = rows.of(p.s->x, p.d.width);
  if (p.arch.norm == NormKind::kRms) return {x, rows.n, norm.device, p.d.norm_eps};
  float* normed = rows.of(p.s->normed, p.d.width);
  normalize(p, norm, x, rows.n, normed);
  return {normed, rows.n};
}

}  // namespace

MatmulInput block_input(const Pass& p, Rows rows, const Vector& norm) {
  return p.arch.pre_norm ? normed_input(p, rows, norm) : MatmulInput{rows.of(p.s->x, p.d.width), rows.n};
}

namespace {

// x += the output of a block, whose last matrix is `w` and whose output norm, if there is one, is post_norm.
void add_output(const Pass& p, Rows rows, const Weight& w, const Vector& bias, const Vector& post_norm, const float* in) {
  float* x = rows.of(p.s->x, p.d.width);
  const bool scaled = p.d.residual_scale != 1;
  if (!p.arch.post_norm && !scaled) return p.backend->matmul(w, bias.device, {in, rows.n}, /*accumulate=*/true, x);
  float* out = rows.of(p.s->normed, p.d.width);
  p.backend->matmul(w, bias.device, {in, rows.n}, /*accumulate=*/false, out);
  if (p.arch.post_norm) normalize(p, post_norm, out, rows.n, out);
  if (scaled) p.backend->scale(p.d.residual_scale, rows.n, p.d.width, out);
  p.backend->add(out, rows.n, p.d.width, x);
}

void embed(const Pass& p, Rows rows) {
  float* x = rows.of(p.s->x, p.d.width);
  p.backend->embed(*p.model.embedding, p.step, rows.first, rows.n, x);
  if (p.model.positions) {
    float* positions = rows.of(p.s->normed, p.d.width);
    p.backend->embed_positions(*p.model.positions, p.step, rows.first, rows.n, positions);
    p.backend->add(positions, rows.n, p.d.width, x);
  }
  if (p.d.embedding_scale != 1) p.backend->scale(p.d.embedding_scale, rows.n, p.d.width, x);
  if (p.d.per_layer > 0) embed_layers(p, rows);
}

void temper(const Pass& p, Rows rows, uint32_t width, uint32_t stride, float* q) {
  if (p.d.temperature.scale != 0) p.backend->temper(p.d.temperature, p.step, rows.first, rows.n, width, stride, q);
}

// Q absorbed: each head's part without rotation becomes numbers that meet the latent itself; the rotated part stands behind them.
void latent_input(const Pass& p, Rows rows, uint32_t index) {
  const LatentDims& l = p.d.latent;
  const Layer& layer = p.model.layers[index];
  const LatentWeights& w = layer.latent;
  const uint32_t heads = p.d.heads, q_stride = heads * l.q(), width = l.rank + l.rope, stride = heads * width;
  const MatmulInput in = block_input(p, rows, layer.attn_norm);
  float *q = rows.of(p.s->by_head, heads * l.by_head()), *latent = rows.of(p.s->latent, width), *absorbed = rows.of(p.qkv(index), stride);
  if (l.q_rank > 0) {
    float* q_in = rows.of(p.s->q_in, l.q_rank);
    p.backend->matmul(*w.q_in, nullptr, in, /*accumulate=*/false, q_in);
    p.backend->matmul(*w.q, nullptr, {q_in, rows.n, layer.latent_q_norm.device, p.d.norm_eps}, /*accumulate=*/false, q);
  } else {
    p.backend->matmul(*w.q, nullptr, in, /*accumulate=*/false, q);
  }
  p.backend->matmul(*w.kv, nullptr, in, /*accumulate=*/false, latent);
  p.backend->rmsnorm_heads(layer.latent_norm.device, p.d.norm_eps, rows.n, 1, l.rank, width, latent);
  p.backend->rope(p.d.rope, rows.first, rows.n, 1, l.rope, width, latent + l.rank);
  p.backend->matmul_heads(w.key, rows.n, {q, q_stride, l.q()}, {absorbed, stride, width});
  p.backend->copy_heads(heads, l.rope, rows.n, {q + l.nope, q_stride, l.q()}, {absorbed + l.rank, stride, width});
  p.backend->rope(p.d.rope, rows.first, rows.n, heads, width, stride, absorbed + l.rank);
  temper(p, rows, stride, stride, absorbed);
  p.backend->kv_store(p.kv.unit(p.kv.places[index]), p.pool, p.kv.places[index], p.step, rows.first, rows.n, latent, nullptr, width);
}

// The part of a layer before attention: ends with Q, and with K and V in the pool.
void attention_input(const Pass& p, Rows rows, uint32_t index) {
  const ModelDims& d = p.d;
  if (d.mixer(index) != Mixer::kAttention) return recurrent_input(p, rows, index);
  if (d.latent.rank > 0) return latent_input(p, rows, index);
  const Layer& layer = p.model.layers[index];
  const Heads heads = d.heads_of(index);
  const uint32_t stride = heads.qkv_width();
  float* qkv = rows.of(p.qkv(index), stride);
  p.backend->matmul(*layer.qkv, layer.qkv_bias.device, block_input(p, rows, layer.attn_norm), /*accumulate=*/false, qkv);
  if (heads.q_alone) {
    p.backend->rmsnorm_heads(layer.q_norm.device, d.norm_eps, rows.n, heads.q, heads.dim, stride, qkv);
    return p.backend->rope(*d.rope_of(index), rows.first, rows.n, heads.q, heads.dim, stride, qkv);
  }
  if (p.arch.v_norm) {
    float* v = qkv + heads.q_width() + heads.kv * heads.dim;
    p.backend->rmsnorm_heads(layer.v_norm.device, d.norm_eps, rows.n, heads.kv, heads.v_dim, stride, v);
  }
  QkParams params{d.rope_of(index), heads.q};
  params.factors = layer.qk_factors.device;
  if (!layer.q_norm.values.empty()) {
    params.q_norm = layer.q_norm.device;
    params.k_norm = layer.k_norm.device;
    params.norm_rows = p.arch.qk_norm == QkNorm::kRow;
    params.norm_layer = p.arch.qk_norm == QkNorm::kLayerHeads;
    params.norm_last = p.arch.qk_norm_last;
    params.eps = d.norm_eps;
  }
  p.backend->rope_store(p.kv.unit(p.kv.places[index]), p.pool, p.kv.places[index], p.step, rows.first, rows.n, params, stride,
                        qkv + heads.gate_width());
  temper(p, rows, heads.q_width(), stride, qkv + heads.gate_width());
}

void attention_output(const Pass& p, Rows rows, uint32_t index) {
  const Layer& layer = p.model.layers[index];
  const LatentDims& l = p.d.latent;
  const uint32_t width = p.d.out_width(index), in_width = p.d.in_width(index);
  float* out = rows.of(p.s->attended, width);
  if (p.d.mixer(index) != Mixer::kAttention) {
    recurrent_output(p, rows, index);
  } else if (p.d.attention_gate) {
    p.backend->multiply(Gate::kSigmoid, rows.n, width, out, width, rows.of(p.qkv(index), in_width), in_width, out, width);
  } else if (l.rank > 0) {
    const uint32_t stride = p.d.heads * l.v;
    float* values = rows.of(p.s->by_head, p.d.heads * l.by_head());
    p.backend->matmul_heads(layer.latent.value, rows.n, {out, p.d.heads * l.rank, l.rank}, {values, stride, l.v});
    out = values;
  }
  add_output(p, rows, *layer.out, layer.out_bias, layer.post_attn_norm, out);
}

// The activated rows of an MLP or of an expert of width ff, whose biases begin at `bias`, or which has none.
const float* activate(const Pass& p, Rows rows, uint32_t ff, const Weight& gate_up, const float* bias, const MatmulInput& in) {
  float* out = rows.of(p.s->activated, ff);
  if (!p.arch.gated) {
    p.backend->matmul(gate_up, bias, in, /*accumulate=*/false, out);
    p.arch.activation == Activation::kReluSquared ? p.backend->relu_squared(rows.n, ff, out) : p.backend->gelu(rows.n, ff, out);
  } else if (bias) {
    float* both = rows.of(p.s->gate_up, uint64_t{2} * ff);
    p.backend->matmul(gate_up, bias, in, /*accumulate=*/false, both);
    p.backend->act_mul(p.arch.activation, both, rows.n, ff, out);
  } else {
    p.backend->matmul_act(gate_up, p.arch.activation, in, out);
  }
  return out;
}

void mlp(const Pass& p, Rows rows, uint32_t index, const MatmulInput& in) {
  const Layer& layer = p.model.layers[index];
  const float* activated = activate(p, rows, p.d.ff_of(index), *layer.gate_up, layer.gate_up_bias.device, in);
  add_output(p, rows, *layer.down, layer.down_bias, layer.post_ffn_norm, activated);
}

// The part of a layer after attention, where it has no experts.
void layer_output(const Pass& p, Rows rows, uint32_t index) {
  const Layer& layer = p.model.layers[index];
  if (p.arch.parallel) {
    float* normed = rows.of(p.s->normed, p.d.width);
    normalize(p, layer.attn_norm, rows.of(p.s->x, p.d.width), rows.n, normed);  // once more, so that it need not outlive attention
    attention_output(p, rows, index);
    return mlp(p, rows, index, {normed, rows.n});
  }
  attention_output(p, rows, index);
  if (p.d.has_mlp(index)) mlp(p, rows, index, block_input(p, rows, layer.ffn_norm));
}

// x += what the experts of s->routes make of `in`. Each expert's matrices run once, for all rows of the step that chose it; a row adds its
// experts' outputs in the order of their ids.
void add_experts(const Pass& p, const Layer& layer, const float* in, float* x) {
  const ModelDims& d = p.d;
  Scratch* s = p.s;
  for (uint32_t e = 0; e < d.experts; ++e) {
    const uint32_t first = s->routes.first[e], n = s->routes.first[e + 1] - first;
    if (n == 0) continue;
    const std::span<const uint32_t> chosen(s->routes.rows.data() + first, n);
    p.backend->gather_rows(in, chosen, d.width, s->expert_in);
    const float *up_bias = layer.gate_up_bias.device, *down_bias = layer.down_bias.device;
    if (up_bias) up_bias += uint64_t{2} * d.ff * e, down_bias += uint64_t{d.width} * e;
    const float* activated = activate(p, {0, n}, d.ff, *layer.experts[e].gate_up, up_bias, {s->expert_in, n});
    p.backend->matmul(*layer.experts[e].down, down_bias, {activated, n}, /*accumulate=*/false, s->expert_out);
    p.backend->add_rows(s->expert_out, chosen, {s->routes.weights.data() + first, n}, d.width, x);
  }
}

RouteParams route_params(const ModelDims& d, const float* bias) {
  return {
      d.experts, d.experts_used, d.experts_sigmoid, d.experts_normalize, d.experts_scale * d.residual_scale, d.expert_groups, d.groups_used,
      bias};
}

// Experts, router and MLP read the same rows, each after a norm of its own; what experts and MLP give, again each after a norm, is summed.
void experts_beside(const Pass& p, uint32_t rows, const Layer& layer) {
  const ModelDims& d = p.d;
  Scratch* s = p.s;
  p.backend->matmul(*layer.router, nullptr, {s->x, rows, layer.router_norm.device, d.norm_eps}, /*accumulate=*/false, s->router);
  p.backend->route(s->router, rows, route_params(d, nullptr), &s->routes);
  for (uint32_t e = 0; e < d.experts; ++e) {
    for (uint32_t i = s->routes.first[e]; i < s->routes.first[e + 1]; ++i) s->routes.weights[i] *= layer.expert_scale.values[e];
  }
  normalize(p, layer.experts_norm, s->x, rows, s->normed);
  p.backend->clear(reinterpret_cast<uint8_t*>(s->expert_sum), uint64_t{rows} * d.width * sizeof(float));
  add_experts(p, layer, s->normed, s->expert_sum);
  normalize(p, layer.post_experts_norm, s->expert_sum, rows, s->expert_sum);
  const float* activated =
      activate(p, {0, rows}, d.shared_ff, *layer.shared.gate_up, nullptr, {s->x, rows, layer.ffn_norm.device, d.norm_eps});
  p.backend->matmul(*layer.shared.down, nullptr, {activated, rows}, /*accumulate=*/false, s->normed);
  normalize(p, layer.post_mlp_norm, s->normed, rows, s->normed);
  p.backend->add(s->expert_sum, rows, d.width, s->normed);
  normalize(p, layer.post_ffn_norm, s->normed, rows, s->normed);
  p.backend->add(s->normed, rows, d.width, s->x);
}

// A row adds its experts' outputs, then that of the MLP that all rows go through.
void experts(const Pass& p, uint32_t rows, const Layer& layer) {
  if (p.d.experts_beside) return experts_beside(p, rows, layer);
  const ModelDims& d = p.d;
  Scratch* s = p.s;
  const float* in = s->x;
  if (p.arch.pre_norm) {
    normalize(p, layer.ffn_norm, s->x, rows, s->normed);
    in = s->normed;
  }
  p.backend->matmul(*layer.router, layer.router_bias.device, {in, rows}, /*accumulate=*/false, s->router);
  const float* bias = layer.choice_bias.values.empty() ? nullptr : layer.choice_bias.values.data();
  p.backend->route(s->router, rows, route_params(d, bias), &s->routes);
  add_experts(p, layer, in, s->x);
  if (d.shared_ff == 0) return;
  const float* activated = activate(p, {0, rows}, d.shared_ff, *layer.shared.gate_up, nullptr, {in, rows});
  if (!layer.shared_gate) return add_output(p, {0, rows}, *layer.shared.down, {}, {}, activated);
  p.backend->matmul(*layer.shared_gate, nullptr, {in, rows}, /*accumulate=*/false, s->router);
  p.backend->route(s->router, rows, {.experts = 1, .used = 1, .sigmoid = true, .normalize = false, .scale = d.residual_scale}, &s->routes);
  p.backend->matmul(*layer.shared.down, nullptr, {activated, rows}, /*accumulate=*/false, s->expert_out);
  p.backend->add_rows(s->expert_out, s->routes.rows, s->routes.weights, d.width, s->x);
}

// What was not computed is left from an earlier step.
void hide_unwanted(const Pass& p, float* logits) {
  if (p.step.vocab_wanted == 0) return;
  KVRT_CHECK(p.step.vocab_wanted <= p.d.vocab);
  for (uint32_t row = 0; row < p.step.logits_rows.size(); ++row, logits += p.d.vocab) {
    std::fill(logits + p.step.vocab_wanted, logits + p.d.vocab, kLogitUnwanted);
  }
}

void head(const Pass& p, float* logits, DrawnToken* drawn) {
  const ModelDims& d = p.d;
  const auto n = static_cast<uint32_t>(p.step.logits_rows.size());
  if (n == 0) return;
  float* out = p.backend->unified() ? logits : p.s->logits;
  MatmulInput in = normed_input(p, {0, n}, p.model.output_norm);
  in.outputs_wanted = p.step.vocab_wanted;
  p.backend->matmul(p.model.head_weight(), nullptr, in, /*accumulate=*/false, out);
  if (d.logit_scale != 1) p.backend->scale(p.arch.logit_scale ? d.logit_scale : 1 / d.logit_scale, n, d.vocab, out);
  if (d.final_softcap > 0) p.backend->softcap(d.final_softcap, n, d.vocab, out);
  if (out == logits) return hide_unwanted(p, out);
  if (p.step.draws.empty()) return p.backend->fetch(out, uint64_t{n} * d.vocab, logits);
  p.backend->draw_rows(p.step, out, d.vocab, reinterpret_cast<DrawnToken*>(p.s->drawn));
  p.backend->fetch(p.s->drawn, n * (sizeof(DrawnToken) / sizeof(float)), reinterpret_cast<float*>(drawn));
}

// Where rows meet: attention, or a recurrence.
void mix(const Pass& p, uint32_t index) {
  if (p.d.mixer(index) != Mixer::kAttention) return recur(p, index);
  const Heads heads = p.d.heads_of(index);
  const KvPlace place = p.kv.places[index];
  const Layer& layer = p.model.layers[index];
  AttentionParams params{heads.q, p.d.attention_scale, p.d.attention_softcap, p.d.window(index), layer.sinks.device};
  const KeyBias bias{p.d.rope_of(index), layer.key_bias_pairs, layer.key_bias.device};
  if (bias.values) params.key_bias = &bias;
  p.backend->attention(p.kv.unit(place), p.pool, place, p.step, params, p.qkv(index) + heads.gate_width(), p.d.in_width(index),
                       p.s->attended);
}

// The rows whose logits are wanted alone go on from the last layer's mixer.
uint32_t gather_last(const Pass& p, uint32_t index) {
  p.backend->gather_logits_rows(p.step, p.d.width, p.s->x);
  p.backend->gather_logits_rows(p.step, p.d.out_width(index), p.s->attended);
  if (p.d.gated()) p.backend->gather_logits_rows(p.step, p.d.in_width(index), p.qkv(index));
  if (p.d.per_layer > 0) p.backend->gather_logits_rows(p.step, static_cast<uint32_t>(p.d.layer_inputs()), p.s->layer_inputs);
  return static_cast<uint32_t>(p.step.logits_rows.size());
}

// A mixer, where rows meet, parts a layer in two; from one layer's to the next one's a row needs no other. After the last one x has the
// rows whose logits are wanted; where there are none, the step is for K, V and states alone, and ends with the last layer that has any.
void layers(const Pass& p) {
  const ModelDims& d = p.d;
  uint32_t rows = p.step.n_rows();
  p.backend->by_rows(rows, [&](uint32_t first, uint32_t n) {
    embed(p, {first, n});
    attention_input(p, {first, n}, 0);
  });
  for (uint32_t i = 0; i < d.layers; ++i) {
    const bool last = i + 1 == d.layers, done = i + 1 == d.own_kv() && p.step.logits_rows.empty();
    if (!done || d.mixer(i) != Mixer::kAttention) mix(p, i);
    if (done) return;
    if (last) rows = gather_last(p, i);
    const bool routed = d.has_experts(i);
    if (routed) {
      p.backend->by_rows(rows, [&](uint32_t first, uint32_t n) { attention_output(p, {first, n}, i); });
      experts(p, rows, p.model.layers[i]);
    }
    p.backend->by_rows(rows, [&](uint32_t first, uint32_t n) {
      if (!routed) layer_output(p, {first, n}, i);
      end_layer(p, {first, n}, i);
      if (!last) attention_input(p, {first, n}, i + 1);
    });
  }
}

}  // namespace

void forward(const Model& model, Backend* backend, const KvGroups& kv, uint8_t* pool, const Step& step, ForwardScratch* scratch,
             float* logits, DrawnToken* drawn) {
  auto* s = static_cast<Scratch*>(scratch);
  const uint32_t rows = step.n_rows();
  const uint64_t n_logits = step.logits_rows.size();
  KVRT_CHECK(rows <= s->rows_max && n_logits <= rows);
  KVRT_CHECK(kv.places.size() == model.dims.layers);
  for (uint32_t i = 0; i < model.dims.layers; ++i) {
    if (model.dims.mixer(i) != Mixer::kAttention) continue;
    const KvGeometry& unit = kv.unit(kv.places[i]);
    const Heads heads = model.dims.heads_of(i);
    KVRT_CHECK(unit.kv_heads == heads.kv && unit.k.dim == heads.dim && unit.v.dim == heads.v_dim && unit.latent == heads.latent);
  }
  KVRT_CHECK((kv.states.units > 0) == !model.dims.mixers.empty());
  KVRT_CHECK(step.n_tables == kv.tables() && step.n_groups == kv.groups.size());

  const Pass pass{model, backend, kv, pool, step, s};
  RunCache* cache = model.dims.experts > 0 ? nullptr : s->cache.get();  // the step itself finds out which experts run
  const TensorView* table = model.dims.per_layer > 0 ? &model.layer_table : nullptr;
  backend->run({&step, cache, uint64_t{rows} << 32 | n_logits << 1 | !step.draws.empty(), table}, [&] {
    if (model.dims.no_rope_period != 1) backend->prepare_rope(model.dims.rope, step);
    if (!model.dims.windows.empty()) backend->prepare_rope(model.dims.window_rope, step);
    layers(pass);
    head(pass, logits, drawn);
  });
}

}  // namespace kvrt
