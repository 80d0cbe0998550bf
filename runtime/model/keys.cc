// What formats of few bits need of K and Q. The bias of K's projection may be a hundred times what the projection itself gives (Qwen2.5: in
// the pairs that RoPE turns slowly), and then takes all of a row's bits; it is the same for every token, so K is stored without it. And where
// int4 has one error for all dimensions of a head, pairs of dimensions that are large in Q and small in K are made less so.
#include <algorithm>
#include <cmath>
#include <span>

#include "runtime/base/fp_env.h"
#include "runtime/compute/quant/quants.h"
#include "runtime/model/plan.h"

namespace kvrt {

namespace {

// A pair whose bias has so many times what the projection gives loses it.
constexpr double kBiasShare = 1.5;
// A pair of K is multiplied by (|q|^2 / |k|^2)^kFactorPower, one of Q divided by it. By the estimate 0.25 would make the error of q·k least.
constexpr double kFactorPower = 0.175;

// A layer's mean squares over tokens, by KV head and pair, of Q (of the first head that reads the KV head) and of K, as far as the weights tell
// them: of rows that are normalized numbers times the norm's weights.
struct PairSquares {
  std::vector<double> q, k;
};

class Reader {
 public:
  // norm: [width], or empty.
  Reader(const LayerTensors& tensors, std::span<const float> norm, uint32_t width) : tensors_(tensors), norm_(norm), row_(width) {}
  double square(uint64_t row) {
    for (const PlannedTensor& part : tensors_.qkv) {
      const uint64_t rows = part.tensor->view.ne[1];
      if (row >= rows) {
        row -= rows;
        continue;
      }
      dequantize_row(part.tensor->view, static_cast<int32_t>(row), row_.data());
      double sum = 0;
      for (size_t i = 0; i < row_.size(); ++i) {
        const double x = double{row_[i]} * (norm_.empty() ? 1.0 : double{norm_[i]});
        sum += x * x;
      }
      return sum;
    }
    return 0;
  }

