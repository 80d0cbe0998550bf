// What recurrent layers keep of a sequence: a state of fixed size after each token, in units of the pool.
#pragma once

#include <cstdint>

#include "runtime/compute/step.h"

namespace kvrt {

// A kind of numbers of a state: `items` of `bytes` each in every layer that has a state. No item lies in two units.
struct StateItems {
  uint32_t items = 0;                     // of a layer; 0: there are none
  uint32_t bytes = 0;                     // of an item: f32 numbers
  uint32_t per_unit = 0, first_unit = 0;  // items in a unit of a block; the first of the block's units that has any
};

// The state of all such layers after some token is a block: `units` units, the inputs that convolutions reach back to, then the states of
// recurrences. Layer l's item j is number n = l * items + j of its kind; it begins n % per_unit * bytes into unit first_unit + n / per_unit.
struct StateLayout {
  uint32_t layers = 0, units = 0;
  uint64_t unit_bytes = 0;
  StateItems inputs;  // [taps - 1][channels of the item], the oldest first
  StateItems heads;   // [state][head's dimensions]
};

// Item j of layer `layer` in the block of these units.
[[gnu::always_inline]] constexpr uint64_t state_offset(const StateLayout& s, const StateItems& kind, const int32_t* units, uint32_t layer,
                                                       uint32_t j) {
  const uint32_t n = layer * kind.items + j;
  return static_cast<uint64_t>(units[kind.first_unit + n / kind.per_unit]) * s.unit_bytes + uint64_t{n % kind.per_unit} * kind.bytes;
}

// A causal convolution of each channel by itself: out[t] = sum over i < taps of w[i] * in[t - (taps - 1) + i] (+ bias), then silu or not.
// Inputs before the first token are 0.
struct ConvParams {
  uint32_t channels = 0, taps = 0;                 // taps from 2 on
  const float *weight = nullptr, *bias = nullptr;  // [taps][channels], the oldest input's first; [channels] or null. On the device
  bool silu = false;
};

// What Backend::multiply multiplies by: y, silu(y) or sigmoid(y).
enum class Gate : uint32_t { kPlain, kSilu, kSigmoid };

// Mamba-2 (state space duality, arXiv 2405.21060). Per token and head h, of group h / (heads / groups), with x [head_dim], B and C [state]:
//   step = softplus(dt + dt_bias);  decay = exp(step * a)
//   S[n][d] = S[n][d] * decay + (step * x[d]) * B[n];  out[d] = sum over n of S[n][d] * C[n], plus skip * x[d]
struct ScanParams {
  uint32_t heads = 0, head_dim = 0, state = 0, groups = 1;
  const float *dt_bias = nullptr, *a = nullptr, *skip = nullptr;  // [heads], a negative; on the device
};

// The gated delta rule (arXiv 2412.06464). Per token and head h, with q and k [key_dim] of key head `key_head(h)`, each divided by its
// length (sqrt(sum of squares + eps)), q by sqrt(key_dim) too, and v [value_dim]:
//   decay = exp(a * softplus(alpha + dt_bias));  rate = sigmoid(beta)
//   S = S * decay;  d = (v - sum over n of S[n] * k[n]) * rate;  S[n] = S[n] + k[n] * d;  out = sum over n of S[n] * q[n]
struct DeltaParams {
  uint32_t heads = 0, key_heads = 0, key_dim = 0, value_dim = 0;
  bool tiled = false;  // value head h has key head h % key_heads; else h / (heads / key_heads)
  float eps = 0;
  const float *dt_bias = nullptr, *a = nullptr;  // [heads], a negative; on the device
  uint32_t key_head(uint32_t h) const { return tiled ? h % key_heads : h / (heads / key_heads); }
};

}  // namespace kvrt
