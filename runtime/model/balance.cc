// Evens out the weights of Q's and K's norms. q·k stays the same when a pair of dimensions that RoPE rotates together (no other scaling
// commutes with it) is taken times w in Q and divided by w in K. int8's error of K is the same in every dimension and reaches q·k times q:
// of all w, w^4 = |k|^2 / |q|^2 makes |q| |k|, and so the error, least.
#include <cmath>

#include "runtime/base/fp_env.h"
#include "runtime/model/model.h"

namespace kvrt {

namespace {

void balance(float* q, float* k, std::initializer_list<uint32_t> dims) {
  double qq = 0, kk = 0;
  for (const uint32_t d : dims) {
    qq += double{q[d]} * q[d];
    kk += double{k[d]} * k[d];
  }
  const double w = std::sqrt(std::sqrt(kk / qq));
  if (!std::isnormal(w)) return;  // a pair that is zero in one of them
  for (const uint32_t d : dims) {
    q[d] = static_cast<float>(q[d] * w);
    k[d] = static_cast<float>(k[d] / w);
  }
}

}  // namespace

void balance_qk(Model* model) {
  if (model->arch->qk_norm != QkNorm::kHeads || model->dims.shared_kv > 0) return;  // several layers' Q meet one K
  const ModelDims& d = model->dims;
  const FpEnv fp_env;
  for (uint32_t layer = 0; layer < d.layers; ++layer) {
    if (model->layers[layer].q_norm.values.empty()) continue;
    const RopeParams* rope = d.rope_of(layer);
    const uint32_t pairs = rope ? rope->dims / 2 : 0;
    float *q = model->layers[layer].q_norm.values.data(), *k = model->layers[layer].k_norm.values.data();
    for (uint32_t i = 0; i < pairs; ++i) {
      rope->style == RopeStyle::kHalves ? balance(q, k, {i, i + pairs}) : balance(q, k, {2 * i, 2 * i + 1});
    }
    for (uint32_t i = 2 * pairs; i < d.heads_of(layer).dim; ++i) balance(q, k, {i});
  }
}

}  // namespace kvrt