 private:
  const LayerTensors& tensors_;
  std::span<const float> norm_;
  std::vector<float> row_;
};

// The two dimensions of a pair.
std::pair<uint32_t, uint32_t> pair_dims(const RopeParams& rope, uint32_t pair) {
  if (rope.style == RopeStyle::kInterleaved) return {2 * pair, 2 * pair + 1};
  return {pair, pair + rope.dims / 2};
}

PairSquares pair_squares(const LayerTensors& tensors, const Layer& layer, const Heads& heads, const RopeParams& rope, uint32_t width) {
  const std::span<const float> norm = layer.attn_norm.values;  // LayerNorm has its biases behind
  Reader reader(tensors, norm.first(std::min<size_t>(width, norm.size())), width);
  PairSquares out;
  const std::vector<float>& bias = layer.qkv_bias.values;
  for (uint32_t h = 0; h < heads.kv; ++h) {
    const uint64_t q = uint64_t{h} * (heads.q / heads.kv) * heads.dim, k = uint64_t{heads.q_width()} + h * heads.dim;
    for (uint32_t i = 0; i < rope.dims / 2; ++i) {
      const auto [a, b] = pair_dims(rope, i);
      const auto own = [&](uint64_t d) { return bias.empty() ? 0.0 : double{bias[d]} * bias[d]; };
      out.q.push_back(reader.square(q + a) + reader.square(q + b) + own(q + a) + own(q + b));
      out.k.push_back(reader.square(k + a) + reader.square(k + b));
    }
  }
  return out;
}

// Takes the bias of the pairs that need it out of K. True: there were any.
bool take_bias(const PairSquares& squares, const Heads& heads, const RopeParams& rope, Layer* layer) {
  std::vector<float>& bias = layer->qkv_bias.values;
  if (bias.empty()) return false;
  const uint32_t pairs = rope.dims / 2;
  std::vector<std::vector<uint32_t>> apart(heads.kv);
  for (uint32_t h = 0; h < heads.kv; ++h) {
    const float* k = bias.data() + heads.q_width() + h * heads.dim;
    for (uint32_t i = 0; i < pairs; ++i) {
      const auto [a, b] = pair_dims(rope, i);
      const double x = k[a], y = k[b];
      if (x * x + y * y > kBiasShare * kBiasShare * squares.k[uint64_t{h} * pairs + i]) apart[h].push_back(i);
    }
    layer->key_bias_pairs = std::max(layer->key_bias_pairs, static_cast<uint32_t>(apart[h].size()));
  }
  const double amplitude = rope_amplitude(rope);
  for (uint32_t h = 0; h < heads.kv; ++h) {
    float* k = bias.data() + heads.q_width() + h * heads.dim;
    for (const uint32_t i : apart[h]) {
      const auto [a, b] = pair_dims(rope, i);
      layer->key_bias.values.push_back(static_cast<float>(i));
      for (const uint32_t d : {a, b}) {
        layer->key_bias.values.push_back(static_cast<float>(double{k[d]} * amplitude));
        k[d] = 0;
      }
    }
    layer->key_bias.values.resize(uint64_t{3} * layer->key_bias_pairs * (h + 1));
  }
  return layer->key_bias_pairs > 0;
}

// Factors of Q's and K's dimensions; K's bias that is apart has them, too.
void take_factors(const PairSquares& squares, const Heads& heads, const RopeParams& rope, Layer* layer) {
  const uint32_t pairs = rope.dims / 2, group = heads.q / heads.kv;
  std::vector<float>& factors = layer->qk_factors.values;
  factors.assign(heads.q_width() + uint64_t{heads.kv} * heads.dim, 1.0f);
  for (uint32_t h = 0; h < heads.kv; ++h) {
    for (uint32_t i = 0; i < pairs; ++i) {
      const uint64_t at = uint64_t{h} * pairs + i;
      const double ratio = squares.q[at] / squares.k[at];
      const double factor = std::isnormal(ratio) ? rope_exp(kFactorPower * plain_log(ratio)) : 0;
      const auto up = static_cast<float>(factor), down = static_cast<float>(1 / factor);
      if (!std::isnormal(up) || !std::isnormal(down)) continue;  // a pair that is zero in one of them
      const auto [a, b] = pair_dims(rope, i);
      for (const uint32_t d : {a, b}) {
        factors[heads.q_width() + h * heads.dim + d] = up;
        for (uint32_t g = 0; g < group; ++g) factors[(h * group + g) * heads.dim + d] = down;
      }
    }
    float* bias = layer->key_bias.values.data() + uint64_t{3} * layer->key_bias_pairs * h;
    for (uint32_t i = 0; i < layer->key_bias_pairs; ++i, bias += 3) {
      const float up = factors[heads.q_width() + h * heads.dim + pair_dims(rope, static_cast<uint32_t>(bias[0])).first];
      bias[1] *= up;
      bias[2] *= up;
    }
  }
}

// Whether K is the rotated product of W, and maybe b: nothing lies between, and the rows are in order.
bool plain_keys(const LayerTensors& tensors, const Layer& layer, Mixer mixer, const Heads& heads) {
  const bool dealt = std::ranges::any_of(tensors.qkv, [](const PlannedTensor& part) { return part.deal.run != 0; });
  return mixer == Mixer::kAttention && layer.q_norm.values.empty() && !heads.gate && !dealt;
}

}  // namespace

Status fit_keys(const GgufFile& file, KvFormat format, Model* model) {
  if (!kv_scaled(format)) return {};
  if (format != KvFormat::kF8) balance_qk(model);
  const ModelDims& d = model->dims;
  if (d.latent.rank > 0 || d.shared_kv > 0) return {};
  KVRT_ASSIGN(const Plan plan, plan_weights(file, *model->arch, d));
  const FpEnv fp_env;
  for (uint32_t i = 0; i < d.layers; ++i) {
    Layer& layer = model->layers[i];
    const RopeParams* rope = d.rope_of(i);
    const Heads heads = d.heads_of(i);
    if (!rope || !plain_keys(plan.layers[i], layer, d.mixer(i), heads)) continue;
    if (format != KvFormat::kI4 && layer.qkv_bias.values.empty()) continue;
    const PairSquares squares = pair_squares(plan.layers[i], layer, heads, *rope, d.width);
    if (take_bias(squares, heads, *rope, &layer)) model->bias_apart = true;
    if (format == KvFormat::kI4) take_factors(squares, heads, *rope, &layer);
    for (const PlannedTensor& part : plan.layers[i].qkv) file.drop_pages(part.tensor->view.data);
  }
  return {};
}

}  // namespace kvrt
